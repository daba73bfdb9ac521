"""``mnemoscope past``: give a model an endless past, and ask on whole books what it is worth.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

from cyclopts import App
from rich.console import Console
from rich.markup import escape

from mnemoscope.cli.options import Options, check_file, configs, examples, pairs, within
from mnemoscope.core.errors import UserError

MOST_ROWS, MOST_TOKENS = 1 << 16, 1 << 40

past = App(
    name="past",
    help_format="plaintext",
    help="Give a Hugging Face model an endless past, and see what it is worth.",
)


@past.command(
    name="fit",
    help_epilogue=examples(
        "mnemoscope past fit --model models/small --text books/one.txt --out memories/past",
        "mnemoscope past fit --model models/small --text books/one.txt --out memories/both "
        "--layers 1,3 --window 64 --cached 32 --steps 500",
        "mnemoscope past fit --model models/small --text books/one.txt --out memories/xl "
        "--memory cache --cached 128 --steps 0",
    ),
)
def past_fit(
    *options: Options,
    model: str,
    text: list[Path],
    out: Path,
    memory: Literal["infinite", "cache"] = "infinite",
    rows: int = 8,
) -> None:
    """Attach a memory of all that was read before, and train it on long texts.

    Options of the memory (--window, --basis, --layers, --cached, --sticky …) and of its training
    (--steps, --lr, --learn, --horizon) can follow by name.

    Parameters
    ----------
    model
        A causal language model: a folder or a name on the hub.
    text
        What to learn from; several are read one after the other.
    out
        A new folder for the memory, and for the model if it learns too (--learn all).
    memory
        infinite, the signal of the ∞-former; or cache, the last keys of Transformer-XL.
    rows
        Streams that the texts are cut into, read side by side.
    """
    from mnemoscope.huggingface.config import CacheOptions, EndlessOptions, PastFitting

    kind = EndlessOptions if memory == "infinite" else CacheOptions
    within("rows", rows, 1, MOST_ROWS)
    chosen, fitting = configs(pairs(options), kind, PastFitting)
    fitting.check(chosen)
    from mnemoscope.huggingface.saving import check_destination, keep

    check_destination(out)
    from mnemoscope.data.documents import read_text
    from mnemoscope.huggingface.endless import EndlessMemory
    from mnemoscope.huggingface.endless_fitting import streams_of
    from mnemoscope.huggingface.limits import check_options
    from mnemoscope.huggingface.loading import load_config, load_model
    from mnemoscope.huggingface.quiet import quiet

    for path in text:
        check_file(path)
    check_options(load_config(model), chosen)
    texts = [read_text(path) for path in text]
    base, tokenizer = load_model(model)
    attached = EndlessMemory(base, chosen)
    learnt = attached if fitting.learn == "all" else attached.readers
    check_destination(out, sum(one.numel() * one.element_size() for one in learnt.parameters()))
    most = chosen.window * fitting.horizon * max(1, fitting.steps) + 1
    losses = attached.fit(streams_of(texts, tokenizer, rows, most), **fitting.model_dump())

    def write(folder: Path) -> Path:
        if fitting.learn == "all":
            with quiet():
                base.save_pretrained(folder / "model")
                tokenizer.save_pretrained(folder / "model")
            base.config._name_or_path = str(folder / "model")
        return attached.write(folder)

    home = keep(out, write)
    said = f"{len(losses)} steps"
    if losses:
        said += f", loss of the last {losses[-1]:.3f}"
    Console().print(f"[bold]memory[/bold]  {escape(str(home))}  ({said})", soft_wrap=True)


@past.command(
    help_epilogue=examples(
        "mnemoscope past worth memories/past --text books/two.txt --text books/three.txt"
    )
)
def worth(
    memory: Path, /, *, text: list[Path], model: str | None = None, most: int | None = None
) -> None:
    """Read whole texts, and compare their own past with none and with another text's.

    What the own past saves over another's is memory of content; what any past saves over none
    may be getting used to text. With one text there is no other.

    Parameters
    ----------
    memory
        The folder of the memory.
    text
        A text, such as a book; several are read side by side, each to its end.
    model
        The model; by default the one it was trained with.
    most
        Read at most so many tokens of each.
    """
    within("most", most, 2, MOST_TOKENS)
    for path in text:
        check_file(path)
    attached, tokenizer = _open(memory, model)
    from mnemoscope.data.documents import read_text
    from mnemoscope.huggingface.texts import first_ids

    texts = [read_text(path) for path in text]

    found = attached.worth([first_ids(tokenizer, one, most) for one in texts])
    sys.stdout.write(f"{found}\n")


def _open(folder: Path, model: str | None) -> tuple[Any, Any]:
    """The memory in a folder on its model, and the tokenizer."""
    from mnemoscope.huggingface.endless import EndlessMemory, read_saved
    from mnemoscope.huggingface.loading import load_model

    name = model or read_saved(folder)[1]["model"]
    if not name:
        raise UserError(f"the memory in {folder} does not say which model it is for: --model NAME")
    base, tokenizer = load_model(name)
    return EndlessMemory.load(folder, base), tokenizer
