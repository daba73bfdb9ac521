"""Write RESULTS.md: one section a benchmark, of which only the one that ran is replaced."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from rich.table import Table

from benchmarks.measure import Row

PATH = Path(__file__).with_name("RESULTS.md")
HEAD = """# Benchmark results

Written by `python -m benchmarks NAME`; do not edit by hand. Ratios are medians over rounds in which
all contestants take turns, with the quartiles behind them. The ratios carry over to other machines
better than the times do.
"""
COLUMNS = ("key", "what", "ours", "theirs", "ratio", "middle half", "goal")


def table(title: str, rows: Sequence[Row]) -> Table:
    """The rows for a terminal."""
    grid = Table(title=title, caption="1 thread, process CPU time, warm-up excluded")
    for name in COLUMNS:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*_cells(row))
    return grid


def section(name: str, title: str, setting: str, rows: Sequence[Row]) -> str:
    """The rows as a Markdown section that says how they came about."""
    lines = [
        f"## {name}",
        "",
        f"**{title}**",
        "",
        setting,
        "",
        f"- command: `python -m benchmarks {name}`",
        f"- date: {datetime.date.today().isoformat()}",
        f"- versions: {_versions()}",
        f"- machine: {_processor()}; 1 thread, process CPU time, warm-up excluded",
        "",
        _line(COLUMNS),
        _line(["---"] * len(COLUMNS)),
        *(_line([f"`{row.key}`", *_cells(row)[1:]]) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def replace(path: Path, name: str, new: str) -> None:
    """Put a section in the place of the one of that name, or at the end; keep all others."""
    head, sections = _sections(path)
    sections[name] = new
    whole = "\n".join(part.strip() + "\n" for part in (head, *sections.values()))
    partial = path.with_name(path.name + ".partial")
    partial.write_text(whole)
    os.replace(partial, path)


def keys(path: Path, name: str) -> list[str]:
    """The keys of the rows in the section of that name, in their order."""
    return re.findall(r"^\| `(\w+)` \|", _sections(path)[1].get(name, ""), flags=re.MULTILINE)


def _sections(path: Path) -> tuple[str, dict[str, str]]:
    """The head of the file, and every section behind its name."""
    text = path.read_text(encoding="utf-8") if path.exists() else HEAD
    head, *parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return head, {part.splitlines()[0].removeprefix("## ").strip(): part for part in parts}


def _cells(row: Row) -> tuple[str, ...]:
    figure, spread = f"{row.ratio.median:.2f}", f"{row.ratio.low:.2f}–{row.ratio.high:.2f}"
    return (row.key, row.what, row.ours, row.theirs, figure, spread, row.goal)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _versions() -> str:
    packages = ("mnemoscope", "torch", "transformers")
    known = [f"{package} {version(package)}" for package in packages]
    return ", ".join([f"Python {platform.python_version()}", *known])


def _processor() -> str:
    # torch's kernels, and with them the ratios, depend on the vector instructions.
    return f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
