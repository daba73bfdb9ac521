"""What the result of the study `evolution` says about the orderings of the paper it follows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mnemoscope.studies.evolution.result import OBJECTIVES, EvolutionResult
from mnemoscope.studies.sentences import verdict

PAIRS = (("MT", "MLM"), ("MT", "LM"), ("LM", "MLM"))


def claims(result: EvolutionResult) -> list[list[str]]:
    """What the paper found, whether it was seen here, and the numbers."""
    lm, mlm, mt = (
        result.curves(objective, lambda seen: seen.information["token"])
        for objective in ("LM", "MLM", "MT")
    )
    following = result.curves("LM", lambda seen: seen.information["next"])
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
    top = {pair: result.between(*pair)[:, -1] for pair in PAIRS}
    # One training alone, when the others diverged, has no distance.
    seeds = {o: apart[:, -1] for o in OBJECTIVES if len(apart := result.between(o, o))}
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
    moved = result.curves("MT", lambda seen: seen.change)
    rows.append(
        [
            "MT changes tokens less and less",
            verdict([all(a > b for a, b in pairwise(one[1:])) for one in moved]),
            ", ".join(f"{one:.3f}" for one in moved.mean(0)),
        ]
    )
    # Change is read off the second layer, influence off the first.
    changed = [np.array(seen.change_by_group.distance)[:, 1] for seen in result.examined()]
    influence = [np.array(seen.influence.distance)[:, 0] for seen in result.examined()]
    for name, found, more in (
        ("Frequent tokens change more", changed, 0),
        ("Rare tokens influence more", influence, -1),
    ):
        seen = [len(one) > 1 and one[more] > one[-1 - more] for one in found]
        means = f"{np.mean([one[0] for one in found]):.4f} for the most frequent, "
        means += f"{np.mean([one[-1] for one in found]):.4f} for the rarest"
        rows.append([name, verdict(seen), means])
    return rows
