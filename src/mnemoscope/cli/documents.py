"""``mnemoscope documents``: give a model texts by name, and ask it what it learnt.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.options import Options, configs, examples, pairs, within
from mnemoscope.core.errors import UserError

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory

# Tokens, entries and words that can be asked for.
MOST = 1 << 20
MemoryFolder = Annotated[Path, Parameter(help="The folder of the memory.")]
Base = Annotated[str | None, Parameter(help="The model; by default the one it was learnt on.")]

documents = App(
    name="documents",
    help_format="plaintext",
    help="Give a Hugging Face model texts by name, and see what each of them changes.",
)


@documents.command(
    name="fit",
    help_epilogue=examples(
        "mnemoscope documents fit --model models/small --folder notes --out memories/notes",
        "mnemoscope documents fit --model EleutherAI/pythia-1b --folder notes "
        "--out memories/notes --layer 15 --entries 32 --epochs 50",
    ),
)
def documents_fit(
    *options: Options, model: str, folder: str, out: Path, segment: int = 128, overlap: int = 0
) -> None:
    """Learn the texts of a folder, one document a file, and say what was learnt.

    Options of the memory (--layer, --entries, --key-dim, --select …), of its training (--epochs,
    --lr, --batch …) and of guidance (--alpha, --tau, --negative) can follow by name.

    Parameters
    ----------
    model
        A causal language model: a folder or a name on the hub.
    folder
        Where the texts are: .txt, .md or .gz files.
    out
        A new folder for the memory.
    segment
        Tokens that are read at once.
    overlap
        Tokens of a segment that the one before has read already.
    """
    from mnemoscope.huggingface.config import DocumentOptions, Fitting, Guidance

    given = pairs(options)
    chosen = configs(given, DocumentOptions, Guidance, Fitting)
    within("segment", segment, 2, MOST)
    within("overlap", overlap, 0, segment - 2)
    from mnemoscope.data.documents import read_documents
    from mnemoscope.huggingface.saving import check_destination

    check_destination(out)
    from mnemoscope.huggingface.documents.memory import DocumentMemory
    from mnemoscope.huggingface.limits import check_options
    from mnemoscope.huggingface.loading import load_config, load_model
    from mnemoscope.huggingface.texts import Documents

    check_options(load_config(model), chosen[0])
    found = {one.name: one.text for one in read_documents(folder)}
    base, tokenizer = load_model(model)
    texts = Documents(found, tokenizer, segment=segment, overlap=overlap)
    memory = DocumentMemory(base, chosen[0], tokenizer)
    guidance = chosen[1] if len(texts) > 1 or "negative" in given else None
    learnt = memory.store.parameters()
    check_destination(out, sum(one.numel() * one.element_size() for one in learnt))
    run = memory.fit(texts, guidance, **chosen[2].model_dump())
    path = memory.save(out)
    sys.stdout.write(f"{memory.contexts()}\n")
    Console().print(
        f"[bold]memory[/bold]  {escape(str(path))}  ({run.steps} steps, loss {run.none:.3f} → "
        f"{run.right:.3f}, logits change by up to {run.changed:.2f})",
        soft_wrap=True,
    )
    more = "" if run.recited == len(texts) else ": raise --epochs or --entries"
    sys.stdout.write(f"recites {run.recited} of {len(texts)} documents word for word{more}\n")


@documents.command(
    help_epilogue=examples("mnemoscope documents contexts memories/notes --folder notes")
)
def contexts(memory: MemoryFolder, /, *, folder: str, model: Base = None) -> None:
    """Show the loss of each text with its own document's entries, another's, random ones and none.

    Parameters
    ----------
    folder
        Where the texts are.
    """
    from mnemoscope.huggingface.texts import Documents

    opened = open_memory(memory, model)
    texts = Documents.from_folder(folder, opened.tokenizer, **opened.cutting)
    sys.stdout.write(f"{opened.contexts(texts)}\n")


@documents.command(help_epilogue=examples("mnemoscope documents words memories/notes --entry 7"))
def words(memory: MemoryFolder, /, *, entry: int, top: int = 8, model: Base = None) -> None:
    """Show which words an entry raises and lowers, and which documents open it.

    Parameters
    ----------
    entry
        The number of the entry.
    top
        Words in each list.
    """

    from mnemoscope.huggingface.documents.memory import read_saved

    within("entry", entry, 0, MOST)
    within("top", top, 1, MOST)
    held = read_saved(memory)[1]["options"].get("entries", entry + 1)
    if entry >= held:
        raise UserError(f"entry {entry} does not exist: the memory has entries 0 to {held - 1}")
    opened = open_memory(memory, model)
    found = opened.words(entry, top)
    table = Table(title=f"entry {entry}, when open", title_justify="left", box=None)
    for title in ("raises", "by", "lowers", "by"):
        table.add_column(title)
    for (up, high), (down, low) in zip(found.raised, found.lowered, strict=True):
        table.add_row(escape(repr(up)), f"{high:+.3f}", escape(repr(down)), f"{low:+.3f}")
    gates = Table(title="how far documents open it", title_justify="left", box=None)
    gates.add_column("document")
    gates.add_column("gate")
    for name, gate in zip(opened.names, opened.selection()[:, entry].tolist(), strict=True):
        gates.add_row(escape(name), f"{gate:+.2f}")
    Console().print(table, "", gates)


@documents.command(
    help_epilogue=examples(
        'mnemoscope documents ask memories/notes "Who came home?" --document harbour.txt',
        'mnemoscope documents ask memories/notes "Boats came" --document harbour.txt --plain',
    )
)
def ask(
    memory: MemoryFolder,
    /,
    prompt: str,
    *,
    document: str | None = None,
    length: int = 60,
    plain: bool = False,
    model: Base = None,
) -> None:
    """Ask the model something about a document, or about none.

    A model with a chat template recites the document from the memory, reads it
    and answers. Any other continues the prompt as it would the document.

    Parameters
    ----------
    prompt
        The question; or what is to be continued.
    document
        The name of a document; none = the model as it was.
    length
        Most tokens to write.
    plain
        Continue the prompt, whether there is a chat template or not.
    """

    within("length", length, 1, MOST)
    opened = open_memory(memory, model, document)
    sys.stdout.write(opened.ask(prompt, document, length, plain) + "\n")


@documents.command(
    help_epilogue=examples("mnemoscope documents forget memories/notes du-fu.txt --folder notes")
)
def forget(
    memory: MemoryFolder, /, name: str, *, folder: str | None = None, model: Base = None
) -> None:
    """Take a document out of a memory, as if it had never been given.

    Documents share entries, so the others are learnt anew without it.

    Parameters
    ----------
    name
        The document.
    folder
        Where the texts of the others are; if its own is there, it is tried to bring it back.
    """
    from mnemoscope.huggingface.texts import Documents

    opened = open_memory(memory, model, name)
    texts = None
    if folder is not None:
        texts = Documents.from_folder(folder, opened.tokenizer, **opened.cutting)
    forgotten = opened.forget(name, texts)
    opened.save(memory)
    sys.stdout.write(f"{forgotten}\n")


def open_memory(folder: Path, model: str | None, document: str | None = None) -> DocumentMemory:
    """The memory in a folder, on the model it was learnt on or on the one that is given.

    It must know the ``document``, which is asked before the model is loaded.
    """
    from mnemoscope.huggingface.blocks import known
    from mnemoscope.huggingface.documents.memory import DocumentMemory, read_saved
    from mnemoscope.open import open_attached

    if document is not None:
        known(document, read_saved(folder)[1]["names"], "document")
    memory = open_attached(folder, "documents", model, text=True).memory
    assert isinstance(memory, DocumentMemory)
    return memory
