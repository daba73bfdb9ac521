"""What a check found: verdicts of one model or of many, promise by promise. Imports no torch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from mnemoscope.checks.promises import PROMISES
from mnemoscope.lenses.lens import Records, Result
from mnemoscope.plots.figure import SEQUENTIAL, Plot, heatmap
from mnemoscope.report.document import Section

# limit: a difference that is expected, and has a remedy; error: the model raised one.
Verdict = Literal["kept", "limit", "broken", "error", "not asked"]
VERDICTS: tuple[Verdict, ...] = ("kept", "limit", "broken", "error", "not asked")
BAD: tuple[Verdict, ...] = ("broken", "error")
# What a matrix in text shows.
MARKS: dict[Verdict, str] = {
    "kept": "✓",
    "limit": "○",
    "broken": "✗",
    "error": "!",
    "not asked": "·",
}
# They tell verdicts apart without red against green; what is no fault fades into the page.
COLOURS: dict[Verdict, str] = {
    "kept": SEQUENTIAL[1],
    "limit": "#f0c66b",
    "broken": "#b3261e",
    "error": "#7a3b9a",
    "not asked": SEQUENTIAL[0],
}


@dataclass(frozen=True)
class Cell:
    """One promise of one model.

    difference  the largest, relative to the range of the logits; tolerance is what it may be
    where       the first place where it exceeds that
    note        the reason, where there is more to say
    snippet     lines that show it, of a promise that is not kept
    """

    promise: str
    verdict: Verdict
    difference: float | None = None
    tolerance: float | None = None
    where: str = ""
    note: str = ""
    snippet: str = ""

    @property
    def said(self) -> str:
        """The cell in a line."""
        apart = "" if self.difference is None else f"{self.difference:.2g} of the logits' range"
        allowed = "" if self.tolerance is None or not apart else f"(allowed {self.tolerance:.1g})"
        first = f"first at {self.where}" if self.where else ""
        return "; ".join(one for one in (f"{apart} {allowed}".strip(), first, self.note) if one)


@dataclass(frozen=True)
class Row:
    """One model: its name, class and size, and a cell for every promise.

    seconds  of CPU time that asking took
    noise    how far it is from itself in double precision, None when that is unknown
    missing  why it could not be built; then there are no cells
    """

    name: str
    model: str = ""
    parameters: int = 0
    noise: float | None = None
    seconds: float = 0.0
    cells: tuple[Cell, ...] = ()
    missing: str = ""

    def cell(self, promise: str) -> Cell:
        """The cell of a promise."""
        return next(one for one in self.cells if one.promise == promise)

    @property
    def bad(self) -> tuple[Cell, ...]:
        """Promises that are not kept."""
        return tuple(one for one in self.cells if one.verdict in BAD)


@dataclass(frozen=True, eq=False)
class CheckResult(Result):
    """Models by promises.

    rows      one for each model
    promises  the columns, as `PROMISES` names them
    versions  of the libraries that were asked
    """

    rows: tuple[Row, ...]
    promises: tuple[str, ...] = tuple(PROMISES)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def built(self) -> tuple[Row, ...]:
        """The models that could be asked."""
        return tuple(row for row in self.rows if not row.missing)

    @property
    def kept(self) -> bool:
        """Whether every model could be asked, and no promise is broken."""
        return not any(row.missing or row.bad for row in self.rows)

    def counts(self, promise: str | None = None) -> Counter[Verdict]:
        """How many cells have which verdict, of one promise or of all."""
        return Counter(
            cell.verdict
            for row in self.built
            for cell in row.cells
            if promise is None or cell.promise == promise
        )

    def sections(self) -> list[Section]:
        """The page, without its title."""
        from mnemoscope.checks.page import sections

        return sections(self)

    def table(self) -> Records:
        """One row per model and promise."""
        return [
            {
                "model": row.name,
                "promise": cell.promise,
                "verdict": cell.verdict,
                "difference": cell.difference,
                "tolerance": cell.tolerance,
                "where": cell.where,
                "note": cell.note,
            }
            for row in self.built
            for cell in row.cells
        ]

    def text(self) -> str:
        """The verdicts as plain text: a line for each promise of one model, a matrix of many."""
        if len(self.rows) == 1 and self.built:
            (row,) = self.built
            wide = max(map(len, self.promises))
            lines = [
                f"{MARKS[c.verdict]} {c.promise:<{wide}}  {c.said}".rstrip() for c in row.cells
            ]
            return "\n".join([row.name, *lines])
        wide = max(len(row.name) for row in self.rows)
        lines = [f"{number:>2} {name}" for number, name in enumerate(self.promises, 1)]
        lines += ["", " " * wide + "  " + " ".join(f"{n:>2}" for n in range(1, 1 + len(lines)))]
        for row in self.rows:
            marks = " ".join(f" {MARKS[cell.verdict]}" for cell in row.cells)
            lines.append(f"{row.name:<{wide}}  {marks or f'not built: {row.missing}'}")
        legend = ", ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items())
        return "\n".join([*lines, "", legend])

    def figure(self, only_broken: bool = False) -> Plot:
        """The matrix: models down, promises across; all models, or those that break one."""
        rows = [row for row in self.built if row.bad or not only_broken]
        numbers = [[VERDICTS.index(cell.verdict) for cell in row.cells] for row in rows]
        figure = heatmap(
            np.array(numbers, dtype=float).reshape(len(rows), len(self.promises)),
            self.promises,
            [row.name for row in rows],
            "promise",
            "",
            "",
            z_range=(-0.5, len(VERDICTS) - 0.5),
        )
        edges = np.linspace(0, 1, len(VERDICTS) + 1)
        scale = [
            [float(edge), COLOURS[verdict]]
            for verdict, pair in zip(VERDICTS, pairwise(edges), strict=True)
            for edge in pair
        ]
        bar: dict[str, Any] = {"lenmode": "pixels", "len": 170, "y": 1, "yanchor": "top"}
        bar |= {"tickvals": list(range(len(VERDICTS))), "ticktext": list(VERDICTS)}
        said = [[f"{cell.verdict}  {cell.said}"[:160] for cell in row.cells] for row in rows]
        figure.update_traces(
            colorscale=scale, colorbar=bar, text=said, xgap=1, ygap=1,
            hovertemplate="%{y} · %{x}<br>%{text}<extra></extra>",
        )  # fmt: skip
        figure.update_layout(height=160 + (11 if only_broken else 15) * max(len(rows), 4))
        # Every column has its name: a phone scrolls.
        figure.update_layout(meta={"min_width": 600})
        figure.update_xaxes(side="top", tickangle=-50, title=None, dtick=1)
        figure.update_yaxes(tickfont={"size": 10}, dtick=1)
        return figure
