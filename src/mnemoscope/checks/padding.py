"""Promises about padding: rows of several lengths in one batch.

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.checks.examination import Examination, Outcome, limited
from mnemoscope.checks.segments import one_by_one

ABSOLUTE = "absolute positions: padding shifts them unless position_ids are given"


def left(exam: Examination) -> Outcome:
    """A mask alone; what position ids would put right is a limit, and not a fault."""
    found = _padded(exam, on_left=True, ids=False)
    if found.kept or exam.subject.lacks("position ids") or not left_with_ids(exam).kept:
        return found
    # Ids also hide positions that begin anew after a state, which is no matter of padding.
    counts = exam.subject.lacks("state") is not None or one_by_one(exam).kept
    return limited(found, ABSOLUTE) if counts else found


def left_with_ids(exam: Examination) -> Outcome:
    """A mask, and the position of every token in its own row."""
    return _padded(exam, on_left=True, ids=True)


def right(exam: Examination) -> Outcome:
    """A mask alone."""
    return _padded(exam, on_left=False, ids=False)


def right_with_ids(exam: Examination) -> Outcome:
    """A mask and positions."""
    return _padded(exam, on_left=False, ids=True)


def _padded(exam: Examination, *, on_left: bool, ids: bool) -> Outcome:
    """Rows that lack 0, 3 and 6 tokens, against each alone; then one more token of each.

    After padding on the right only our own states continue: a cache of `transformers` has no place
    for a token that is not at the end.
    """
    subject, text, length = exam.subject, exam.text[:, :-2], exam.length - 2
    more = exam.text[:, -2:]
    lacking = [row * min(3, length // 4) for row in range(len(text))]
    alone = [_alone(exam, row, less) for row, less in enumerate(lacking)]
    mask = torch.ones_like(text, dtype=torch.bool)
    padded = text.clone()
    for row, less in enumerate(lacking):
        if less:
            held = text[row, : length - less]
            padded[row] = exam.filler
            place = slice(less, None) if on_left else slice(0, length - less)
            padded[row, place] = held
            mask[row] = False
            mask[row, place] = True
    begin = exam.first_position if ids else 0
    positions = begin + (mask.cumsum(1) - 1).clamp(min=0) if ids else None
    logits, state = subject.read(padded, None, mask, positions)
    found = [logits[row][mask[row]] for row in range(len(text))]
    goes_on = on_left or subject.dialect != "transformers"
    if goes_on and subject.lacks("state") is None:
        for step in range(more.shape[1]):
            at = None if positions is None else begin + mask.sum(1)[:, None] + step
            token = more[:, step : step + 1]
            out, state = subject.read(token, state, torch.ones_like(token, dtype=torch.bool), at)
            found = [torch.cat((one, out[row])) for row, one in enumerate(found)]
    pairs = zip(found, alone, strict=True)
    judged = [exam.judge(one[None], wanted[None, : len(one)]) for one, wanted in pairs]
    worst = exam.worst(judged)
    row = judged.index(worst)
    # Counted without the padding; which row lacks how many tokens is said as well.
    where = worst.where.replace("row 0", f"row {row} ({lacking[row]} padded)")
    return replace(worst, where=where)


def _alone(exam: Examination, row: int, less: int) -> Tensor:
    """Logits of one row that lacks some tokens at its end, then the two that follow."""
    kept = exam.text[row, : exam.length - 2 - less]
    return exam.subject.read(torch.cat((kept, exam.text[row, -2:]))[None])[0][0]
