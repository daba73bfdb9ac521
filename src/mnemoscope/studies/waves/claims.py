"""What one could expect of position waves after the paper, held against what was seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.lenses.heads.page import LEAST_FIT, LEAST_RANK
from mnemoscope.lenses.spectrum.summary import LEAST_STANDING_OUT, RATIO
from mnemoscope.lenses.waves.claims import (
    LEAST_LOST,
    LEAST_MOVED,
    LEAST_NATS,
    learnt,
    lost_to_blocks,
    lost_to_norms,
    unmatched,
)
from mnemoscope.report.claims import Claim, Gate
from mnemoscope.studies.waves.result import OBJECTIVES, QUERIES, Checkpoint, Examined, WavesResult

# Least difference of shares that counts: of score energy, of variance.
LEAST_APART = 0.3
LEAST_SHARE_GAINED = 0.05
# Claims with which the page leads.
BECOME = "Learned positions become waves"
PREDICTED = "Positions alone predict where the strongest head attends"
SHIFTED = "A shift of the wave by k moves that head's attention by k"


def claims(result: WavesResult) -> list[Claim]:
    """What one could expect after the paper, how large it is in every training, and its gates."""
    learned, added = _whole(result, "learned"), _whole(result, "learned", "sinusoidal")
    rotary, none = _whole(result, "rotary"), result.examined("MLM", "none")
    keys = QUERIES.replace(".q", ".k")
    followed = [one for one in added if one.final.propagation and one.final.norm_fits]
    told = [
        Claim(
            BECOME,
            [one.last.standing_out("embeddings") for one in learned],
            LEAST_STANDING_OUT, RATIO, _gates(learned),
        ),
        Claim(
            "Training makes them",
            [one.last.share[0] - one.checkpoints[0].share[0] for one in learned],
            LEAST_SHARE_GAINED, "of the variance", _gates(learned),
        ),
        Claim(
            "The waves are in the queries and keys of the first layer",
            [min(map(one.last.standing_out, (QUERIES, keys))) for one in learned],
            LEAST_STANDING_OUT, RATIO, _gates(learned),
        ),
        _ranked("The delay of the waves ranks coherent heads as their attention does", added,
                [one.last.coherent_agreement[0] for one in added]),
        _ranked("The offset at which waves match best does so too", added,
                [one.last.lag_agreement[0] for one in added]),
        Claim(
            PREDICTED,
            [one.last.at_strongest(one.last.fit) for one in added],
            LEAST_FIT, "R²", _gates(added),
        ),
        Claim(
            SHIFTED,
            [_moved(one) for one in added],
            LEAST_MOVED, "of it", _gates(added),
        ),
        Claim(
            "More is lost without the band of the waves than without as much energy elsewhere",
            [one.final.filters.above_control(one.final.filters.costliest) for one in added],
            LEAST_NATS, "nats", _gates(added),
            "; ".join(sorted({why for one in added if (why := _unmatched(one))})),
        ),
        Claim(
            "S breaks the waves",
            [lost_to_norms(one.final) for one in followed],
            LEAST_LOST, "of their energy", _gates(followed),
        ),
        Claim(
            "The model discards them",
            [lost_to_blocks(one.final) for one in followed],
            LEAST_LOST, "of their energy", _gates(followed),
        ),
        Claim(
            "With rotary positions scores are relative, but not what attention is given",
            [most(one.last) - _given(one.last) for one in rotary],
            LEAST_APART, "share of scores less share of variance", _gates(rotary),
        ),
        Claim(
            "and without the rotation they are not",
            [most(one.last) - float(np.max(one.last.rotary.relative))
             for one in rotary if one.last.rotary is not None],
            LEAST_APART, "of the score energy", _gates(rotary),
        ),
        Claim(
            "Without positions a model that sees both ways has no relative scores",
            [most(with_.last) - most(without.last)
             for with_, without in zip(result.examined("MLM", "learned"), none, strict=False)],
            LEAST_APART, "of the score energy below learned positions", _gates(none),
        ),
    ]  # fmt: skip
    return [one for one in told if len(one.effects)]


def _whole(result: WavesResult, *kinds: str) -> list[Examined]:
    """Every training with these positions, LM and MLM."""
    return [one for objective in OBJECTIVES for kind in kinds
            for one in result.examined(objective, kind)]  # fmt: skip


def _gates(trainings: Sequence[Examined]) -> list[Gate]:
    """The one gate of all of them."""
    found = [gate for one in trainings for gate in learnt(one.final.filters)]
    return (
        [Gate(found[0].name, [margin for gate in found for margin in gate.margins])]
        if found
        else []
    )


def _ranked(text: str, trainings: Sequence[Examined], ranks: Sequence[float]) -> Claim:
    """Heads that all favour the same offset have no rank correlation: those are left out."""
    known = [rank for rank in ranks if np.isfinite(rank)]
    return Claim(text, known, LEAST_RANK, "rank correlation", _gates(trainings))


def _moved(one: Examined) -> float:
    shift = one.final.shift
    return float("nan") if shift is None else shift.at(shift.moved, one.last.strongest)


def _unmatched(one: Examined) -> str:
    return unmatched(one.final.filters, one.final.filters.costliest)


def _given(waves: Checkpoint) -> float:
    """The largest share of variance by position in what attention is given."""
    pairs = zip(waves.sites, waves.share, strict=True)
    return float(max(share for site, share in pairs if site.endswith(".in")))


def most(waves: Checkpoint) -> float:
    """How much of the strongest head's scores depends on i − j alone."""
    return waves.at_strongest(waves.relative)
