"""What one could expect of position waves after the paper, held against what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mnemoscope.lenses.spectrum.page import above_null
from mnemoscope.studies.evolution.claims import verdict
from mnemoscope.studies.waves.study import OBJECTIVES

Look = dict[str, Any]


def looks(result: dict[str, Any], objective: str, kind: str) -> list[list[Look]]:
    """What was seen of every training of a kind, look by look; those that diverged are missing."""
    return [
        row["looks"]
        for row in result["trials"]
        if (row["objective"], row["positions"]) == (objective, kind) and "diverged" not in row
    ]


def finals(result: dict[str, Any], objective: str, kind: str) -> list[Look]:
    """The last look at every training of a kind."""
    return [one[-1] for one in looks(result, objective, kind)]


def _each(result: dict[str, Any], kinds: Sequence[str]) -> list[Look]:
    """The last looks at all trainings with these positions, LM and MLM."""
    return [
        one
        for objective in OBJECTIVES
        for kind in kinds
        if kind in result["positions"]
        for one in finals(result, objective, kind)
    ]


def most(look: Look, key: str = "relative") -> float:
    """The largest value of any head."""
    return float(np.max(look[key]))


def claims(result: dict[str, Any]) -> list[list[str]]:
    """What one could expect after the paper, whether it was seen here, and the numbers."""
    rows: list[list[str]] = []

    def add(claim: str, given: Sequence[bool], numbers: str) -> None:
        if len(given):
            rows.append([claim, verdict(given), numbers])

    learned = _each(result, ["learned"])
    sharp = [one["sharpness"][0] for one in learned]
    add(
        "Learned positions become waves",
        ["embeddings" in above_null(one) for one in learned],
        f"sharpness {_mean(sharp):.1f}, shuffled "
        f"{_mean(one['sharpness_null'][0] for one in learned):.1f}",
    )
    first = [
        one[0]
        for objective in OBJECTIVES
        if "learned" in result["positions"]
        for one in looks(result, objective, "learned")
    ]
    add(
        "They are none before training",
        ["embeddings" not in above_null(one) for one in first],
        f"share of variance by position {_mean(one['share'][0] for one in first):.3f}",
    )
    add(
        "The waves are in the queries and keys of the first layer",
        [{"layer.0.attention.q", "layer.0.attention.k"} <= set(above_null(one)) for one in learned],
        f"share of query variance by position {_mean(map(_query_share, learned)):.2f}",
    )
    added = _each(result, ["learned", "sinusoidal"])
    ranked = _known(one["coherent_agreement"][0] for one in added)
    add(
        "The delay of the waves ranks coherent heads as their attention does",
        [one > 0 for one in ranked],
        f"rank correlation {_mean(ranked):.2f} in the mean",
    )
    matched = _known(one["lag_agreement"][0] for one in added)
    add(
        "The offset at which waves match best does so too",
        [one > 0 for one in matched],
        f"rank correlation {_mean(matched):.2f} in the mean",
    )
    add(
        "Positions alone predict where the strongest head looks",
        [at_strongest(one, "fit") > 0.5 for one in added],
        f"R² {_mean(at_strongest(one, 'fit') for one in added):.2f}",
    )
    rotary = _each(result, ["rotary"])
    add(
        "With rotary positions nothing is in what attention is given",
        [not any(site.endswith(".in") for site in above_null(one)) for one in rotary],
        f"share of variance by position {_mean(one['share'][0] for one in rotary):.3f}",
    )
    add(
        "but it is in the scores, and gone without rotary",
        [most(one) > 3 * float(np.max(one["rotary"]["relative"])) for one in rotary],
        f"strongest head {_mean(map(most, rotary)):.2f} with, "
        f"{_mean(np.max(one['rotary']['relative']) for one in rotary):.3f} without",
    )
    none = finals(result, "MLM", "none")
    add(
        "Without positions a model that sees both ways has no relative scores",
        [most(one) < 0.05 for one in none],
        f"strongest head {_mean(map(most, none)):.3f}",
    )
    return rows


def _known(values: Iterable[float]) -> list[float]:
    """Of heads that all look the same way there is no rank correlation."""
    return [one for one in values if np.isfinite(one)]


def _mean(values: Iterable[float]) -> float:
    known = _known(values)
    return float(np.mean(known)) if known else float("nan")


def _query_share(look: Look) -> float:
    share: float = look["share"][look["sites"].index("layer.0.attention.q")]
    return share


def at_strongest(look: Look, key: str) -> float:
    """What the head whose scores depend most on i − j has."""
    place = np.unravel_index(np.argmax(look["relative"]), np.shape(look["relative"]))
    return float(np.array(look[key])[place])
