"""Promises about rows: alone or together, picked in another order, started anew."""

from __future__ import annotations

import torch

from mnemoscope.checks.examination import Examination, Outcome

# As beam search picks: one row twice, one not at all.
BEAMS = (2, 0, 0)


def batched(exam: Examination) -> Outcome:
    """Each row alone, against the batch."""
    alone = [exam.subject.read(row[None])[0] for row in exam.text]
    return exam.judge(torch.cat(alone), exam.whole)


def selected(exam: Examination) -> Outcome:
    """The second half of a text after rows of the first were picked, one token and then more."""
    subject, half, rows = exam.subject, exam.length // 2, list(BEAMS)
    _, state = subject.read(exam.text[:, :half])
    picked = subject.select(state, rows)
    wanted, _ = subject.read(torch.cat((exam.text[rows, :half], exam.other[:, half:]), 1))
    # One token at a time: several after a state are another promise.
    logits = []
    for at in range(half, min(half + 4, exam.length)):
        out, picked = subject.read(exam.other[:, at : at + 1], picked)
        logits.append(out)
    found = torch.cat(logits, 1)
    return exam.judge(found, wanted[:, half : half + found.shape[1]], half)


def reset(exam: Examination) -> Outcome:
    """One row starts anew and reads another text; the others continue."""
    subject, half, fresh = exam.subject, exam.length // 2, 1
    _, state = subject.read(exam.text[:, :half])
    logits, _ = subject.read(exam.other[:, half:], subject.reset(state, [fresh]))
    undisturbed, _ = subject.read(exam.other[:, half:], state)
    wanted = undisturbed.clone()
    wanted[fresh] = subject.read(exam.other[fresh : fresh + 1, half:])[0][0]
    return exam.judge(logits, wanted, half)
