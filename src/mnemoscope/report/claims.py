"""A claim has a size: what is said to be seen, from how large an effect, and by models that learnt.

*Seen* is said only when every training shows the effect at its stated size, when the models behind
it passed their gates (they beat a trivial predictor), and when what measured it is not at its
ceiling. Everything a page says of an effect goes through here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.report.document import Table


@dataclass(frozen=True)
class Gate:
    """What a model must beat before anything is said of it, and by how much it does.

    ``margins`` is one number a training, above zero where the trivial predictor is beaten:
    ``Gate("loss below that of bigrams", bigram - losses)``.
    """

    name: str
    margins: Sequence[float] | Floats

    @property
    def passed(self) -> bool:
        """Every training is beyond it; of no training nothing is known."""
        margins = np.asarray(self.margins, dtype=np.float64)
        return bool(margins.size) and bool((margins > 0).all())

    def __str__(self) -> str:
        margins = np.asarray(self.margins, dtype=np.float64)
        if not margins.size:
            return f"{self.name}: no training came to its end"
        if np.isnan(margins).any():
            return f"{self.name}: not measured"
        beyond = int((margins > 0).sum())
        state = "passed" if self.passed else f"passed by {beyond} of {margins.size}"
        return f"{self.name}: {state}, by {span(margins)}"


@dataclass(frozen=True)
class Claim:
    """One sentence that data can speak for or against.

    text     what is claimed
    effects  how large it is in every training; positive speaks for the claim
    least    how large it must be to count, in the same unit
    unit     of effects and least: nats, bits, a distance, a ratio
    gates    what the models behind it must beat
    ceiling  why what measures it could not have shown more, else empty
    """

    text: str
    effects: Sequence[float] | Floats
    least: float
    unit: str = ""
    gates: Sequence[Gate] = ()
    ceiling: str = ""

    @property
    def verdict(self) -> str:
        """seen, opposite, not seen, unclear, or not judged."""
        effects = np.asarray(self.effects, dtype=np.float64)
        known = effects[np.isfinite(effects)]
        if known.size < effects.size or not known.size:
            return "not judged"
        if self.ceiling or not all(gate.passed for gate in self.gates):
            return "not judged"
        for name, held in (
            ("seen", known >= self.least),
            ("opposite", known <= -self.least),
            ("not seen", known < self.least),
        ):
            if held.all():
                return name
        return "unclear"

    @property
    def why(self) -> str:
        """The numbers behind the verdict, or what forbids one."""
        if self.ceiling:
            return self.ceiling
        failed = [str(gate) for gate in self.gates if not gate.passed]
        if failed:
            return "; ".join(failed)
        effects = np.asarray(self.effects, dtype=np.float64)
        if not effects.size:
            return "nothing was measured"
        if not np.isfinite(effects).all():
            return f"measured in {int(np.isfinite(effects).sum())} of {effects.size} trainings"
        unit = f" {self.unit}" if self.unit else ""
        held = int((effects >= self.least).sum())
        return f"{span(effects)}{unit} against {self.least:g}; {held} of {effects.size}"

    def __str__(self) -> str:
        return f"{self.text}: {self.verdict} ({self.why})"


def span(values: ArrayLike) -> str:
    """A mean with its range, three digits: ``0.21 (0.18 to 0.25)``; one value alone."""
    found = np.asarray(values, dtype=np.float64)
    if found.size == 1:
        return f"{found.item():.3g}"
    return f"{found.mean():.3g} ({found.min():.3g} to {found.max():.3g})"


def claims_table(
    name: str, claims: Sequence[Claim], caption: str = "", more: Mapping[str, str] | None = None
) -> Table:
    """Claims, verdicts and effect sizes; ``more`` adds a column of numbers by claim's text."""
    known = more or {}
    rows = [
        [one.text, one.verdict, one.why, *([known.get(one.text, "")] if known else [])]
        for one in claims
    ]
    columns = ["claim", "verdict", "effect against the least that counts; how often"]
    return Table(
        name,
        [*columns, *(["numbers"] if known else [])],
        rows,
        caption
        or (
            "Seen: every training shows at least the effect that counts. Opposite: every training "
            "shows as much the other way. Not judged: a model has not passed its gate, or the "
            "estimator was at its ceiling."
        ),
    )
