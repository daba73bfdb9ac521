"""Promises about reading: whole or in pieces, forward only, from a state that is used."""

from __future__ import annotations

import torch

from mnemoscope.checks.difference import compared, spread
from mnemoscope.checks.examination import Examination, Outcome
from mnemoscope.checks.subject import NotAskedError, TransformersSubject
from mnemoscope.memories.leaves import tensors

# A state whose absence changes less than so many tolerances is not used.
USED = 10
# How many ways of cutting are tried, and tokens that are generated.
WAYS, STEPS = 3, 6


def deterministic(exam: Examination) -> Outcome:
    """The same call twice."""
    again, _ = exam.subject.read(exam.text)
    apart = compared(again, exam.whole, 0.0)
    return Outcome("kept" if apart.largest == 0 else "broken", apart.largest, 0.0, apart.where)


def causal(exam: Examination) -> Outcome:
    """Other tokens from some place on: what was said before stays the same."""
    found = []
    for at in sorted({exam.length // 3, exam.length - 1}):
        changed = torch.cat((exam.text[:, :at], exam.other[:, at:]), 1)
        logits, _ = exam.subject.read(changed)
        found.append(exam.judge(logits[:, :at], exam.whole[:, :at]))
    return exam.worst(found)


def state_used(exam: Examination) -> Outcome:
    """The second half of a text, after the first and after nothing."""
    subject, half = exam.subject, exam.length // 2
    _, state = subject.read(exam.text[:, :half])
    if not tensors(state):
        if isinstance(subject, TransformersSubject) and not subject.promised:
            raise NotAskedError("its forward speaks of no state")
        return Outcome("broken", note="it hands out no state")
    after, _ = subject.read(exam.text[:, half:], state)
    alone, _ = subject.read(exam.text[:, half:])
    apart = compared(after, alone, exam.tolerance).largest
    least = USED * exam.tolerance
    if apart > least:
        return Outcome("kept", apart, least)
    return Outcome("broken", apart, least, f"token {half}", "logits are those without the state")


def random_splits(exam: Examination) -> Outcome:
    """Several random ways of cutting."""
    return exam.worst(
        [exam.judge(exam.in_pieces(exam.cuts(way))[0], exam.whole) for way in range(WAYS)]
    )


def one_by_one(exam: Examination) -> Outcome:
    """Every token a piece."""
    return exam.judge(exam.in_pieces([1] * exam.length)[0], exam.whole)


def several_after(exam: Examination) -> Outcome:
    """Two pieces."""
    half = exam.length // 2
    logits, _ = exam.in_pieces([half, exam.length - half])
    return exam.judge(logits[:, half:], exam.whole[:, half:], half)


def generated(exam: Examination) -> Outcome:
    """Every token that was said must be a likeliest one when all before it is read at once.

    Compared by their logits and not as tokens, because ties are broken by rounding.
    """
    subject, length = exam.subject, exam.length // 2
    prompt = exam.text[:, :length]
    said = subject.generate(prompt, STEPS)
    logits, _ = subject.read(torch.cat((prompt, said), 1)[:, :-1])
    logits = logits[:, length - 1 :]
    short = (logits.amax(-1) - logits.gather(-1, said[..., None])[..., 0]) / spread(logits)
    largest = float(short.max())
    if largest <= exam.tolerance:
        return Outcome("kept", max(largest, 0.0), exam.tolerance)
    row, step = min((short > exam.tolerance).nonzero().tolist(), key=lambda place: place[1])
    return Outcome("broken", largest, exam.tolerance, f"row {row}, token {length + step}")
