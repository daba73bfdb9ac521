"""Train a long-term memory on long texts, and measure how much loss it saves, window by window.

Shapes: R rows, T tokens, W windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.config import InfiniteFitting
from mnemoscope.huggingface.infinite.hidden_states import states_below
from mnemoscope.huggingface.infinite.pasts import exchanged, without
from mnemoscope.huggingface.infinite.streams import stretches
from mnemoscope.huggingface.loading import check_ids
from mnemoscope.memories.state import StreamState

if TYPE_CHECKING:
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory

Floats = NDArray[np.float64]
RESAMPLED = 1000


class DivergedFitError(UserError):
    """The loss is not finite any more."""


@dataclass(frozen=True)
class Learner:
    """What learns, and the lowest block that it is in."""

    module: nn.Module
    lowest: int


def fit(
    memory: InfiniteMemory,
    texts: Sequence[Tensor],
    rows: int,
    options: InfiniteFitting,
    learner: Learner | None = None,
) -> list[float]:
    """Read texts (T,), ``rows`` side by side, and learn; returns the cross-entropy of every step.

    What the signals ask for beside it (``kl``) is learnt too, but not in what is returned. The past
    is carried from step to step and begins anew with every text. What learns is the memory, or else
    the ``learner``.
    """
    device = next(memory.base.parameters()).device
    stretch = memory.options.window * options.tbptt
    for text in texts:
        check_ids("the model", text, parts.words_of(memory.base))
    if max(map(len, texts), default=0) < stretch + 1:
        raise UserError(
            f"the longest of {len(texts)} texts is too short: with window="
            f"{memory.options.window} and tbptt={options.tbptt}, {stretch + 1} tokens are needed; "
            "give more text, or a smaller window"
        )
    if learner is None:
        options.check(memory.options)
        learner = Learner(memory.readers, min(memory.reading_layers, default=0))
    kept = states_below(memory, texts, rows, learner.lowest, options)
    losses: list[float] = []
    state: StreamState | None = None
    with parts.put_back(memory), progress("infinite", options.steps, silent=options.silent) as show:
        learner.module.train()
        memory.requires_grad_(options.learn == "all")
        learner.module.requires_grad_(True)
        known = {*memory.parameters(), *learner.module.parameters()}
        weights = [weight for weight in known if weight.requires_grad]
        # Transformer-XL's memory has no weights of its own: there is nothing to be trained.
        optimizer = torch.optim.AdamW(weights, lr=options.lr, weight_decay=0.0) if weights else None
        read = islice(stretches(texts, rows, stretch), options.steps)
        for step, one in enumerate(read):
            if state is not None:
                state = None if bool(one.starts.all()) else state.reset(one.starts)
            with kept.of(one, stretch) if kept else nullcontext():
                out = memory(one.tokens.to(device), state)
            state = out.state.detach()
            loss = F.cross_entropy(
                out.logits.float().flatten(0, 1), one.targets.to(device).flatten()
            )
            if not bool(loss.isfinite()):
                said = f"the loss is {float(loss.detach())} at step {step}: lower lr"
                raise DivergedFitError(said)
            # The first window of a text has no past to learn to read.
            if loss.requires_grad and optimizer is not None:
                optimizer.zero_grad()
                torch.autograd.backward(sum(out.losses.values(), loss))
                nn.utils.clip_grad_norm_(weights, 1.0)
                optimizer.step()
            losses.append(float(loss.detach()))
            show(step + 1, f"loss {losses[-1]:.3f}")
    return losses


@dataclass(frozen=True, eq=False)
class MemoryWorth:
    """Loss per token (R, W, T) of every token of every window but the first.

    NaN where a text has ended; the first token of a window is not counted, because with no state
    nothing predicts it.

    own    with the state of all that came before
    none   every window by itself, with a fresh state; where the model's own attention reads the
           past (`joint`, `sinks`), with the window before
    other  with the state of another text, likewise; NaN where there is none
    """

    own: Floats
    none: Floats
    other: Floats

    @property
    def windows(self) -> NDArray[np.bool_]:
        """The windows that every number is a mean over, (R, W): those read with all states.

        With one text alone there is no other state, and these are all windows.
        """
        read, other = (np.asarray(np.isfinite(one).all(2)) for one in (self.own, self.other))
        return read & other if other.any() else read

    def gain(self, over: str = "none") -> tuple[float, float, float]:
        """Nats per token that the own state saves over none or another's, with a 95 % interval.

        Windows are drawn anew for the interval, all their tokens together.
        """
        saved: Floats = (getattr(self, over) - self.own)[self.windows].mean(1)
        drawn = np.random.default_rng(0).integers(saved.size, size=(RESAMPLED, saved.size))
        low, high = np.quantile(saved[drawn].mean(1), (0.025, 0.975))
        return float(saved.mean()), float(low), float(high)

    def by_position(self) -> dict[str, Floats]:
        """Mean loss at each position of a window, (T,), with the three states."""
        three = {"own": self.own, "none": self.none, "other": self.other}
        return {name: losses[self.windows].mean(0) for name, losses in three.items()}

    def __str__(self) -> str:
        means = {name: float(losses.mean()) for name, losses in self.by_position().items()}
        count = int(self.windows.sum())
        lines = [f"mean loss of {count} windows, in nats per token, after reading"]
        said = {"own": "their own text", "none": "nothing", "other": "another text"}
        for name, words in said.items():
            if np.isnan(means[name]):
                lines.append(f"  {words:<15} there is one text only: give a second one")
                continue
            line = f"  {words:<15} {means[name]:.4f}"
            if name != "own":
                gain, low, high = self.gain(name)
                line += f"   the own text saves {gain:+.4f} (95 %: {low:+.4f} to {high:+.4f})"
                line += ", not distinguishable from 0" if low <= 0 <= high else ""
            lines.append(line)
        return "\n".join(lines)


@torch.no_grad()
def worth(memory: InfiniteMemory, rows: Sequence[Tensor], silent: bool = False) -> MemoryWorth:
    """Read whole texts side by side, token ids each, from their beginnings to their ends."""
    window, device = memory.options.window, next(memory.base.parameters()).device
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
                empty, strange_state = _other_pasts(memory, state)
                losses["own"][reading, number - 1] = _losses(out.logits, tokens)
                losses["none"][reading, number - 1] = _losses(memory(tokens, empty).logits, tokens)
                if len(reading) > 1:
                    strange = memory(tokens, strange_state)
                    losses["other"][reading, number - 1] = _losses(strange.logits, tokens)
            state = out.state
            show(number + 1, "")
    return MemoryWorth(**losses)


def _other_pasts(
    memory: InfiniteMemory, state: StreamState
) -> tuple[StreamState | None, StreamState]:
    """No past, and another text's; where attention reads it, the window before stays."""
    if memory.slot_plans:
        window = memory.options.window
        return without(state, window, memory.options.sinks), exchanged(state, window)
    return None, state.select([*range(1, state.batch), 0])


def _losses(logits: Tensor, tokens: Tensor) -> Floats:
    """Loss of every token but the first, (R, T - 1)."""
    each = F.cross_entropy(logits[:, :-1].float().transpose(1, 2), tokens[:, 1:], reduction="none")
    losses: Floats = each.double().cpu().numpy()
    return losses
