"""What the result of the study `evolution` says about the orderings of the paper it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.information.result import beyond_chance
from mnemoscope.report.claims import Claim, Gate
from mnemoscope.studies.evolution.result import OBJECTIVES, ByFrequency, EvolutionResult, Examined

PAIRS = (("MT", "MLM"), ("MT", "LM"), ("LM", "MLM"))
# The least that counts. Nats: clusterings of one layer differ by up to a tenth, their mean by half
# of that. Distances: a fifth of what PWCCA shows by chance with 250 tokens a dimension. Changes
# and influences are compared as ratios, since both grow with everything else that a layer does.
NATS, DISTANCE, SHARE = 0.05, 0.01, 0.1
# What counting words each objective must beat: of a hidden word a bigram knows only that it is so.
# What an older result has not counted is no gate of it, but for the first.
BEATEN = {
    "MT": {"bigram": "bigrams of its target"},
    "LM": {"bigram": "bigrams", "trigram": "trigrams"},
    "MLM": {"unigram": "unigrams", "neighbours": "bigrams with both neighbours"},
}
LEAST_BLEU = 25.0
# What the paper reports, as far as its figures can be read: about one in a hundred of an axis.
PAPER = {
    "LM loses the input with depth": "5.30, then 3.97 nats",
    "LM loses more of it than MT and MLM": "top layer: LM 3.97, MT 4.47, MLM 5.10",
    "LM builds the output: nats about the next token rise": "1.81, then 2.35 nats",
    "MLM loses the input, then rebuilds it": "lowest 4.93, top 5.10",
    "MLM builds words that are hidden from it": "0.72, then 2.38 nats, hidden or replaced",
    "MLM loses words that stand where others were": "6.9, then 0.95 nats",
    "MT and MLM are closer than MT and LM": "top layer: 0.535 against 0.60",
    "Seeds are closer than objectives": "MT 0.31, LM 0.37, MLM 0.37",
    "MT changes tokens less and less": "0.064, 0.064, 0.053, 0.050, 0.039",
    "Frequent tokens change more": "second layer: 0.114 to 0.146 for the ten most frequent, "
    "0.040 to 0.058 for the rarest",
    "Rare tokens influence more": "MT, first layer: 0.0059 for the rarest, others to 0.0022",
}


def gates(result: EvolutionResult, *objectives: str) -> list[Gate]:
    """Whether trainings of these objectives, or of all, learnt more than words can be counted."""
    found = []
    for objective in objectives or OBJECTIVES:
        seen = result.examined(objective)
        for number, (name, said) in enumerate(BEATEN[objective].items()):
            if number and not any(name in one.trivial for one in seen):
                continue
            margins = [one.trivial.get(name, np.nan) - one.valid_loss for one in seen]
            found.append(Gate(f"{objective}'s loss below that of {said}", margins))
        bleu = [one.bleu for one in seen if one.bleu is not None]
        if bleu:
            least = f"{objective}'s BLEU above {LEAST_BLEU:g}"
            found.append(Gate(least, [one - LEAST_BLEU for one in bleu]))
    return found


def claims(result: EvolutionResult) -> list[tuple[Claim, str]]:
    """What the paper found, how large it is in every training here, and the numbers behind it."""
    return [*_of_information(result), *_of_distances(result), *_of_change(result)]


def _of_information(result: EvolutionResult) -> list[tuple[Claim, str]]:
    """Differences of nats, beyond what chance may have added to the larger value alone."""
    lm, mlm, mt = (_Told.of(result, objective, "token") for objective in ("LM", "MLM", "MT"))
    following = _Told.of(result, "LM", "next")
    hidden = _Told(
        result.curves("MLM", lambda seen: seen.masked.label if seen.masked else ()),
        result.curves("MLM", lambda seen: seen.masked.null if seen.masked else ()),
    )

    def nats(
        text: str, effects: Floats, numbers: str, *objectives: str, target: str = ""
    ) -> tuple[Claim, str]:
        """Clusters may be at their ceiling where they are asked about a ``target``."""
        seen = result.examined(*objectives) if target else []
        ceiling = f"{result.clusters} clusters tell nearly all that so many can: take more"
        at_ceiling = any(one.at_ceiling(target) for one in seen)
        passed = gates(result, *objectives)
        return Claim(text, effects, NATS, "nats", passed, ceiling if at_ceiling else ""), numbers

    found = [
        nats("LM loses the input with depth", lm.apart(0, -1), _ends(lm.value), "LM",
             target="token"),
        nats(
            "LM loses more of it than MT and MLM",
            np.min([other.above(lm) for other in (mt, mlm)], axis=0),
            f"top layer: LM {lm.value[:, -1].mean():.2f}, MT {mt.value[:, -1].mean():.2f}, "
            f"MLM {mlm.value[:, -1].mean():.2f}",
            target="token",
        ),
        nats("LM builds the output: nats about the next token rise", following.apart(-1, 0),
             _ends(following.value) + _probed(result, "LM", "next"), "LM", target="next"),
        nats(
            "MLM loses the input, then rebuilds it",
            mlm.dip(),
            f"lowest {mlm.value.min(1).mean():.2f}, top {mlm.value[:, -1].mean():.2f}",
            "MLM",
            target="token",
        ),
        nats("MLM builds words that are hidden from it", hidden.apart(-1, 0),
             _ends(hidden.value), "MLM"),
    ]  # fmt: skip
    seen = [one.masked for one in result.examined("MLM") if one.masked]
    if all("replaced" in one.apart for one in seen):
        read = np.array([one.apart["replaced"].read for one in seen])
        text = "MLM loses words that stand where others were"
        found.append(nats(text, read[:, 0] - read[:, -1], _ends(read), "MLM"))
    return found


@dataclass(frozen=True, eq=False)
class _Told:
    """What clusters tell of something, and what they tell when shuffled: (trainings, sites)."""

    value: Floats
    null: Floats

    @classmethod
    def of(cls, result: EvolutionResult, objective: str, target: str) -> _Told:
        return cls(
            result.curves(objective, lambda seen: seen.information[target]),
            result.curves(objective, lambda seen: seen.null[target]),
        )

    def apart(self, more: int, less: int) -> Floats:
        """How much more is told at one site than at another, in every training."""
        value, null = self.value, self.null
        return beyond_chance(value[:, more], value[:, less], null[:, more], null[:, less])

    def above(self, other: _Told) -> Floats:
        """How much more the top tells than that of every training of another objective, at least.

        (trainings of the other,)
        """
        pairs = (self.value[:, -1, None], other.value[:, -1], self.null[:, -1, None])
        least: Floats = beyond_chance(*pairs, other.null[:, -1]).min(0)
        return least

    def dip(self) -> Floats:
        """How far the lowest site lies below both ends."""
        rows, low = np.arange(len(self.value)), self.value.argmin(1)
        at = self.value[rows, low], self.null[rows, low]
        ends = (
            beyond_chance(self.value[:, end], at[0], self.null[:, end], at[1]) for end in (0, -1)
        )
        return np.minimum(*ends)


def _probed(result: EvolutionResult, objective: str, target: str) -> str:
    """What a linear probe finds at both ends, in the mean; older results have none."""
    found = [one.probe[target] for one in result.examined(objective) if target in one.probe]
    if not found:
        return ""
    curves = np.array(found).mean(0)
    return f"; a linear probe finds {curves[0]:.2f}, then {curves[-1]:.2f}"


def _ends(curves: Floats) -> str:
    """Both ends of curves (trainings, layers), in the mean."""
    return f"{curves[:, 0].mean():.2f} at the embeddings, {curves[:, -1].mean():.2f} on top"


def _of_distances(result: EvolutionResult) -> list[tuple[Claim, str]]:
    top = {pair: result.between(*pair)[:, -1] for pair in PAIRS}
    near, far = top["MT", "MLM"], top["MT", "LM"]
    # One training alone, when the others diverged, has no distance.
    seeds = {o: apart[:, -1] for o in OBJECTIVES if len(apart := result.between(o, o))}
    least = min(one.min() for one in top.values())
    return [
        (
            Claim(
                "MT and MLM are closer than MT and LM",
                np.subtract.outer(far, near).ravel(),
                DISTANCE,
                "in every pair of one kind against every pair of the other",
                gates(result),
            ),
            f"top layer: {near.mean():.3f} against {far.mean():.3f}",
        ),
        (
            Claim(
                "Seeds are closer than objectives",
                [least - one.max() for one in seeds.values()],
                DISTANCE,
                "from the farthest seeds of an objective to the nearest objectives",
                gates(result),
            ),
            "; ".join(f"{o} {one.mean():.3f}" for o, one in seeds.items()),
        ),
    ]


def _of_change(result: EvolutionResult) -> list[tuple[Claim, str]]:
    moved = result.curves("MT", lambda seen: seen.change)
    found = [
        (
            Claim(
                "MT changes tokens less and less",
                1 - moved[:, -1] / moved[:, 1] if moved.shape[1] > 2 else [np.nan],
                SHARE,
                "less into the top layer than into the second",
                gates(result, "MT"),
            ),
            ", ".join(f"{one:.3f}" for one in moved.mean(0)),
        )
    ]
    kinds: list[tuple[str, Callable[[Examined], ByFrequency], int]] = [
        ("Frequent tokens change more", lambda seen: seen.change_by_group, 0),
        ("Rare tokens influence more", lambda seen: seen.influence, -1),
    ]
    for name, of, more in kinds:
        # (trainings, groups, layers); the mean over all layers counts.
        by_layer = np.array([of(seen).distance for seen in result.examined()])
        groups = by_layer.mean(2)
        effects = groups[:, more] / groups[:, -1 - more] - 1
        if groups.shape[1] < 2:
            effects = np.full(len(groups), np.nan)
        ends = [", ".join(f"{v:.4f}" for v in by_layer[:, at].mean(0)) for at in (0, -1)]
        numbers = f"by layer {ends[0]} for the most frequent, {ends[1]} for the rarest"
        unit = "more in the mean over layers"
        found.append((Claim(name, effects, SHARE, unit, gates(result)), numbers))
    return found
