"""What one could expect of position waves after the paper, held against what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mnemoscope.studies.sentences import verdict
from mnemoscope.studies.waves.result import OBJECTIVES, Checkpoint, WavesResult


def _last(result: WavesResult, *kinds: str) -> list[Checkpoint]:
    """The end of every training with these positions, LM and MLM."""
    return [
        one.last
        for objective in OBJECTIVES
        for kind in kinds
        for one in result.examined(objective, kind)
    ]


def claims(result: WavesResult) -> list[list[str]]:
    """What one could expect after the paper, whether it was seen here, and the numbers."""
    rows: list[list[str]] = []

    def add(claim: str, given: Sequence[bool], numbers: str) -> None:
        if len(given):
            rows.append([claim, verdict(given), numbers])

    learned = _last(result, "learned")
    sharp = [one.sharpness[0] for one in learned]
    add(
        "Learned positions become waves",
        ["embeddings" in one.with_waves for one in learned],
        f"sharpness {_mean(sharp):.1f}, shuffled "
        f"{_mean(one.sharpness_null[0] for one in learned):.1f}",
    )
    first = [
        one.checkpoints[0]
        for objective in OBJECTIVES
        for one in result.examined(objective, "learned")
    ]
    add(
        "They are none before training",
        ["embeddings" not in one.with_waves for one in first],
        f"share of variance by position {_mean(one.share[0] for one in first):.3f}",
    )
    add(
        "The waves are in the queries and keys of the first layer",
        [{"layer.0.attention.q", "layer.0.attention.k"} <= set(one.with_waves) for one in learned],
        f"share of query variance by position {_mean(map(_query_share, learned)):.2f}",
    )
    added = _last(result, "learned", "sinusoidal")
    ranked = _known(one.coherent_agreement[0] for one in added)
    add(
        "The delay of the waves ranks coherent heads as their attention does",
        [one > 0 for one in ranked],
        f"rank correlation {_mean(ranked):.2f} in the mean",
    )
    matched = _known(one.lag_agreement[0] for one in added)
    add(
        "The offset at which waves match best does so too",
        [one > 0 for one in matched],
        f"rank correlation {_mean(matched):.2f} in the mean",
    )
    add(
        "Positions alone predict where the strongest head attends",
        [one.at_strongest(one.fit) > 0.5 for one in added],
        f"R² {_mean(one.at_strongest(one.fit) for one in added):.2f}",
    )
    rotary = _last(result, "rotary")
    add(
        "With rotary positions nothing is in what attention is given",
        [not any(site.endswith(".in") for site in one.with_waves) for one in rotary],
        f"share of variance by position {_mean(one.share[0] for one in rotary):.3f}",
    )
    without = [float(np.max(one.rotary.relative)) for one in rotary if one.rotary is not None]
    add(
        "but it is in the scores, and gone without rotary",
        [most(one) > 3 * other for one, other in zip(rotary, without, strict=True)],
        f"strongest head {_mean(map(most, rotary)):.2f} with, {_mean(without):.3f} without",
    )
    none = [one.last for one in result.examined("MLM", "none")]
    add(
        "Without positions a model that sees both ways has no relative scores",
        [most(one) < 0.05 for one in none],
        f"strongest head {_mean(map(most, none)):.3f}",
    )
    return rows


def _known(values: Iterable[float]) -> list[float]:
    """Heads that all favour the same offset have no rank correlation."""
    return [one for one in values if np.isfinite(one)]


def _mean(values: Iterable[float]) -> float:
    known = _known(values)
    return float(np.mean(known)) if known else float("nan")


def _query_share(waves: Checkpoint) -> float:
    return waves.share[waves.sites.index("layer.0.attention.q")]


def most(waves: Checkpoint) -> float:
    """How much of the strongest head's scores depends on i − j alone."""
    return waves.at_strongest(waves.relative)
