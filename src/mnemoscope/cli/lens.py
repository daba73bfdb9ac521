"""``mnemoscope lens`` and ``state``: look inside a model, and measure what it carries.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.app import app
from mnemoscope.cli.options import (
    Options,
    Trust,
    check_file,
    examples,
    pairs,
    show_options,
    within,
)
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS, LENSES, find, options_of, registered
from mnemoscope.core.trust import trusting
from mnemoscope.huggingface.saving import check_destination

MOST = 1 << 20
# Rows of a table that are shown where no page is written.
MOST_ROWS = 40
HELP = ("--help", "-h")


@app.command(
    name="lens",
    # What help shows depends on the name of the lens.
    help_flags=(),
    usage="Usage: mnemoscope lens NAME --model MODEL [--text FILE] [--out DIR] [OPTIONS]",
    help_epilogue=examples(
        "mnemoscope lens information --model runs/text-transformer --text book.txt --out seen",
        "mnemoscope lens similarity --model runs/a --model runs/b --text book.txt --out seen",
        "mnemoscope lens evolution --model folder/of/a/model --model another --text book.txt",
        "mnemoscope lens waves --model folder/of/a/model --text book.txt --length 256 --out seen",
        "mnemoscope lens alignment --model runs/translation-luong --text pairs.txt --out seen",
        "mnemoscope lens retention --model runs/recall-gru --model gpt2 --ages 1,8,64",
    ),
)
def look(
    *words: Options,
    model: Annotated[list[str] | None, Parameter(negative=())] = None,
    text: Path | None = None,
    out: Path | None = None,
    trust: Trust = None,
) -> None:
    """Look inside models with one of the lenses below: NAME --model … and options by name.

    Parameters
    ----------
    words
        The name of a lens, then its options: "mnemoscope lens NAME --help" shows them.
    model
        A run folder, a Hugging Face folder, or a name on its hub; similarity takes two as well,
        evolution and retention any number.
    text
        A text file, for lenses that read: a text on every line, or paragraphs if lines are broken
        to fit a page; for lenses on translators a source sentence, or source and target separated
        by a tab.
    out
        A new folder for report.html and the tables; without it the numbers are shown.
    """
    console = Console()
    if words and words[0] in HELP:
        return _show_lenses(console)
    if not words or words[0].startswith("-"):
        raise UserError("name a lens: mnemoscope lens NAME …; mnemoscope lens --help lists them")
    with trusting(trust):
        name = registered("lens", words[0])
        kind = options_of("lens", name)
    if any(word in HELP for word in words):
        line = LENSES[name].line if name in LENSES else "a lens of your own"
        console.print(f"mnemoscope lens {name} --model MODEL [--text FILE] [--out DIR] …", "")
        return show_options(console, f"lens {name}", line, kind)
    options = pairs(words[1:])
    chosen = kind.make(**options)
    if not model:
        raise UserError("name a model: --model RUN, a Hugging Face folder, or a name on its hub")
    if out is not None:
        check_destination(out)
    for file in (text, *(value for _, value in chosen)):
        if isinstance(file, Path):
            check_file(file)
    from mnemoscope.publish import look as measure

    typed = ["mnemoscope", "lens", name, *(part for one in model for part in ("--model", one))]
    typed += [*(["--text", str(text)] if text else []), *words[1:]]
    typed += [part for module in trust or () for part in ("--trust", module)]
    command = shlex.join([*typed, "--out", str(out)])
    result = measure(name, model, text, out, trust, options, command)
    if out is not None:
        page = escape(str((out / "report.html").absolute()))
        return console.print(f"[bold]page[/bold]  {page}", soft_wrap=True)
    return _show_records(console, result.table())


def _show_lenses(console: Console) -> None:
    app.help_print(["lens"])
    table = Table(title="lenses", title_justify="left", box=None, show_header=False)
    for name, entry in LENSES.items():
        table.add_row(f"[bold]{name}", escape(entry.line))
    console.print(table, "", "Options of one of them: [bold]mnemoscope lens NAME --help")


def _show_records(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(*(escape(str(column)) for column in rows[0]), box=None)
    for row in rows[:MOST_ROWS]:
        cells = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values())
        table.add_row(*(escape(cell) for cell in cells))
    console.print(table)
    if len(rows) > MOST_ROWS:
        console.print(f"… and {len(rows) - MOST_ROWS} more rows: --out DIR writes all of them")


@app.command(
    help_epilogue=examples(
        "mnemoscope state",
        "mnemoscope state lstm --width 128",
        "mnemoscope state runs/recall-gru --tokens 4096",
        "mnemoscope state folder/of/a/model",
    ),
)
def state(
    *words: Options,
    tokens: int = 256,
    segment: int = 64,
    document: str | None = None,
    trust: Trust = None,
) -> None:
    """Measure what a model carries: the bytes from which a fresh process continues, bit for bit.

    Parameters
    ----------
    words
        Run folders, Hugging Face folders or names, or names of memories; by default every memory
        in its usual size. Options of a memory can follow one of them by name.
    tokens
        How many tokens it reads first.
    segment
        How many of them at once.
    document
        Which of its documents a document memory uses.
    """
    within("tokens", tokens, 1, MOST)
    within("segment", segment, 1, MOST)
    first = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    sources, given = list(words[:first]) or list(KINDS["memory"]), pairs(words[first:])
    options: dict[str, Any] = {**given, **({} if document is None else {"document": document})}
    for source in sources:
        if source in KINDS["memory"]:
            find("memory", source).make(**{"vocab": 2, **given})
    import torch

    from mnemoscope.fresh_process import Case, check_in_fresh_process

    some = torch.zeros(1, tokens, dtype=torch.long)
    with trusting(trust):
        cases = [Case(source, some, some[:, :8], segment, options) for source in sources]
        found = check_in_fresh_process(cases)
    console = Console()
    table = Table("model", "bytes", "tensors", "continues in a fresh process", box=None)
    for source, (carried, same) in zip(sources, found, strict=True):
        count = sum(tensor.numel() > 0 for _, tensor in carried.tensors())
        said = "bit for bit" if same else "[red]NOT[/red] the same"
        table.add_row(escape(source), f"{carried.nbytes:,}", str(count), said)
    console.print(f"After {tokens} tokens, read {segment} at a time, one stream carries")
    console.print(table)
    if len(found) == 1:
        for part, tensor in found[0][0].tensors():
            size = tensor.numel() * tensor.element_size()
            kind = str(tensor.dtype).removeprefix("torch.")
            console.print(f"  {part}  {kind} {tuple(tensor.shape)}  {size:,} bytes", soft_wrap=True)
    if not all(same for _, same in found):
        raise UserError("what was saved is not all that goes into the next tokens")
