"""What a page shows of heads, as data that goes to JSON and back. No torch.

Shapes: L layers, H heads, R offsets, P rotary pairs, J components, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.core.arrays import Floats

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult

Vector = tuple[float, ...]

# Digits of a number that a page prints, and of a curve.
DIGITS, DRAWN = 4, 3
# Heads whose curves are shown.
SHOWN = 12
# Heads of which it makes sense to ask for a delay: keys are mostly the queries' waves, shifted.
COHERENT = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadScores:
    """Scores and attention of heads, all (L, H) unless said; offsets are i − j, positive = back.

    relative            share of the energy of row-centred scores that a function of i − j explains
    relative_null       the same with the scores of each row shuffled
    position_relative   the same share of what positions alone would score
    delay               offset that the waves of queries and keys prefer, by their cross-spectrum
    lag                 the offset at which they match best, all frequencies together
    coherence           0 to 1: how far keys are the queries' waves, shifted; and its null
    measured            (L, H, R) mean attention by offset, among positions that are kept
    predicted           (L, H, R) the same from the relative part of the position scores alone
    flat                (L, R) the same if all scores were equal: who only looks back sees more of
                        what is near
    fit                 R² of predicted against measured: 0 is as good as flat, below is worse
    terms               score decomposition: by name, share of the energy of q · k; terms are not
                        orthogonal, so they need not sum to one
    shared              how many heads share one key
    """

    offsets: Floats
    relative: Floats
    relative_null: Floats
    position_relative: Floats
    delay: Floats
    lag: Floats
    coherence: Floats
    coherence_null: Floats
    measured: Floats
    predicted: Floats
    flat: Floats
    fit: Floats
    terms: dict[str, Floats]
    shared: int


@dataclass(frozen=True, eq=False)
class RotaryShares:
    """Scores without rotary positions, and what each pair of columns that turn together adds.

    relative, null   (L, H) as in `HeadsBrief`, without rotary positions
    periods          (P,) tokens of a whole turn; None for a pair that does not turn
    share            (L, H, P) share in how the mean score changes with the offset
    """

    relative: Floats
    null: Floats
    periods: tuple[float | None, ...]
    share: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadsBrief:
    """What every checkpoint has of `HeadScores`, and what follows from them.

    favourite   (L, H) the offset with the most attention above flat
    agreement   rank correlation of a head's delay with its favourite offset, how often chance
                reaches it, number of heads; then of coherent heads, then of the lag
    """

    offsets: Floats
    relative: Floats
    relative_null: Floats
    delay: Floats
    favourite: Floats
    fit: Floats
    agreement: tuple[float, float, int]
    coherent_agreement: tuple[float, float, int]
    lag_agreement: tuple[float, float, int]
    rotary: RotaryShares | None = None

    @cached_property
    def strongest(self) -> tuple[int, int]:
        """Layer and head whose scores depend most on i − j."""
        return strongest(self.relative, 1)[0]

    def at_strongest(self, values: Floats) -> float:
        """What the strongest head has of ``values`` (L, H)."""
        layer, head = self.strongest
        return float(values[layer][head])


@dataclass(frozen=True, eq=False)
class HeadComponents:
    """The two strongest singular components of a head: curves (J, T), periods (2, J)."""

    layer: int
    head: int
    left: Floats
    right: Floats
    periods: Floats


@dataclass(frozen=True, eq=False)
class ShiftByR:
    """The shift of a head by the paper's R, for several equally good bases of the null space."""

    layer: int
    head: int
    shifts: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadsSummary(HeadsBrief, HeadScores):
    """All that a page shows of the heads of one model.

    without      why there are no singular vectors
    components   of the heads whose scores depend most on i − j
    """

    without: str
    paper: tuple[ShiftByR, ...]
    components: tuple[HeadComponents, ...]


def brief(heads: HeadsResult) -> dict[str, Any]:
    """The fields of `HeadsBrief`."""
    rotary = heads.rotary and RotaryShares(
        relative=rounded(heads.rotary.relative),
        null=rounded(heads.rotary.relative_null),
        periods=tuple(p if np.isfinite(p) else None for p in heads.rotary.periods.tolist()),
        share=rounded(heads.rotary.share),
    )
    return taken(
        HeadsBrief,
        heads,
        offsets=heads.offsets,
        agreement=heads.agreement("delay"),
        coherent_agreement=heads.agreement("delay", COHERENT),
        lag_agreement=heads.agreement("lag"),
        rotary=rotary,
    )


def whole(heads: HeadsResult) -> dict[str, Any]:
    """The fields of `HeadsSummary`."""
    given = brief(heads) | {"paper": tuple(heads.paper), "components": _components(heads)}
    return taken(HeadsSummary, heads, **given)


def _components(heads: HeadsResult) -> tuple[HeadComponents, ...]:
    """Curves of the heads whose scores depend most on i − j."""
    parts = heads.components
    if parts is None:
        return ()
    return tuple(
        HeadComponents(
            layer,
            head,
            left=rounded(parts.left[layer, head, :2], DRAWN),
            right=rounded(parts.right[layer, head, :2], DRAWN),
            periods=rounded(parts.periods[:, layer, head, :2]),
        )
        for layer, head in strongest(heads.relative, SHOWN)
    )


def strongest(relative: Floats, count: int) -> list[tuple[int, int]]:
    """Layers and heads of the ``count`` highest of (L, H), highest first."""
    order = np.argsort(-np.ravel(relative), kind="stable")[:count]
    layers, heads = np.unravel_index(order, np.shape(relative))
    return list(zip(layers.tolist(), heads.tolist(), strict=True))


def taken(kind: type, result: Any, **given: Any) -> dict[str, Any]:
    """The fields of a summary: those given, and of the same name in ``result``, to few digits."""
    names = [one.name for one in fields(kind)]
    return {n: given[n] if n in given else rounded(getattr(result, n)) for n in names}


def rounded(values: Any, digits: int = DIGITS) -> Any:
    """Arrays, dataclasses and dicts of them, with numbers to a few digits: no page shows more."""
    if is_dataclass(values) and not isinstance(values, type):
        return replace(values, **rounded(vars(values), digits))
    if isinstance(values, dict):
        return {name: rounded(one, digits) for name, one in values.items()}
    if isinstance(values, np.ndarray):
        with np.errstate(divide="ignore", invalid="ignore"):
            power = np.floor(np.log10(np.abs(values)))
        step = 10.0 ** np.clip(digits - 1 - np.nan_to_num(power, neginf=0, posinf=0), -30, 30)
        # Divided by a power of ten: times its inverse, 0.3 would become 0.30000000000000004.
        return np.where(np.isfinite(values), np.round(values * step) / step, values)
    return values


def short(values: Any, digits: int = DIGITS) -> Vector:
    """An array (n,) as a tuple of numbers of a few digits."""
    return tuple(rounded(np.asarray(values, dtype=np.float64), digits).tolist())
