"""What is claimed of memories that sort, and what the page leads with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mnemoscope.report.claims import Claim, Gate
from mnemoscope.studies.sentences import leaders, not_compared
from mnemoscope.studies.sorting.contestants import NAME
from mnemoscope.studies.sorting.result import SortingResult

# Accuracy by which a model must be above what exact counting of a window gives, and by which it may
# miss that of its own window: nobody who sees no more than a window can be above exact counting.
LEAST = 0.02


def asked_at(result: SortingResult, trained: int) -> int:
    """The trained length, or the longest tested below it."""
    return max((length for length in result.tested if length <= trained), default=result.tested[0])


def gates_of(result: SortingResult, trained: int) -> dict[str, Gate]:
    """By label: whether a model has learnt to count what it has before its eyes."""
    at = asked_at(result, trained)
    scores, place = result.scores_at(trained, at), result.tested.index(at)
    gates = {}
    for facts in result.models.values():
        if facts.counting:
            least = facts.counting[place] - LEAST
            name = f"{facts.label} reaches its own window's line, to {LEAST} ({least:.2f})"
        else:
            least, name = result.chance, f"{facts.label} above chance ({result.chance:.2f})"
        gates[facts.label] = Gate(name, scores[facts.label] - least)
    return gates


def claims_of(
    result: SortingResult, trained: int, gates: Mapping[str, Gate], lengths: Iterable[int]
) -> list[Claim]:
    """Who remembers more than a window of as many tokens as all carry vectors."""
    window = f"more than the last {result.window_name} tokens"
    claims = []
    for length in lengths:
        level = result.counting_window[result.tested.index(length)]
        claims += [
            Claim(
                f"{name} remembers {window}, at {length}", seeds - level, LEAST, "", [gates[name]]
            )
            for name, seeds in result.scores_at(trained, length).items()
        ]
    return claims


def shape_claims(result: SortingResult, trained: int, gates: Mapping[str, Gate]) -> list[Claim]:
    """The shape that the paper draws: a window ahead in short streams, the signal in long ones.

    Of the ∞-formers the best one by mean speaks, so that the claim does not hang on a variant.
    """
    signals = [facts.label for facts in result.models.values() if facts.label.startswith(NAME)]
    window = next((f.label for name, f in result.models.items() if name == "transformer_xl"), None)
    if window is None or not signals:
        return []
    first, last = result.tested[0], max(result.tested[-1], trained)
    claims = []
    for length, sign, who in ((first, -1, "Transformer-XL"), (last, 1, NAME)):
        scores = result.scores_at(trained, length)
        best = max(signals, key=lambda name: float(scores[name].mean()))
        # Every seed of the one against every seed of the other: pairs of seeds are no pairs here.
        apart = np.subtract.outer(scores[best], scores[window]).ravel()
        claims.append(
            Claim(f"{who} is ahead at {length}, as in the paper", sign * apart, LEAST, "",
                  [gates[best], gates[window]])
        )  # fmt: skip
    return claims


def findings(result: SortingResult) -> list[str]:
    """Who remembers more than a window holds, at the length trained last and at the longest."""
    trained, longest = result.trained[-1], result.tested[-1]
    at, gates = asked_at(result, trained), gates_of(result, trained)
    passed = [name for name, gate in gates.items() if gate.passed]
    scores, last = (result.scores_at(trained, length) for length in (at, longest))
    if not passed:
        best = max(float(seeds.mean()) for seeds in scores.values())
        return [
            f"Nothing can be told: after {at} tokens no model does as well as exact counting of "
            f"what is in reach of its own cache and segment; the best has {best:.0%} of the "
            f"symbols right, guessing {result.chance:.0%}."
        ]
    how = LEAST, ("answers best", "answer best"), ".0%", " of the symbols right"
    called = _called(list(gates))
    first, final = (leaders({called[n]: s[n] for n in passed}, *how) for s in (scores, last))
    seen = _remembering(result, trained, gates, at)
    sentences = [f"After {at} tokens, {seen}: {first}; {_counted(result, at)}."]
    if longest > at:
        seen = _remembering(result, trained, gates, longest)
        sentences.append(
            f"After {longest}, {longest / at:.2g} times as many, {seen}: {final}; "
            f"{_counted(result, longest)}."
        )
    failed = [called[name] for name in gates if name not in passed]
    why = "not every training reaches exact counting of what is in its cache and segment"
    return [*sentences, *not_compared(failed, why)]


def _remembering(
    result: SortingResult, trained: int, gates: Mapping[str, Gate], length: int
) -> str:
    """How many models are seen to remember more than as many of the last tokens as all carry."""
    claims = [one for one in claims_of(result, trained, gates, [length]) if one.verdict == "seen"]
    who = {0: "no model is", 1: "one model is"}.get(len(claims), f"{len(claims)} models are")
    return f"{who} seen to remember more than a window"


def _counted(result: SortingResult, length: int) -> str:
    level = result.counting_window[result.tested.index(length)]
    return f"counting the last {result.window_name} tokens gives {level:.0%}"


def _called(labels: Sequence[str]) -> dict[str, str]:
    """Names that can stand in a list: ``∞-former (τ fixed, sticky)``; alone what tells them apart.

    Of variants of one memory its name is left out.
    """
    parts = {label: label.partition(", ") for label in labels}
    if len(parts) > 1 and len({name for name, _, _ in parts.values()}) == 1:
        return {label: variant or name for label, (name, _, variant) in parts.items()}
    return {
        label: f"{name} ({variant})" if variant else name
        for label, (name, _, variant) in parts.items()
    }
