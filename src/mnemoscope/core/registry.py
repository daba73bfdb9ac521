"""The names a user can type. One line here registers a thing; nothing else has to change.

A path is ``module:attribute``. Such a path also works in place of a name, so a memory or task
that lives in somebody else's package needs no line at all, if the caller trusts that module.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mnemoscope.core.aliases import canonical
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.trust import check_trusted

if TYPE_CHECKING:
    from mnemoscope.core.config import Config


@dataclass(frozen=True)
class Entry:
    """Where a named thing lives, one line on what it is, and the name people know it by."""

    path: str
    line: str
    label: str = ""


def _listed(place: str, *rows: tuple[str, ...]) -> dict[str, Entry]:
    """Entries of this package by name: ``place`` is where they live, ``{}`` in it the name.

    A row is a name, a class, a line and, for models, the name people know it by.
    """
    return {
        name: Entry(f"mnemoscope.{place.format(name)}:{kind}", *rest) for name, kind, *rest in rows
    }


MEMORIES = _listed(
    "memories.{}",
    ("rnn", "RNN", "one vector, overwritten at every step", "RNN"),
    ("lstm", "LSTM", "a cell behind input, forget and output gates", "LSTM"),
    ("gru", "GRU", "one vector behind reset and update gates", "GRU"),
) | _listed(
    "memories.{}.config",
    (
        "transformer",
        "Transformer",
        "Transformer: keys and values of the tokens read",
        "Transformer",
    ),
    (
        "transformer_xl",
        "TransformerXL",
        "Transformer-XL: what layers were given before",
        "Transformer-XL",
    ),
    (
        "compressive",
        "Compressive",
        "Transformer-XL whose oldest tokens are compressed",
        "Compressive Transformer",
    ),
    ("infinite", "Infinite", "∞-former: a continuous signal of all that is older", "∞-former"),
    (
        "sparse",
        "Sparse",
        "Sparse Transformer: keys and values of tokens on a grid",
        "Sparse Transformer",
    ),
)

# Models that read a source first; what the encoder remembers is the state.
TRANSLATORS = _listed(
    "models.seq2seq.{}",
    (
        "vector",
        "OneVector",
        "RNN encoder-decoder, nothing but the last state between them",
        "one vector",
    ),
    (
        "bahdanau",
        "Bahdanau",
        "RNN encoder-decoder with additive attention before each step",
        "Bahdanau attention",
    ),
    ("luong", "Luong", "RNN encoder-decoder with attention after each step", "Luong attention"),
) | _listed(
    "models.seq2seq.{}.config",
    (
        "encoder_decoder",
        "EncoderDecoder",
        'the Transformer of "Attention is all you need"',
        "Transformer",
    ),
)

ENCODERS = _listed(
    "models.{}.config",
    (
        "encoder",
        "Encoder",
        "the encoder of the Transformer on its own, both ways or causal",
        "Encoder",
    ),
)

TASKS = _listed(
    "data.{}",
    ("copy", "Copy", "repeat symbols after a lag"),
    ("recall", "Recall", "say the value last stored under a key"),
    ("sorting", "Sorting", "sort symbols by how often they were seen"),
    ("characters", "Characters", "predict the next character of a text"),
    ("text", "Text", "predict the next byte, character or BPE token"),
    ("passages", "Passages", "predict the next token of passages of a text"),
    ("book", "Book", "say which document a passage is from: many to one"),
    ("spelling", "Spelling", "spell a word: one to many"),
    ("images", "Images", "predict the next pixel of an image"),
    ("translation", "Translation", "translate sentences"),
    ("sentences", "Sentences", "predict next or masked words"),
    ("delayed_answer", "DelayedAnswer", "fill in calls, and answers that come k tokens later"),
    ("masked_lm", "MaskedLM", "predict next or masked tokens of passages of a text"),
) | _listed(
    "data.{}.task",
    ("dialogue", "Dialogue", "reply in conversations about a document read before"),
)

LENSES = _listed(
    "lenses.{}.lens",
    ("retention", "Retention", "bits recalled by age, per byte carried"),
    ("horizon", "Horizon", "what can be read off a state, by age and frequency"),
    ("gates", "Gates", "how far LSTM and GRU gates open over time"),
    ("attention_maps", "AttentionMaps", "attention mass of a sparse model, layer by layer"),
    ("alignment", "Alignment", "attention of a translator on the source, word by word"),
    ("information", "Information", "nats that layers know of what was read"),
    ("change", "Change", "how much tokens change from layer to layer"),
    ("influence", "Influence", "how much tokens change each other, by layer"),
    ("neighbours", "Neighbours", "what neighbours in a layer's space share"),
    ("occurrences", "Occurrences", "a few tokens drawn layer by layer"),
    ("similarity", "Similarity", "how far apart layers and models are"),
    ("evolution", "Evolution", "what models keep of tokens with depth, and how these change"),
    ("spectrum", "Spectrum", "waves along positions in what layers hold"),
    ("heads", "Heads", "how heads attend to relative positions, and by what"),
    ("waves", "Waves", "spectra, heads, survival and filters in one reading"),
    ("reach", "Reach", "what each word of a translation depends on"),
)

# Where options of lenses live that are not called after the lens, in its result.py.
_OPTIONS = {
    "retention": "retention.episodes:RetentionOptions",
    "alignment": "lens:PairOptions",
    "reach": "lens:PairOptions",
    "change": "change.result:GroupedOptions",
    "influence": "change.result:GroupedOptions",
}

STUDIES = _listed(
    "studies.{}.study",
    (
        "retention",
        "RetentionStudy",
        "how many bits does each memory keep, for how long, in how many bytes?",
    ),
    ("lag", "Lag", "after how long do RNN, LSTM, GRU, Transformer forget?"),
    ("sorting", "SortingStudy", "how much of a long stream do XL, Compressive and ∞-former keep?"),
    ("books", "Books", "does carrying a memory through whole books help?"),
    ("images", "Drawing", "does sparse attention draw images as well as dense?"),
    ("patterns", "Patterns", "does sparse attention read text as well as dense?"),
    (
        "translation",
        "TranslationStudy",
        "one vector, attention, Transformer: which still translates long sentences?",
    ),
    (
        "evolution",
        "Evolution",
        "what do layers keep that learn to translate, to predict, or to fill in?",
    ),
    (
        "waves",
        "WavesStudy",
        "how do heads attend two tokens back when all they know are absolute positions?",
    ),
    ("documents", "DocumentsStudy", "can a model keep texts by name, and does guidance matter?"),
    ("infinite", "InfiniteStudy", "what does a long-term memory save that is attached to a model?"),
    ("dialogue", "DialogueStudy", "what is kept of the document that a conversation is about?"),
    ("caches", "CachesStudy", "what do compressed caches keep of a text, and in how many bytes?"),
)

# Memories for models of `transformers`: not built, but attached.
ATTACHED = _listed(
    "huggingface.config",
    ("documents", "DocumentOptions", "entries that a document switches on or off, after one block"),
    ("infinite", "InfiniteOptions", "∞-former: a continuous signal of all windows read before"),
    (
        "transformer_xl",
        "TransformerXLOptions",
        "Transformer-XL: keys and values of the last tokens",
    ),
)


KINDS = {
    "memory": MEMORIES,
    "translator": TRANSLATORS,
    "encoder": ENCODERS,
    "task": TASKS,
    "lens": LENSES,
    "study": STUDIES,
}
# What learns a task when nobody says what should.
FIRST_CHOICE = {"memory": "lstm", "translator": "encoder_decoder", "encoder": "encoder"}


def model_kind(name: str) -> str:
    """Which kind of models a name belongs to; a path is taken for a memory."""
    return next((kind for kind in ("translator", "encoder") if name in KINDS[kind]), "memory")


def registered(kind: str, name: str) -> str:
    """The name under which something is registered, or the path that was given instead of one."""
    meant = canonical(kind, name)
    if meant not in KINDS[kind] and ":" not in name:
        raise UserError(f"unknown {kind} {name!r}; {suggestion(name, KINDS[kind])}")
    return meant


def find(kind: str, name: str) -> Any:
    """Return what is registered under ``name``, or at the path ``module:attribute``.

    A path that is not registered is followed only into a module that the caller trusts.
    """
    table = KINDS[kind]
    name = registered(kind, name)
    path = table[name].path if name in table else name
    if name not in table:
        check_trusted(name, parts_of(path)[0])
    try:
        found = load(path)
    except ModuleNotFoundError as error:
        raise UserError(
            f"cannot load {kind} {name!r} from {path!r}: {error}. Install it, or put the folder "
            "that holds it on PYTHONPATH"
        ) from error
    # Somebody else's module may fail in any way while it is imported.
    except Exception as error:
        raise UserError(
            f"cannot load {kind} {name!r} from {path!r}: {type(error).__name__}: {error}"
        ) from error
    from mnemoscope.core.config import Config

    config = getattr(found, "Options", None) if kind == "lens" else found
    if not (isinstance(config, type) and issubclass(config, Config)):
        base = "mnemoscope.lenses.lens.Lens" if kind == "lens" else "Config"
        raise UserError(f"{path!r} is no {kind}: it must be a class that extends {base}")
    return found


def options_of(kind: str, name: str) -> type[Config]:
    """The class that has the options of a named thing; for a lens of ours no torch is imported."""
    name = registered(kind, name)
    options: type[Config]
    if kind == "lens" and name in LENSES:
        beside = f"{name}.result:{parts_of(LENSES[name].path)[1]}Options"
        options = load(f"mnemoscope.lenses.{_OPTIONS.get(name, beside)}")
    else:
        found = find(kind, name)
        options = found.Options if kind == "lens" else found
    return options


def load(path: str) -> Any:
    """What stands at a path ``module:attribute``, imported now."""
    module, attribute = parts_of(path)
    return getattr(importlib.import_module(module), attribute)


def parts_of(path: str) -> tuple[str, str]:
    """The module and the attribute of a path."""
    module, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), attribute]):
        raise UserError(f"{path!r} is not a path of the form package.module:Name")
    return module, attribute


def name_of(kind: type[Config]) -> str:
    """What the config of a model is registered as, or else its path."""
    path = f"{kind.__module__}:{kind.__qualname__}"
    for table in (MEMORIES, TRANSLATORS, ENCODERS):
        for name, entry in table.items():
            if entry.path == path:
                return name
    return path
