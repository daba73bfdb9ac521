"""What the page of `lag` leads with: who still remembers after the longest wait."""

from __future__ import annotations

from mnemoscope.report.claims import Gate
from mnemoscope.studies.lag.result import LagResult
from mnemoscope.studies.sentences import leaders, listed, not_compared, spread
from mnemoscope.studies.study import label

# Share of answers by which memories must differ for an order to be said.
LEAST = 0.05


def learnt(result: LagResult) -> dict[str, Gate]:
    """By label: whether a memory has learnt the task, for the shortest wait at least."""
    asked = f"accuracy after {result.waits[0]} tokens at least {LEAST:g} above chance"
    level = 1 / result.symbols + LEAST
    return {label(m): Gate(asked, result.accuracy(m)[:, 0] - level) for m in result.models}


def findings(result: LagResult) -> list[str]:
    """Who still repeats what was shown after the longest wait, and how long the others do."""
    gates, chance = learnt(result), 1 / result.symbols
    failed = [name for name, gate in gates.items() if not gate.passed]
    last = {label(m): result.accuracy(m)[:, -1] for m in result.models}
    last = {name: values for name, values in last.items() if name not in failed}
    best = max((float(values.mean()) for values in last.values()), default=chance)
    if best < chance + LEAST:
        said = f"no memory repeats the symbols: at most {best:.0%} are right"
    else:
        verbs = "repeats most", "repeat most"
        said = leaders(last, LEAST, verbs, ".0%", " of the symbols")
    times = result.waits[-1] / result.trained
    beyond = f", {times:.3g} times the longest in training" if times > 1 else ""
    said = f"After a wait of {result.waits[-1]} tokens{beyond}, {said}; guessing gives {chance:.0%}"
    why = f"not every training repeats symbols even after a wait of {result.waits[0]}"
    return [f"{said}.", f"{_lived(result)}.", *not_compared(failed, why)]


def _lived(result: LagResult) -> str:
    """Up to which wait each memory is nearer to all than to chance."""
    named: dict[str, list[str]] = {}
    for memory in result.models:
        lives = result.half_lives(memory)
        if min(lives) == result.waits[-1]:
            words = "at every wait tested"
        elif max(lives) == 0:
            words = "at no wait"
        else:
            words = f"up to {spread(lives)} tokens" + (", by seed" if len(set(lives)) > 1 else "")
        named.setdefault(words, []).append(label(memory))
    told = "; ".join(f"{listed(names)} {words}" for words, names in named.items())
    return f"More than half-way from guessing to all right: {told}"
