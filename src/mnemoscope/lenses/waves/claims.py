"""What can be said of the position waves of one model, each with its size. No torch."""

from __future__ import annotations

import numpy as np

from mnemoscope.lenses.waves.summary import BandFilters, Tried, WavesSummary
from mnemoscope.report.claims import Claim, Gate

# Least share of the waves' energy that a part must take away to be said to.
LEAST_LOST = 0.1
# Least of a shifted head's attention that must be found k tokens further back.
LEAST_MOVED = 0.5
# Least nats, and least share of the outputs' variance, that a band must cost above its control.
LEAST_NATS, LEAST_CHANGED = 0.05, 0.05
# A control that took off less than this of the band's energy is none.
LEAST_MATCHED = 0.5


def learnt(filters: BandFilters) -> list[Gate]:
    """What a model must beat that can be asked; of one that cannot, nothing is known."""
    if not filters.asked:
        return []
    margin = filters.entropy - filters.loss
    return [Gate("loss below the entropy of single tokens", [margin])]


def lost_to_norms(seen: Tried) -> float:
    """Share of the waves' energy that S has made something else of, where it did most."""
    return 1 - min((one.whole for one in seen.norm_fits), default=float("nan"))


def lost_to_blocks(seen: Tried) -> float:
    """Share of the energy of what norms carry up that attention and feed-forward parts took off."""
    assert seen.propagation is not None
    return 1 - max(seen.propagation[-1].kept, 0.0) ** 2


def unmatched(filters: BandFilters, band: int) -> str:
    """Why a control is none, else empty."""
    if filters.matched is None or not len(filters.matched):
        return ""
    if filters.matched[band] >= LEAST_MATCHED:
        return ""
    return f"the control found {filters.matched[band]:.2f} of the band's energy elsewhere"


def survival_claims(seen: Tried) -> list[Claim]:
    """Does S break the waves, or does the model discard them?"""
    if seen.propagation is None or not seen.norm_fits:
        return []
    gates = learnt(seen.filters)
    lowest = min(one.measured for one in seen.norm_fits)
    norms, blocks = lost_to_norms(seen), lost_to_blocks(seen)
    return [
        Claim("Every norm does to the means what its own S and gain say", [lowest], 0.9, "R²",
              gates),
        Claim("S breaks the waves", [norms], LEAST_LOST, "of their energy", gates),
        # Which takes more cannot be told: what S tears is lost in single texts, what the model
        # discards is lost in the mean over texts.
        Claim("The model discards them", [blocks], LEAST_LOST, "of their energy", gates),
    ]  # fmt: skip


def filter_claims(seen: WavesSummary) -> list[Claim]:
    """Are waves used: taken out, and shifted?"""
    filters = seen.filters
    band, gates = filters.costliest, learnt(filters)
    found = [
        Claim(
            f"Waves of {filters.bands[band]} tokens count more than as much energy elsewhere",
            [filters.above_control(band)],
            LEAST_NATS if filters.asked else LEAST_CHANGED,
            "nats" if filters.asked else "of the outputs' variance",
            gates,
            unmatched(filters, band),
        )
    ]
    if seen.shift is not None:
        moved = seen.shift.at(seen.shift.moved, seen.strongest)
        heads = np.array(seen.shift.moved).mean(0)
        many = float((np.nan_to_num(heads) >= LEAST_MOVED).mean())
        found += [
            Claim("A shift of the wave by k moves the strongest head's attention by k", [moved],
                  LEAST_MOVED, "of it", gates),
            Claim("and that of one head in four", [many], 0.25, "of the heads", gates),
        ]  # fmt: skip
    return found
