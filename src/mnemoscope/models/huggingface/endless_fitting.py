"""Train an endless memory on long texts, and ask what its past is worth, window by window.

Shapes: R rows, T tokens, W windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemoscope.errors import UserError
from mnemoscope.memory.state import StreamState
from mnemoscope.models.huggingface import blocks as parts
from mnemoscope.models.huggingface.endless import EndlessMemory
from mnemoscope.progress import progress

Floats = NDArray[np.float64]


def lanes(tokens: Any, rows: int) -> Tensor:
    """Cut one long text into ``rows`` streams of equal length, (R, T)."""
    ids = torch.as_tensor(tokens)
    if ids.dim() != 1 or len(ids) < 2 * rows:
        raise UserError(f"{tuple(ids.shape)} tokens cannot be cut into {rows} streams")
    return ids[: len(ids) // rows * rows].view(rows, -1).long()


def fit_endless(
    memory: EndlessMemory,
    streams: Tensor,
    *,
    steps: int,
    lr: float = 3e-3,
    learn: Literal["memory", "all"] = "memory",
    horizon: int = 1,
) -> list[float]:
    """Read streams (R, T) window by window and learn; returns the loss of every step.

    The past is carried from step to step and begins anew with the streams. Gradients flow back
    through ``horizon`` windows; a gate of what is written needs 2.
    """
    window, device = memory.options.window, next(memory.base.parameters()).device
    stretch = window * horizon
    if streams.dim() != 2 or streams.shape[1] < stretch + 1:
        raise UserError(
            f"streams of shape {tuple(streams.shape)} are too short: {stretch + 1} tokens are "
            "needed in each"
        )
    if learn == "memory" and not memory.reading:
        raise UserError("a cache has no weights of its own: there is nothing to learn but all")
    asked = {weight: weight.requires_grad for weight in memory.base.parameters()}
    memory.base.requires_grad_(learn == "all")
    weights = [weight for weight in memory.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=lr, weight_decay=0.0)
    streams, losses = streams.to(device), []
    state: StreamState | None = None
    try:
        with progress("endless", steps) as show:
            place = 0
            for step in range(steps):
                if place + stretch + 1 > streams.shape[1]:
                    place, state = 0, None
                tokens = streams[:, place : place + stretch]
                targets = streams[:, place + 1 : place + stretch + 1]
                out = memory(tokens, state)
                state, place = out.state.detach(), place + stretch
                loss = F.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten())
                if not bool(loss.isfinite()):
                    raise UserError(f"the loss is {float(loss.detach())} at step {step}: lower lr")
                # The first window of a stream has no past to learn to read.
                if loss.requires_grad:
                    optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    nn.utils.clip_grad_norm_(weights, 1.0)
                    optimizer.step()
                losses.append(float(loss.detach()))
                show(step + 1, f"loss {losses[-1]:.3f}")
    finally:
        for weight, trainable in asked.items():
            weight.requires_grad_(trainable)
    return losses


@dataclass(frozen=True, eq=False)
class PastWorth:
    """Loss per token of each window, (R, W), and of the same tokens with another past.

    own    after all that came before
    none   every window by itself: the base
    other  after what came before in another row; NaN when there is one row only
    """

    own: Floats
    none: Floats
    other: Floats

    def __str__(self) -> str:
        means = [float(np.nanmean(x)) if np.isfinite(x).any() else np.nan for x in self._three()]
        return "own past {:.4f}, none {:.4f}, another's {:.4f} nats per token".format(*means)

    def _three(self) -> tuple[Floats, Floats, Floats]:
        return self.own, self.none, self.other


@torch.no_grad()
def past_worth(memory: EndlessMemory, streams: Tensor, silent: bool = False) -> PastWorth:
    """Read whole texts (R, T) from beginning to end; the first window has no past and is left out.

    The first token of a window is not counted: with no past, nothing predicts it.
    """
    window, device = memory.options.window, next(memory.base.parameters()).device
    count = streams.shape[1] // window
    if count < 2:
        raise UserError(f"{streams.shape[1]} tokens are less than two windows of {window}")
    rows = len(streams)
    turned = [(row + 1) % rows for row in range(rows)]
    found: dict[str, list[Tensor]] = {"own": [], "none": [], "other": []}
    with parts.frozen(memory), progress("reading", count, silent=silent) as show:
        state: StreamState | None = None
        for place in range(count):
            tokens = streams[:, place * window : (place + 1) * window].to(device)
            out = memory(tokens, state)
            if state is not None:
                found["own"].append(_losses(out.logits, tokens))
                found["none"].append(_losses(memory(tokens).logits, tokens))
                if rows > 1:
                    strange = memory(tokens, state.select(turned))
                    found["other"].append(_losses(strange.logits, tokens))
            state = out.state
            show(place + 1, "")
    own, none = (torch.stack(found[name], 1).double().cpu().numpy() for name in ("own", "none"))
    other = np.full_like(own, np.nan)
    if rows > 1:
        other = torch.stack(found["other"], 1).double().cpu().numpy()
    return PastWorth(own, none, other)


def _losses(logits: Tensor, tokens: Tensor) -> Tensor:
    each = F.cross_entropy(logits[:, :-1].float().transpose(1, 2), tokens[:, 1:], reduction="none")
    return each.mean(1)
