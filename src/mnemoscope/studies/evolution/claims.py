"""What the result of the study `evolution` says about the orderings of the paper it follows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.studies.evolution.study import OBJECTIVES

Floats = NDArray[np.float64]
PAIRS = (("MT", "MLM"), ("MT", "LM"), ("LM", "MLM"))


def curves(result: dict[str, Any], objective: str, *path: str) -> Floats:
    """What the trainings of one objective gave, (seeds, …); those that diverged are missing."""
    rows = []
    for row in result["trials"]:
        if row["objective"] == objective and "diverged" not in row:
            value: Any = row
            for key in path:
                value = value[key]
            rows.append(value)
    return np.array(rows)


def between(result: dict[str, Any], left: str, right: str) -> Floats:
    """Distances of runs of two objectives, (pairs of runs, places); of one with itself: seeds."""
    objective = {row["run"]: row["objective"] for row in result["trials"]}
    wanted = sorted((left, right))
    return np.array(
        [
            row["pwcca"]
            for row in result["distances"]
            if sorted((objective[row["left"]], objective[row["right"]])) == wanted
        ]
    )


def verdict(seen: Sequence[bool] | NDArray[np.bool_]) -> str:
    """Say whether something held in every training."""
    count, total = int(np.sum(seen)), len(seen)
    if count == total:
        return f"seen, {total} of {total}"
    return f"not seen, 0 of {total}" if count == 0 else f"unclear, {count} of {total}"


def claims(result: dict[str, Any]) -> list[list[str]]:
    """What the paper found, whether it was seen here, and the numbers."""
    lm, mlm, mt = (curves(result, o, "information", "token") for o in ("LM", "MLM", "MT"))
    following = curves(result, "LM", "information", "next")
    rows = [
        [
            "LM loses the input with depth",
            verdict([all(a > b for a, b in pairwise(one[1:])) for one in lm]),
            f"nats about the token fall from {lm[:, 0].mean():.2f} to {lm[:, -1].mean():.2f}",
        ],
        [
            "LM loses more of it than MT and MLM",
            verdict([one[-1] < min(mt[:, -1].min(), mlm[:, -1].min()) for one in lm]),
            f"top layer: LM {lm[:, -1].mean():.2f}, MT {mt[:, -1].mean():.2f}, "
            f"MLM {mlm[:, -1].mean():.2f}",
        ],
        [
            "LM builds the output: nats about the next token rise",
            verdict([one[-1] > one[0] for one in following]),
            f"{following[:, 0].mean():.2f} at the embeddings, {following[:, -1].mean():.2f} on top",
        ],
        [
            "MLM loses the input, then rebuilds it",
            verdict([0 < one.argmin() < len(one) - 1 for one in mlm]),
            f"lowest {mlm.min(1).mean():.2f}, top {mlm[:, -1].mean():.2f}",
        ],
    ]
    top = {pair: between(result, *pair)[:, -1] for pair in PAIRS}
    seeds = {o: between(result, o, o)[:, -1] for o in OBJECTIVES}
    rows += [
        [
            "MT and MLM are closer than MT and LM",
            verdict([top["MT", "MLM"].mean() < one for one in top["MT", "LM"]]),
            f"top layer: {top['MT', 'MLM'].mean():.3f} against {top['MT', 'LM'].mean():.3f}",
        ],
        [
            "Seeds are closer than objectives",
            verdict([one.max() < min(v.min() for v in top.values()) for one in seeds.values()]),
            "; ".join(f"{o} {one.mean():.3f}" for o, one in seeds.items()),
        ],
    ]
    moved = curves(result, "MT", "change")
    rows.append(
        [
            "MT changes tokens less and less",
            verdict([all(a > b for a, b in pairwise(one[1:])) for one in moved]),
            ", ".join(f"{one:.3f}" for one in moved.mean(0)),
        ]
    )
    for name, key, more in (
        ("Frequent tokens change more", "change_by_group", 0),
        ("Rare tokens influence more", "influence", -1),
    ):
        first = [
            np.array(row[key]["distance"])[:, 1 if key == "change_by_group" else 0]
            for row in result["trials"]
            if "diverged" not in row
        ]
        seen = [len(one) > 1 and one[more] > one[-1 - more] for one in first]
        means = f"{np.mean([one[0] for one in first]):.4f} for the most frequent, "
        means += f"{np.mean([one[-1] for one in first]):.4f} for the rarest"
        rows.append([name, verdict(seen), means])
    return rows
