"""``mnemoscope lens`` and ``state``: look inside a model, and measure what it carries.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.app import app
from mnemoscope.cli.options import Options, Trust, check_file, examples, pairs, within
from mnemoscope.core.bounded import read_text
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS, find
from mnemoscope.core.trust import trusting
from mnemoscope.huggingface.saving import check_destination

# Tokens read at once, clusters, frequencies; tokens read in all; bytes of a text.
MOST, MOST_TOKENS, MOST_TEXT = 1 << 20, 1 << 40, 1 << 30


@app.command(
    name="lens",
    help_epilogue=examples(
        "mnemoscope lens information --model runs/text-attention --text book.txt --out seen",
        "mnemoscope lens similarity --model runs/a --model runs/b --text book.txt --out seen",
        "mnemoscope lens influence --model folder/of/a/model --text book.txt --out seen",
        "mnemoscope lens waves --model folder/of/a/model --text book.txt --length 256 --out seen",
        "mnemoscope lens retention --model runs/recall-gru --model gpt2 --ages 1,8,64 --out seen",
    ),
)
def look(
    name: Literal["information", "similarity", "change", "influence", "waves", "retention"],
    /,
    *options: Options,
    model: list[str],
    out: Path,
    text: Path | None = None,
    sites: str = "embeddings,layer.*.out",
    length: int = 128,
    tokens: int = 50_000,
    clusters: int | None = None,
    samples: int | None = None,
    tags: Path | None = None,
    frequencies: int | None = None,
    trust: Trust = None,
) -> None:
    """Look inside a model, or at two of them side by side, while they read a text.

    The lens retention needs no text: it tells models things and asks for them later, in bits per
    byte that they carry. Its options (--ages, --items, --overwrites, --values, --episodes …) can
    follow by name: see "mnemoscope list retention".

    Parameters
    ----------
    name
        What to ask: information, similarity, change, influence, waves or retention.
    model
        A run folder, a Hugging Face folder, or a name on its hub; similarity takes two as well,
        retention any number.
    out
        A new folder for report.html and the tables.
    text
        A text file; every line is read on its own, for waves all of them one after the other.
    sites
        Places to look at, parted by commas; globs work.
    length
        Longer lines are read in pieces of so many tokens.
    tokens
        About how many tokens to read at most.
    clusters
        Clusters per layer, for information; by default one for 50 tokens, at most 1000.
    samples
        Tokens per group of frequency, for change and influence; by default as many as allow
        the four largest groups to be compared.
    tags
        A file with a line for every line of the text and in it a tag for every token, such as its
        part of speech: for change and influence by tag instead of by frequency.
    frequencies
        At least so many frequencies, for waves; by default those of windows of 64 tokens.
    """
    within("length", length, 2, MOST)
    within("tokens", tokens, 1, MOST_TOKENS)
    within("clusters", clusters, 2, MOST)
    within("samples", samples, 2, MOST_TOKENS)
    within("frequencies", frequencies, 1, MOST)
    check_destination(out)
    if name == "retention":
        if text is not None:
            raise UserError("retention reads no text: leave --text out")
        return _say_page(_ask_retention(model, out, trust, pairs(options)))
    if options:
        raise UserError(f"the lens {name} has no option {options[0]}")
    if text is None:
        raise UserError("give a text to read: --text FILE")
    if name != "similarity" and len(model) > 1:
        raise UserError(f"{name} looks at one model")
    if tags is not None and name not in ("change", "influence"):
        raise UserError(f"tags are for change and influence, not for {name}")
    lines = _lines(text)
    if not lines:
        raise UserError(f"{text} is empty: there is nothing to read")
    tagged = [line.split() for line in _lines(tags)] if tags else None
    from mnemoscope.api import lens as run_lens

    chosen: dict[str, Any] = {
        "clusters": clusters,
        "samples": samples,
        "length": length,
        "tokens": tokens,
        "frequencies": frequencies,
    }
    chosen |= {"tags": tagged} if tagged else {}
    places = [site.strip() for site in sites.split(",")]
    return _say_page(run_lens(name, model, lines, out, trust=trust, sites=places, **chosen))


def _ask_retention(
    models: list[str], out: Path, trust: list[str] | None, options: dict[str, str]
) -> Path:
    from mnemoscope.lenses.retention.episodes import RetentionOptions

    chosen = RetentionOptions.make(**options)
    from mnemoscope.api import lens as run_lens

    given = {name: getattr(chosen, name) for name in options}
    return run_lens("retention", models, (), out, trust=trust, **given)


def _say_page(page: Path) -> None:
    Console().print(f"[bold]page[/bold]  {escape(str(page.absolute()))}", soft_wrap=True)


def _lines(path: Path) -> list[str]:
    """The lines of a file that are not empty."""
    check_file(path)
    lines = [line.strip() for line in read_text(path, MOST_TEXT).splitlines()]
    return [line for line in lines if line]


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
    """Measure what a model carries: the bytes from which a fresh process goes on, bit for bit.

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
        The document that a document memory reads under.
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
    table = Table("model", "bytes", "tensors", "goes on in a fresh process", box=None)
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
