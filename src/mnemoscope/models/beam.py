"""Find likely translations: beam search over cached states, many sentences at once.

Shapes: N sentences still open, K hypotheses each, V outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.memories.state import StreamState
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.model import SequenceModel


@dataclass(frozen=True)
class Hypothesis:
    """What could be said: tokens without their end, and what it scores, end included.

    log_probability  sum over tokens and end
    score            that, divided by ((5 + length) / 6) ^ penalty (Wu 2016, eq. 14)
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float


def search(
    model: SequenceModel,
    state: StreamState,
    most: Sequence[int],
    *,
    end: int,
    beam: int = 4,
    penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """Return up to ``beam`` hypotheses for each row of the state, best first.

    Row r says at most ``most[r]`` tokens before its end. A sentence is done once ``beam``
    hypotheses have ended; ``beam=1`` always takes the likeliest token.
    """
    if beam < 1 or penalty < 0:
        raise UserError(f"beam must be at least 1 and penalty not negative: {beam=} {penalty=}")
    if len(most) != state.batch or min(most) < 1:
        raise UserError(f"{state.batch} rows need as many limits of at least 1: got {list(most)}")
    with evaluating(model), torch.inference_mode():
        return _search(model, state, most, end, beam, penalty)


def _search(
    model: SequenceModel,
    state: StreamState,
    most: Sequence[int],
    end: int,
    beam: int,
    penalty: float,
) -> list[list[Hypothesis]]:
    device = model.readout.weight.device
    ended: list[list[Hypothesis]] = [[] for _ in most]
    open_rows = list(range(len(most)))
    limits = torch.tensor(most, device=device)
    if beam > 1:
        state = state.select(torch.arange(len(most)).repeat_interleave(beam))
    # Sums of many log-probabilities need more than half precision; MPS has no double.
    kind = torch.promote_types(model.readout.weight.dtype, torch.float32)
    # All hypotheses of a sentence are alike at first: only one of them may have successors.
    scores = torch.full((len(most), beam), -torch.inf, dtype=kind, device=device)
    scores[:, 0] = 0
    said = torch.empty(len(most), beam, 0, dtype=torch.long, device=device)
    last = torch.full((len(most) * beam, 1), end, device=device)
    length = 0
    while open_rows:
        length += 1
        out = model(last, state)
        state = out.state
        news = out.logits[:, -1].to(kind).log_softmax(-1).view(len(open_rows), beam, -1)
        vocab = news.shape[2]
        # Whoever has said all it may can only end.
        full = limits < length
        if bool(full.any()):
            ending = news[full, :, end].clone()
            news[full] = -torch.inf
            news[full, :, end] = ending
        # Among twice as many candidates at least K do not end, since each hypothesis ends once.
        totals = (scores[:, :, None] + news).flatten(1)
        best, where = totals.topk(min(2 * beam, totals.shape[1]), 1)
        origin, word = where // vocab, where % vocab
        ends = word == end
        _collect(ended, open_rows, said, best, origin, ends, beam, penalty, length)

        closed = full | torch.tensor([len(ended[row]) >= beam for row in open_rows], device=device)
        open_rows = [row for row, done in zip(open_rows, closed.tolist(), strict=True) if not done]
        going = ~closed
        order = torch.argsort(ends[going].to(torch.uint8), dim=1, stable=True)[:, :beam]
        scores = best[going].gather(1, order)
        origin, word = origin[going].gather(1, order), word[going].gather(1, order)
        rows = going.nonzero() * beam + origin
        said = said[going].gather(1, origin[:, :, None].expand(-1, -1, length - 1))
        said = torch.cat((said, word[:, :, None]), 2)
        last, limits = word.reshape(-1, 1), limits[going]
        rows = rows.flatten()
        # Greedy search mostly continues with all rows as they are, and then nothing is copied.
        if open_rows and not torch.equal(rows, torch.arange(state.batch, device=device)):
            state = state.select(rows)
    return [sorted(found, key=lambda one: -one.score)[:beam] for found in ended]


def _collect(
    ended: list[list[Hypothesis]],
    open_rows: list[int],
    said: Tensor,
    best: Tensor,
    origin: Tensor,
    ends: Tensor,
    beam: int,
    penalty: float,
    length: int,
) -> None:
    """Note the hypotheses that end here; only the K best candidates may."""
    here = ends[:, :beam] & (best[:, :beam] > -torch.inf)
    for place, rank in here.nonzero().tolist():
        total = float(best[place, rank])
        tokens = said[place, int(origin[place, rank])].tolist()
        score = total / ((5 + length) / 6) ** penalty
        ended[open_rows[place]].append(Hypothesis(tuple(tokens), total, score))
