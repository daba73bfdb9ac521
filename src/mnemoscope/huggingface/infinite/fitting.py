"""Train a long-term memory on long texts, and measure what it is worth, window by window.

Shapes: R rows, T tokens, W windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.config import InfiniteFitting
from mnemoscope.huggingface.loading import check_ids
from mnemoscope.huggingface.texts import PER_TOKEN, first_ids
from mnemoscope.memories.state import StreamState

if TYPE_CHECKING:
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory

Floats = NDArray[np.float64]
RESAMPLED = 1000


def lanes(tokens: Any, rows: int) -> Tensor:
    """Cut one long text into ``rows`` streams of equal length, (R, T)."""
    ids = torch.as_tensor(tokens)
    if ids.dim() != 1 or rows < 1:
        raise UserError(f"one text is cut into streams, not {tuple(ids.shape)} into {rows}")
    if len(ids) < 2 * rows:
        raise UserError(
            f"the text has {len(ids)} tokens, too few to be read as {rows} streams: give a longer "
            "one, or lower rows"
        )
    return ids[: len(ids) // rows * rows].view(rows, -1).long()


def streams_of(texts: Sequence[str], tokenizer: Any, rows: int, most: int) -> Tensor:
    """Cut texts into ``rows`` streams (R, T), of which training will read ``most`` tokens each.

    Of texts that are far longer, every stream is the beginning of its share, and the rest is not
    even cut into tokens.
    """
    if sum(map(len, texts)) <= PER_TOKEN * rows * most:
        return lanes([token for text in texts for token in first_ids(tokenizer, text)], rows)
    joined = "\n".join(texts)
    size = len(joined) // rows
    streams = [
        first_ids(tokenizer, joined[row * size : (row + 1) * size], most) for row in range(rows)
    ]
    return torch.tensor([stream[: min(map(len, streams))] for stream in streams])


def fit(memory: InfiniteMemory, streams: Tensor, options: InfiniteFitting) -> list[float]:
    """Read streams (R, T) window by window and learn; returns the loss of every step.

    The past is carried from step to step and begins anew with the streams.
    """
    device = next(memory.base.parameters()).device
    check_ids("the model", streams, parts.words_of(memory.base))
    stretch = memory.options.window * options.tbptt
    if streams.dim() != 2 or streams.shape[1] < stretch + 1:
        raise UserError(
            f"streams of shape {tuple(streams.shape)} are too short: {stretch + 1} tokens are "
            "needed in each"
        )
    options.check(memory.options)
    trained = {weight: weight.requires_grad for weight in memory.base.parameters()}
    memory.base.requires_grad_(options.learn == "all")
    weights = [weight for weight in memory.parameters() if weight.requires_grad]
    streams, losses = streams.to(device), []
    state: StreamState | None = None
    try:
        # Transformer-XL's memory has no weights of its own: there is nothing to be trained.
        optimizer = torch.optim.AdamW(weights, lr=options.lr, weight_decay=0.0) if weights else None
        with progress("infinite", options.steps, silent=options.silent) as show:
            start = 0
            for step in range(options.steps):
                if start + stretch + 1 > streams.shape[1]:
                    start, state = 0, None
                tokens = streams[:, start : start + stretch]
                targets = streams[:, start + 1 : start + stretch + 1]
                out = memory(tokens, state)
                state, start = out.state.detach(), start + stretch
                loss = F.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten())
                if not bool(loss.isfinite()):
                    raise UserError(f"the loss is {float(loss.detach())} at step {step}: lower lr")
                # The first window of a stream has no past to learn to read.
                if loss.requires_grad and optimizer is not None:
                    optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    nn.utils.clip_grad_norm_(weights, 1.0)
                    optimizer.step()
                losses.append(float(loss.detach()))
                show(step + 1, f"loss {losses[-1]:.3f}")
    finally:
        for weight, trainable in trained.items():
            weight.requires_grad_(trainable)
    return losses


@dataclass(frozen=True, eq=False)
class MemoryWorth:
    """Loss per token (R, W, T) of every token of every window but the first.

    NaN where a text has ended; the first token of a window is not counted, because with no past
    nothing predicts it.

    own    after all that came before
    none   every window by itself: the past is blanked
    other  after what came before in another text; NaN when there is none
    """

    own: Floats
    none: Floats
    other: Floats

    def gain(self, over: str = "none") -> tuple[float, float, float]:
        """Nats per token that the own past saves over none or another's, with a 95 % interval.

        Windows are drawn anew for the interval, all their tokens together.
        """
        saved: Floats = (getattr(self, over) - self.own).mean(2)
        saved = saved[np.isfinite(saved)]
        if not saved.size:
            return (np.nan, np.nan, np.nan)
        drawn = np.random.default_rng(0).integers(saved.size, size=(RESAMPLED, saved.size))
        low, high = np.quantile(saved[drawn].mean(1), (0.025, 0.975))
        return float(saved.mean()), float(low), float(high)

    def by_position(self) -> dict[str, Floats]:
        """Mean loss at each position of a window, (T,), under the three pasts."""
        three = {"own": self.own, "none": self.none, "other": self.other}
        return {name: _mean(losses, (0, 1)) for name, losses in three.items()}

    def __str__(self) -> str:
        three = {"own past": self.own, "none": self.none, "another's": self.other}
        said = [f"{name} {float(_mean(losses, None)):.4f}" for name, losses in three.items()]
        lines = [", ".join(said) + " nats per token"]
        for over, name in (("none", "none"), ("other", "another's")):
            mean, low, high = self.gain(over)
            if np.isfinite(mean):
                lines.append(f"gain over {name}: {mean:+.4f} ({low:+.4f} to {high:+.4f})")
        return "\n".join(lines)


def _mean(values: Floats, axes: tuple[int, int] | None) -> Any:
    """The mean of all that is there; NaN, without a warning, where nothing is."""
    there = np.isfinite(values)
    total = np.where(there, values, 0).sum(axis=axes)
    count = there.sum(axis=axes)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


@torch.no_grad()
def worth(
    memory: InfiniteMemory, texts: Sequence[Sequence[int]] | Tensor, silent: bool = False
) -> MemoryWorth:
    """Read whole texts side by side, each from its beginning to its end."""
    window, device = memory.options.window, next(memory.base.parameters()).device
    rows = [torch.as_tensor(text).long() for text in texts]
    for row in rows:
        check_ids("the model", row, parts.words_of(memory.base))
    counts = [len(row) // window for row in rows]
    if not rows or min(counts) < 2:
        short = min(map(len, rows), default=0)
        raise UserError(f"{short} tokens are less than two windows of {window}")
    shape = len(rows), max(counts) - 1, window - 1
    losses = {name: np.full(shape, np.nan) for name in ("own", "none", "other")}
    reading, state = list(range(len(rows))), None
    with parts.frozen(memory), progress("reading", max(counts), silent=silent) as show:
        for number in range(max(counts)):
            going = [at for at, row in enumerate(reading) if counts[row] > number]
            reading = [reading[at] for at in going]
            tokens = torch.stack(
                [rows[row][number * window : (number + 1) * window] for row in reading]
            ).to(device)
            state = None if state is None else state.select(going)
            out = memory(tokens, state)
            if state is not None:
                losses["own"][reading, number - 1] = _losses(out.logits, tokens)
                losses["none"][reading, number - 1] = _losses(memory(tokens).logits, tokens)
                if len(reading) > 1:
                    strange = memory(tokens, state.select([*range(1, len(reading)), 0]))
                    losses["other"][reading, number - 1] = _losses(strange.logits, tokens)
            state = out.state
            show(number + 1, "")
    return MemoryWorth(**losses)


def _losses(logits: Tensor, tokens: Tensor) -> Floats:
    """Loss of every token but the first, (R, T - 1)."""
    each = F.cross_entropy(logits[:, :-1].float().transpose(1, 2), tokens[:, 1:], reduction="none")
    losses: Floats = each.double().cpu().numpy()
    return losses
