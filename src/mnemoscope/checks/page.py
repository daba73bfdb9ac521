"""The page of a check, from its result alone. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from mnemoscope.checks.promises import PROMISES
from mnemoscope.checks.result import VERDICTS, CheckResult, Row, Verdict
from mnemoscope.core.config import Config
from mnemoscope.report.document import Cell as CellValue
from mnemoscope.report.document import Code, Figure, Finding, Section, Table, finding

# Fewer tokens cannot be cut into pieces and padded; more would say the same.
FEWEST, MOST = 8, 4096
MOST_NAMED = 40


class Check(Config):
    """How a model is asked, and what its page is called."""

    title: ClassVar[str] = "Check"
    question: ClassVar[str] = "Which promises about state are kept?"
    Result: ClassVar[type[CheckResult]] = CheckResult

    tokens: int = Field(24, ge=FEWEST, le=MOST, description="tokens of the texts that are read")
    seed: int = Field(0, ge=0, lt=1 << 63, description="root of the randomness")

    @staticmethod
    def page(result: CheckResult) -> list[Section]:
        """The sections of a result; pure."""
        return sections(result)


def sections(result: CheckResult) -> list[Section]:
    """What was found; then the promises, what is not kept, limits, and who could not be asked."""
    found = [_finding(result), Section("The promises", [_promises(result)])]
    if _many(result):
        found.append(Section("All models", [_matrix(result, "Promises of all models", False)]))
    bad = [row for row in result.built if row.bad]
    if bad:
        found.append(Section("Not kept", [_cells("Promises that are not kept", bad)]))
        found.append(Section("Reproductions", _snippets(bad)))
    limits = [row for row in result.built if any(cell.verdict == "limit" for cell in row.cells)]
    if limits:
        found.append(
            Section("Expected limits", [_cells("Differences with a remedy", limits, True)])
        )
    missing = [[row.name, row.missing] for row in result.rows if row.missing]
    if missing:
        caption = "No promise was asked of these."
        found.append(Section("Not built", [Table("Not built", ["model", "why"], missing, caption)]))
    return found


def _finding(result: CheckResult) -> Finding:
    built, bad = result.built, [row for row in result.built if row.bad]
    if len(result.rows) == 1 and built:
        said = [_one(built[0])]
    else:
        counts = result.counts()
        missing = len(result.rows) - len(built)
        said = [
            f"Of {len(built)} models, {len(built) - len(bad)} keep every promise that can be asked "
            f"of them; {len(bad)} break at least one. {missing} could not be built.",
            f"Of {sum(counts.values()):,} cells {counts['kept']:,} are kept, "
            f"{counts['broken'] + counts['error']} are not, {counts['limit']} are expected limits "
            f"and {counts['not asked']} cannot be asked.",
        ]
    return finding(*said, figure=_matrix(result, "Promises kept", _many(result)))


def _many(result: CheckResult) -> bool:
    """Whether there are more models than a figure at the head of a page can name."""
    return len(result.built) > MOST_NAMED and any(row.bad for row in result.built)


def _matrix(result: CheckResult, name: str, only_broken: bool) -> Figure:
    shown = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    which = "a model that breaks one" if only_broken else "a model"
    rows = {row.name for row in result.built if row.bad or not only_broken}
    return Figure(
        name,
        result.figure(only_broken),
        f"Every row is {which}, every column a promise. {shown}.",
        [one for one in result.table() if one["model"] in rows] or [{"model": "none"}],
    )


def _one(row: Row) -> str:
    if not row.bad:
        asked = sum(cell.verdict not in ("not asked",) for cell in row.cells)
        return f"{row.name} keeps all of the {asked} promises that can be asked of it."
    names = ", ".join(cell.promise for cell in row.bad)
    return f"{row.name} breaks {len(row.bad)} of {len(row.cells)} promises: {names}."


def _promises(result: CheckResult) -> Table:
    rows: list[list[CellValue]] = []
    for name in result.promises:
        counts = result.counts(name)
        rows.append([name, PROMISES[name].says, *(counts[verdict] for verdict in VERDICTS)])
    caption = (
        "Differences are relative to the range of the logits. What is allowed follows the "
        "precision, the depth and the noise that was measured against double precision."
    )
    return Table("Promises", ["promise", "says", *VERDICTS], rows, caption)


def _cells(name: str, rows: Sequence[Row], limits: bool = False) -> Table:
    wanted: tuple[Verdict, ...] = ("limit",) if limits else ("broken", "error")
    cells: list[list[CellValue]] = [
        [row.name, cell.promise, cell.verdict, cell.difference, cell.where, cell.note]
        for row in rows
        for cell in row.cells
        if cell.verdict in wanted
    ]
    columns = ["model", "promise", "verdict", "difference", "first at", "note"]
    return Table(name, columns, cells, "Largest difference, relative to the range of the logits.")


def _snippets(rows: Sequence[Row]) -> list[str | Figure | Table]:
    parts: list[str | Figure | Table] = [
        "Each block stands alone. The last line prints the largest difference between logits that "
        "should be the same, beside their range, where a tensor is idle that between logits that "
        "do not notice its change; or the exception is raised."
    ]
    for row in rows:
        shown: dict[str, list[str]] = {}
        for cell in row.bad:
            shown.setdefault(cell.snippet, []).append(cell.promise)
        for text, names in shown.items():
            if text:
                parts.append(Code(f"# {row.name}: {', '.join(names)}\n{text}"))
    return parts
