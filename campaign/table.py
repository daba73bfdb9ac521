"""What became of faults: tried, survived, told of, lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Row:
    """One kind of fault.

    ``survived``: in the end the weights were equal bit for bit, or the result was equal. ``told``:
    it was refused with a message that says what to do, and once that was done it was equal too.
    Everything else is ``lost``, and ``notes`` say how.
    """

    fault: str
    tried: int = 0
    survived: int = 0
    told: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.tried - self.survived - self.told

    def add(self, equal: bool, note: str = "", told: bool = False) -> None:
        self.tried += 1
        if not equal:
            self.notes.append(note or "it was not equal")
        elif told:
            self.told += 1
        else:
            self.survived += 1


def markdown(rows: Iterable[Row]) -> str:
    """The table, and below it what was lost."""
    found = list(rows)
    lines = ["| fault | tried | survived | told | lost |", "|---|---:|---:|---:|---:|"]
    for row in [*found, _total(found)]:
        numbers = (row.tried, row.survived, row.told, row.lost)
        lines.append(f"| {row.fault} | " + " | ".join(map(str, numbers)) + " |")
    notes = [f"- {row.fault}: {note}" for row in found for note in row.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _total(rows: list[Row]) -> Row:
    total = Row("**all**")
    for row in rows:
        total.tried += row.tried
        total.survived += row.survived
        total.told += row.told
    return total
