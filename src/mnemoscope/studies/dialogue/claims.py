"""What is claimed of memories that hold a document, the stop rule, and what the page leads with."""

from __future__ import annotations

import numpy as np

from mnemoscope.report.claims import Claim, Gate
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.sentences import leaders, not_compared

# Share of the recoverable gain, and nats per token of document words, that count as a difference.
LEAST_SHARE, LEAST_NATS = 0.05, 0.05
# What the ceiling must get right where the right answer is known.
KNOWN = 0.95
# Standard errors within which a floor is at chance.
WITHIN = 3.0


def stop_rule(found: Recovered) -> str:
    """The rule that was fixed before anything was trained, and what it says here."""
    least = found.result.least_gain
    first, none = ("read", "tried") if found.result.pretrained else ("are trained", "trained")
    rule = (
        f"Stop rule, fixed in advance: floor and ceiling {first} first; if seeing all of the "
        f"document saves less than {least:g} nats per token of the words that stand in it, no "
        f"memory can look good here, and none is {none}."
    )
    if not found.bounded:
        return f"{rule} Of floor or ceiling no training came to its end."
    gain = found.gain()
    says = "so the study stops here" if found.result.stopped else "so there is something to gain"
    return f"{rule} It saves {_shown(gain.mean, gain.low, gain.high)}, {says}."


def gates_of_bounds(found: Recovered) -> list[Gate]:
    """What floor and ceiling must have learnt before anything is said of what lies between."""
    floor, ceiling = found.loss(FLOOR, "document"), found.loss(CEILING, "document")
    gates = [
        Gate(
            f"the ceiling saves at least {found.result.least_gain:g} nats per token of document "
            "words against the floor",
            floor.mean() - ceiling - found.result.least_gain,
        )
    ]
    chance = found.result.chance
    if chance is None:
        name = f"the floor costs less than the {found.result.unigram:.2f} nats of counted words"
        return [*gates, Gate(name, found.result.unigram - found.loss(FLOOR))]
    asked = found.counts[:, found.result.groups.index("all")].sum()
    near = WITHIN * float(np.sqrt(chance * (1 - chance) / asked))
    right = found.accuracy(FLOOR)
    gates.append(Gate(f"the ceiling answers {KNOWN:.0%}", found.accuracy(CEILING) - KNOWN))
    gates.append(Gate(f"the floor is at chance, to {near:.3f}", near - np.abs(right - chance)))
    return gates


def gate_of(found: Recovered, model: str) -> Gate:
    """A memory must have learnt what can be learnt without a document."""
    floor = float(found.loss(FLOOR).mean())
    return Gate(
        f"no worse than no document, to {LEAST_NATS} nats",
        floor + LEAST_NATS - found.loss(model),
    )


def claims_of(found: Recovered) -> list[Claim]:
    """Who holds something of the document, and more than the window does."""
    bounds, floor = gates_of_bounds(found), float(found.loss(FLOOR, "document").mean())
    claims = []
    for model in found.contestants:
        name, gates = found.labels[model], [*bounds, gate_of(found, model)]
        own, wrong = (found.loss(model, "document", read) for read in ("own", "another"))
        saved = found.all_of(floor - own, found.saved(model))
        swapped = found.all_of(wrong - own, found.cost(model, "another"))
        claims += [
            Claim(f"{name} holds something of the document", saved, LEAST_NATS, "nats", gates),
            Claim(f"{name}: it must be this document", swapped, LEAST_NATS, "nats", gates),
        ]
    pairs = [(m, "window") for m in found.contestants if m != "window" and "window" in found.trials]
    if {"infinite_sticky", "infinite_fixed"} <= set(found.trials):
        pairs.append(("infinite_sticky", "infinite_fixed"))
    for model, other in pairs:
        # Every seed of the one against every seed of the other: pairs of seeds are no pairs here.
        apart = np.subtract.outer(found.shares(model), found.shares(other)).ravel()
        claims.append(
            Claim(
                f"{found.labels[model]} recovers more than {found.labels[other]}",
                found.all_of(apart, found.apart(model, other)),
                LEAST_SHARE,
                "of the gain",
                [*bounds, gate_of(found, model), gate_of(found, other)],
            )
        )
    return claims


def findings(found: Recovered) -> list[str]:
    """What can be recovered here, who recovers how much, and what answers that amounts to."""
    if not found.bounded:
        return ["Nothing can be told: of floor or ceiling no training came to its end."]
    gain = found.gain()
    if found.result.stopped:
        return [
            "No memory can look good here: seeing all of the document saves "
            f"{gain.mean:.3f} nats per token of its words against seeing none of it; at least "
            f"{found.result.least_gain:g} were asked for in advance, so no memory was "
            f"{'tried' if found.result.pretrained else 'trained'}. {_elsewhere(found)}"
        ]
    failed = [str(gate) for gate in gates_of_bounds(found) if not gate.passed]
    if failed:
        return [f"Nothing can be told of memories: {failed[0]}."]
    passed = {
        found.labels[m]: found.all_of(found.shares(m), found.share(m))
        for m in found.contestants
        if gate_of(found, m).passed
    }
    told = [
        "Seeing all of the document saves "
        f"{_shown(gain.mean, gain.low, gain.high)} nats per token of its words."
    ]
    if passed:
        verbs = ("recovers most", "recover most")
        among = "draw of conversations" if found.single else "seed"
        first = leaders(passed, LEAST_SHARE, verbs, ".0%", "", among=among)
        told.append(f"Of this gain {first}{_answers(found)}.")
    out = [found.labels[m] for m in found.contestants if found.labels[m] not in passed]
    return [*told, *not_compared(out, "not every training is as good as no document at all")]


def _elsewhere(found: Recovered) -> str:
    """Where to look when there is nothing to recover here."""
    if found.result.pretrained:
        return "Replies that draw on their documents need another corpus, or longer documents."
    return "One may with a pretrained model, which has learnt to read: give model."


def _answers(found: Recovered) -> str:
    chance = found.result.chance
    if chance is None:
        return ""
    top, floor = (float(found.accuracy(one).mean()) for one in (CEILING, FLOOR))
    return (
        f"; of the answers the ceiling has {top:.0%} right, the floor {floor:.0%}, "
        f"guessing {chance:.0%}"
    )


def _shown(mean: float, low: float, high: float) -> str:
    return f"{mean:.3f} (95 %: {low:.3f} to {high:.3f})"
