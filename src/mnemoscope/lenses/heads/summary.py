"""What a page shows of heads, as data that goes to JSON and back. No torch.

Shapes: L layers, H heads, R offsets, P rotary pairs, J components, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]
Cube = tuple[Matrix, ...]

HEADS = (
    "relative",
    "relative_null",
    "position_relative",
    "delay",
    "lag",
    "coherence",
    "coherence_null",
    "favourite",
    "fit",
    "measured",
    "predicted",
    "flat",
)
# Heads whose components are shown.
SHOWN = 12
# Heads of which it makes sense to ask for a delay: keys are mostly the queries' waves, shifted.
COHERENT = 0.5


@dataclass(frozen=True)
class RotaryShares:
    """Scores without rotary positions, and what each pair of columns that turn together adds.

    relative, null   (L, H) as in `HeadsBrief`, without rotary positions
    periods          (P,) tokens of a whole turn; None for a pair that does not turn
    share            (L, H, P) share in how the mean score changes with the offset
    """

    relative: Matrix
    null: Matrix
    periods: tuple[float | None, ...]
    share: Cube


@dataclass(frozen=True, kw_only=True)
class HeadsBrief:
    """Scores of heads by offset i − j (positive = back): what every checkpoint has of them.

    agreement   rank correlation of a head's delay with its favourite offset, how often chance
                reaches it, number of heads; then of coherent heads, then of the lag
    others      (L, H), (L, H, R), flat (L, R), as `HeadsResult` explains them
    """

    offsets: Vector
    relative: Matrix
    relative_null: Matrix
    position_relative: Matrix
    delay: Matrix
    lag: Matrix
    coherence: Matrix
    coherence_null: Matrix
    favourite: Matrix
    fit: Matrix
    measured: Cube
    predicted: Cube
    flat: Matrix
    agreement: tuple[float, float, int]
    coherent_agreement: tuple[float, float, int]
    lag_agreement: tuple[float, float, int]
    terms: dict[str, Matrix]
    rotary: RotaryShares | None = None

    @cached_property
    def strongest(self) -> tuple[int, int]:
        """Layer and head whose scores depend most on i − j."""
        layer, head = np.unravel_index(np.argmax(self.relative), np.shape(self.relative))
        return int(layer), int(head)

    def at_strongest(self, values: Matrix) -> float:
        """What the strongest head has of ``values`` (L, H)."""
        layer, head = self.strongest
        return values[layer][head]


@dataclass(frozen=True)
class HeadComponents:
    """The two strongest singular components of a head: curves (J, T), periods (2, J)."""

    layer: int
    head: int
    left: Matrix
    right: Matrix
    periods: Matrix


@dataclass(frozen=True)
class ShiftByR:
    """The shift of a head by the paper's R, for several equally good bases."""

    layer: int
    head: int
    shifts: Vector


@dataclass(frozen=True, kw_only=True)
class HeadsSummary(HeadsBrief):
    """All that a page shows of the heads of one model.

    shared, without   heads that share one key; why there are no singular vectors
    components        of the heads whose scores depend most on i − j
    """

    shared: int
    without: str
    paper: tuple[ShiftByR, ...]
    components: tuple[HeadComponents, ...]


def brief(heads: HeadsResult) -> dict[str, Any]:
    """The fields of `HeadsBrief`."""
    rotary = heads.rotary
    return {
        "offsets": tuples(heads.offsets),
        "agreement": heads.agreement("delay"),
        "coherent_agreement": heads.agreement("delay", COHERENT),
        "lag_agreement": heads.agreement("lag"),
        "terms": {name: tuples(values) for name, values in heads.terms.items()},
        **{name: short(getattr(heads, name)) for name in HEADS},
        "rotary": rotary
        and RotaryShares(
            relative=short(rotary.relative),
            null=short(rotary.relative_null),
            periods=tuple(p if np.isfinite(p) else None for p in rotary.periods.tolist()),
            share=short(rotary.share),
        ),
    }


def whole(heads: HeadsResult) -> dict[str, Any]:
    """The fields of `HeadsSummary`."""
    return {
        **brief(heads),
        "shared": heads.shared,
        "without": heads.without,
        "paper": tuple(ShiftByR(one.layer, one.head, tuples(one.shifts)) for one in heads.paper),
        "components": _components(heads),
    }


def summary(heads: HeadsResult) -> HeadsSummary:
    """All that a page shows of heads."""
    return HeadsSummary(**whole(heads))


def _components(heads: HeadsResult) -> tuple[HeadComponents, ...]:
    """Curves of the heads whose scores depend most on i − j."""
    if heads.components is None:
        return ()
    parts = heads.components
    periods = parts.periods()
    return tuple(
        HeadComponents(
            layer,
            head,
            left=short(parts.left[layer, head, :2]),
            right=short(parts.right[layer, head, :2]),
            periods=short(periods[:, layer, head, :2]),
        )
        for layer, head in heads.strongest(SHOWN)
    )


def short(values: Any) -> Any:
    """Seven digits are enough for a page and halve the file."""
    return tuples(np.asarray(values, dtype=np.float32).astype(np.float64).round(7))


def tuples(values: Any) -> Any:
    """An array as nested tuples of numbers."""
    return _frozen(np.asarray(values).tolist())


def _frozen(values: Any) -> Any:
    return tuple(map(_frozen, values)) if isinstance(values, list) else values
