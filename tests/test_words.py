"""Names are the field's words: none is called by a private one (the table in the guide).

A word of the left column may still be used in another sense; those are listed with the reason.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import mnemoscope
from mnemoscope.core.registry import ATTACHED, KINDS, load, options_of
from mnemoscope.huggingface.caches.config import KVOptions
from mnemoscope.huggingface.config import Fitting, InfiniteFitting
from mnemoscope.training.config import Training

CODE = Path(mnemoscope.__file__).parent
# Not these, as a name of their own or as the last word of one, but the field's words.
PRIVATE = {
    "cache": "transformer_xl",
    "looks": "attention maps, attention mass",
    "hearing": "captured queries and keys",
    "heard": "captured queries and keys",
    "kept": "sparse KV state",
    "spans": "tiles",
    "words": "cross_attention",
    "reading": "continuous attention",
    "found": "output, context vector",
    "drive": "pre-activation",
    "longterm": "continuous attention",
    "endless": "infinite",
    "past": "infinite",
    "cached": "mem_len",
    "compressed": "compressed_len",
    "hidden": "mlp_ratio",
    "team": "accelerator",
    "places": "positions",
    "pieces": "fixed-length texts",
    "terms": "score decomposition",
    "turning": "rotary",
    "elsewhere": "fresh-process check",
    "questions": "episodes",
    "published": "reference",
    "telling": "sentences",
    "asking": "pages and measures of the lens they serve",
    "looking": "measures of the study they serve",
    "closeups": "measures of the study they serve",
    "gallery": "plots",
    "panels": "plots",
    "shelf": "run index",
    "desk": "sessions",
    "ours": "native",
    "theirs": "huggingface",
    "subjects": "models",
    "blanks": "masked_lm",
    "hiding": "masking",
    "echo": "delayed_answer",
}
# In another sense than the table means.
ALLOWED = {
    "documents fit --cache": "of the base's hidden states while a memory is learnt, not a memory",
    "infinite fit --cache": "of the base's hidden states while a memory is learnt, not a memory",
    "lens occurrences --words": "words of the text whose occurrences are compared",
    "publish.Published": "a study that was published, not a reference figure",
    "cli.documents.words": "words of the vocabulary that an entry makes likelier",
    "huggingface.documents.contexts.words": "words of the vocabulary that an entry makes likelier",
    "huggingface.documents.contexts.Words": "words of the vocabulary that an entry makes likelier",
}


def named() -> Iterator[tuple[str, str]]:
    """Every module, public class and public function: where it stands, and what it is called."""
    for path in sorted(CODE.rglob("*.py")):
        module = ".".join(path.relative_to(CODE).with_suffix("").parts)
        if module != "core.aliases":
            yield module, module.split(".")[-1]
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
                    yield f"{module}.{node.name}", node.name


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def test_no_module_class_or_function_has_a_private_name() -> None:
    wrong = {
        where: PRIVATE[words_of(name)[0]]
        for where, name in named()
        if len(words_of(name)) == 1 and words_of(name)[0] in PRIVATE and where not in ALLOWED
    }
    assert wrong == {}


def test_no_class_has_a_private_word_in_its_name() -> None:
    private = set(PRIVATE) - {"found", "hidden", "compressed", "words", "past"}
    wrong = [
        where
        for where, name in named()
        if name[0].isupper() and private & set(words_of(name)) and where not in ALLOWED
    ]
    assert wrong == []


def test_no_option_has_a_private_name() -> None:
    kinds = {f"{kind} {name}": options_of(kind, name) for kind in KINDS for name in KINDS[kind]}
    kinds |= {f"attached {name}": load(entry.path) for name, entry in ATTACHED.items()}
    kinds |= {"train": Training, "--cache": KVOptions}
    kinds |= {"documents fit": Fitting, "infinite fit": InfiniteFitting}
    options = {f"{name} --{one}": one for name, kind in kinds.items() for one in kind.model_fields}
    assert "horizon" not in Training.model_fields  # tbptt: the word is for where retention ends
    assert [what for what, one in options.items() if one in PRIVATE and what not in ALLOWED] == []


def test_no_parameter_of_a_command_has_a_private_name() -> None:
    wrong = [
        f"{path.stem} {node.name} --{given.arg}"
        for path in sorted((CODE / "cli").glob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        for given in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if given.arg in PRIVATE
    ]
    assert wrong == []


def test_nothing_that_can_be_typed_has_a_private_name() -> None:
    typed = [name for table in (*KINDS.values(), ATTACHED) for name in table]
    assert [name for name in typed if name in PRIVATE] == []


def test_the_name_of_a_test_says_what_only_it_tests() -> None:
    names = [
        node.name
        for path in Path(__file__).parent.rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 1000
    assert [name for name, count in Counter(names).items() if count > 1] == []


# Readers from the field had to ask what these mean.
ASKED_ABOUT = re.compile(
    r"\b(under (a|the|its|another) documents?|goes on|worth|(is|are|be) named|names? (most|least)"
    r"|[Ee]ven (attention|weights|samples)|attached past|((own|no|text's|book's) past))\b"
)
# A command, and what was written before it was called so.
SAID = {"mnemoscope infinite worth", " is named twice", " is named for validation"}


def sentences() -> Iterator[tuple[str, str]]:
    """All that pages, help and errors are made of: texts of more than one word, and help."""
    for path in sorted(CODE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        # What a command and a study say of themselves is their help and their question.
        if path.parent.name == "cli" or path.name == "study.py":
            comments = set()
        else:
            # No statement but a docstring is a text alone.
            alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
            comments = {id(value) for value in alone if isinstance(value, ast.Constant)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in comments:
                text = node.value
                if isinstance(text, str) and " " in text:
                    yield f"{path.relative_to(CODE)}:{node.lineno}", text


def test_no_sentence_has_a_word_that_a_reader_would_have_to_ask_about() -> None:
    found = [
        f"{where}: {text!r}"
        for where, text in sentences()
        if ASKED_ABOUT.search(text) and not any(said in text for said in SAID)
    ]
    assert found == []
