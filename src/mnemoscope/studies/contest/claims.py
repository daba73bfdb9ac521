"""What is claimed of sparse patterns at equal compute, and what the pages lead with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.report.claims import Claim, Gate
from mnemoscope.studies.contest.result import ContestResult
from mnemoscope.studies.sentences import leaders, listed, not_compared, ranked

# Bits by which two patterns must differ in every seed; the paper's differ by 0.01 to 0.14.
LEAST = 0.01


def comparisons(best: str, other: str) -> list[tuple[str, str]]:
    """Which patterns are compared: with dense attention, with each other, with the window alone."""
    against_dense = [(name, "dense") for name in (best, other, "local")]
    return [*against_dense, (best, other), (best, "local")]


def gates(result: ContestResult, counted: Mapping[str, float], model: str) -> list[Gate]:
    """What every training of a model must beat: models that only count."""
    bits = result.final_bits(model)
    return [Gate(f"{model} below {name}", least - bits) for name, least in counted.items()]


def claims(
    result: ContestResult, counted: Mapping[str, float], asked: Sequence[tuple[str, str]]
) -> list[Claim]:
    """Who needs fewer bits than whom, seed by seed (the seeds are paired)."""
    return [
        Claim(
            f"{name} needs fewer bits than {other}",
            result.final_bits(other) - result.final_bits(name),
            LEAST,
            "bits",
            [gate for one in (name, other) for gate in gates(result, counted, one)],
        )
        for name, other in asked
        if name in result.models and other in result.models
    ]


def order(result: ContestResult, counted: Mapping[str, float]) -> str:
    """The models that passed their gates, from the fewest bits to the most; then the others."""
    bits = {name: result.final_bits(name) for name in result.models}
    failed = [name for name in bits if not _passed(result, counted, name)]
    return ranked(bits, least=LEAST, digits=3, lowest_first=True, failed=failed)


def _passed(result: ContestResult, counted: Mapping[str, float], model: str) -> bool:
    return all(gate.passed for gate in gates(result, counted, model))


def findings(result: ContestResult, unit: str, counted: Mapping[str, float]) -> list[str]:
    """Whether a sparse pattern does as well as dense attention, and better than a window alone."""
    bits = {name: result.final_bits(name) for name in result.models}
    passed = {name: seeds for name, seeds in bits.items() if _passed(result, counted, name)}
    failed = {name: seeds for name, seeds in bits.items() if name not in passed}
    if not passed:
        best = min(float(seeds.mean()) for seeds in bits.values())
        return [
            f"Nothing can be told of these patterns: none beats {_trivial(counted)} in every "
            f"training; the best has {_bits([best])} bits per {unit}."
        ]
    sentences = []
    if "dense" in failed:
        mean = failed["dense"].mean()
        at = (
            f"at {mean:.3f} bits per {unit}"
            if np.isfinite(mean)
            else "of which a training diverged"
        )
        sentences.append(
            f"Whether a sparse pattern does as well as dense attention for the same compute cannot "
            f"be told: dense, {at}, does not beat {_trivial(counted)}."
        )
    elif "dense" in passed and len(passed) > 1:
        sentences.append(_against_dense(result, unit, counted, list(passed)))
    sentences.append(_against_window(result, unit, counted, passed))
    others = [name for name in failed if name != "dense"]
    return [*sentences, *not_compared(others, "not every training beats a model that counts")]


def _trivial(counted: Mapping[str, float]) -> str:
    name = min(counted, key=lambda one: counted[one])
    return f"a model that only counts ({name}: {counted[name]:.3f})"


def _bits(means: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(f"{bits:.3f}" for bits in (min(means), max(means))))


def _against_dense(
    result: ContestResult, unit: str, counted: Mapping[str, float], passed: Sequence[str]
) -> str:
    """Sparse patterns that passed, by what they need against dense attention."""
    sparse = [name for name in passed if name != "dense"]
    mean = {name: float(result.final_bits(name).mean()) for name in passed}
    asked = claims(result, counted, [(name, "dense") for name in sparse])
    verdicts = {name: claim.verdict for name, claim in zip(sparse, asked, strict=True)}
    told = []
    for verdict, word in (("seen", "fewer"), ("opposite", "more")):
        names = [name for name in sparse if verdicts[name] == verdict]
        if names:
            verb = "needs" if len(names) == 1 else "need"
            told.append(
                f"{listed(names)} {verb} {word} bits per {unit} than dense attention, "
                f"{_bits([mean[name] for name in names])} against {mean['dense']:.3f}"
            )
    unclear = [name for name in sparse if verdicts[name] not in ("seen", "opposite")]
    if unclear:
        told.append(f"{listed(unclear)} cannot be told apart from dense attention")
    least = min(counted.values())
    return f"For the same compute, {'; '.join(told)}; a model that only counts needs {least:.3f}."


def _against_window(
    result: ContestResult, unit: str, counted: Mapping[str, float], passed: Mapping[str, Floats]
) -> str:
    """Who needs fewest bits; and whether anybody needs fewer than the control, a window alone."""
    verbs = "needs fewest bits", "need fewest bits"
    first = leaders(passed, LEAST, verbs, ".3f", f" per {unit}", lowest_first=True)
    others = [name for name in passed if name not in ("local", "dense")]
    if "local" not in passed or not others:
        return f"Of what was compared, {first}."
    asked = claims(result, counted, [(name, "local") for name in others])
    better = [n for n, claim in zip(others, asked, strict=True) if claim.verdict == "seen"]
    if better:
        verb = "does" if len(better) == 1 else "do"
        return f"Of all, {first}; {listed(better)} {verb} better than the window alone (local)."
    verb = "is" if len(others) == 1 else "are"
    return (
        f"Of all, {first}; {listed(others)} {verb} not seen to do better than the window alone "
        "(local), so nothing here shows that looking further back pays."
    )
