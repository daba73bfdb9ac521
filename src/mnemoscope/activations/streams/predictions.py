"""What a model expects: its likeliest answers, and what the true one costs in bits.

Shapes: T tokens, R rows of logits (T, or 1 of a model that answers once), V outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION

# Answers that are shown, likeliest first.
SHOWN = 8
# Of each of two answers that are compared.
FEW = 4
NATS = float(torch.log(torch.tensor(2.0)))

Answers = list[tuple[str, float]]


def check_finite(logits: Tensor) -> None:
    """Raise `UserError` when a model says nothing that can be drawn."""
    if not bool(logits.isfinite().all()):
        raise UserError("the model gives numbers that are not finite: has its training diverged?")


def likeliest(logits: Tensor, tokens: int, say: Callable[[int], str]) -> list[Answers | None]:
    """The likeliest outputs after each of ``tokens`` tokens; None where nothing is said.

    Logits (R, V) are those of the last R tokens.
    """
    found = logits.float().softmax(-1).topk(min(SHOWN, logits.shape[1]), dim=-1)
    rows: list[Answers | None] = [
        [(say(one), round(share, 5)) for one, share in zip(ids, shares, strict=True)]
        for ids, shares in zip(found.indices.tolist(), found.values.tolist(), strict=True)
    ]
    return [None] * (tokens - len(rows)) + rows


def compared(
    before: Tensor, after: Tensor, target: int, say: Callable[[int], str]
) -> list[tuple[str, float, float]]:
    """The likeliest outputs of two answers (V,) and the true one, with both probabilities."""
    shares = [logits.float().softmax(-1) for logits in (before, after)]
    few = min(FEW, len(before))
    chosen = [*shares[0].topk(few).indices.tolist(), *shares[1].topk(few).indices.tolist()]
    chosen += [] if target == NO_QUESTION else [target]
    return [
        (say(one), round(float(shares[0][one]), 5), round(float(shares[1][one]), 5))
        for one in dict.fromkeys(chosen)
    ]


def bits_of(logits: Tensor, targets: Sequence[int]) -> list[float | None]:
    """Bits that the true answer costs after each token, None where nothing is asked or said."""
    silent = len(targets) - len(logits)
    wanted = torch.tensor(targets[silent:], dtype=torch.long, device=logits.device)
    nats = F.cross_entropy(logits.float(), wanted, ignore_index=NO_QUESTION, reduction="none")
    bits: list[float | None] = [
        None if target == NO_QUESTION else round(cost, 3)
        for target, cost in zip(targets[silent:], (nats / NATS).tolist(), strict=True)
    ]
    return [None] * silent + bits


def mean_bits(bits: Sequence[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [one for one in bits if one is not None]
    return round(sum(known) / len(known), 4) if known else None
