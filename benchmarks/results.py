"""Write RESULTS.md: one section a benchmark, of which only the one that ran is replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.measure import Row
from benchmarks.provenance import Provenance
from mnemoscope.core.files import write_whole

PATH = Path(__file__).with_name("RESULTS.md")
HEAD = """# Benchmark results

Written by `python -m benchmarks all` (every benchmark, one after the other, each in a fresh
process) or `python -m benchmarks NAME` (one, which replaces its own rows only); do not edit by
hand. Ratios are medians over rounds in which all contestants take turns, with the quartiles behind
them. The ratios carry over to other machines better than the times do. Every row says on which
processor it was measured, with which of its instructions, and at which commit; *+changes* means
that files were not as in that commit.
"""
COLUMNS = ("key", "what", "ours", "theirs", "ratio", "middle half", "goal")
ORIGIN = ("processor", "commit")
# What is timed, unless a benchmark says otherwise.
CPU = "process CPU time"


def table(title: str, rows: Sequence[Row], clock: str = CPU) -> Table:
    """The rows for a terminal."""
    grid = Table(title=title, caption=f"1 thread, {clock}, warm-up excluded")
    for name in COLUMNS:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*_cells(row))
    return grid


def section(
    name: str, title: str, setting: str, rows: Sequence[Row], origin: Provenance, clock: str = CPU
) -> str:
    """The rows as a Markdown section that says how they came about."""
    threads = f"{origin.threads} thread{'s' if origin.threads > 1 else ''}"
    columns = (*COLUMNS, *ORIGIN)
    from_where = (f"{origin.processor}, {origin.instructions}", origin.commit)
    lines = [
        f"## {name}",
        "",
        f"**{title}**",
        "",
        setting,
        "",
        f"- command: `python -m benchmarks {name}`",
        f"- date: {origin.date}",
        f"- versions: {origin.versions}",
        f"- measured: {threads}, {clock}, warm-up excluded",
        "",
        _line(columns),
        _line(["---"] * len(columns)),
        *(_line([f"`{row.key}`", *_cells(row)[1:], *from_where]) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def replace(path: Path, name: str, new: str) -> None:
    """Put a section in the place of the one of that name, or at the end; keep all others."""
    sections = _sections(path)
    sections[name] = new
    whole = "\n".join(part.strip() + "\n" for part in (HEAD, *sections.values()))
    write_whole(path, whole.encode())


def keys(path: Path, name: str) -> list[str]:
    """The keys of the rows in the section of that name, in their order."""
    return re.findall(r"^\| `(\w+)` \|", _sections(path).get(name, ""), flags=re.MULTILINE)


def _sections(path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _, *parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {part.splitlines()[0].removeprefix("## ").strip(): part for part in parts}


def _cells(row: Row) -> tuple[str, ...]:
    figure, spread = f"{row.ratio.value:.2f}", f"{row.ratio.low:.2f}–{row.ratio.high:.2f}"
    return (row.key, row.what, row.ours, row.theirs, figure, spread, row.goal)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
