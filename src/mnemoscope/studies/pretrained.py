"""A pretrained model that reads without being trained: loaded once, its losses token by token.

Shapes: R rows, T tokens that are followed by another, V words.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.arrays import Floats
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.loading import load_model

# Losses in nats, and 1 where the token was held likeliest, 0 elsewhere; the same shape.
Scored = tuple[Floats, Floats]


@lru_cache(maxsize=1)
def base(folder: str, dtype: str = "float32") -> tuple[Any, Any]:
    """The model and its tokenizer, nothing of it learning."""
    model, tokenizer = load_model(folder)
    return model.to(getattr(torch, dtype)).eval().requires_grad_(False), tokenizer


class Reads(Protocol):
    """Options of a study that reads with a pretrained model."""

    @property
    def model(self) -> str | None:
        """A folder or a name."""

    @property
    def dtype(self) -> str:
        """What it computes and stores in."""


def reader_of(study: Reads) -> tuple[Any, Any]:
    """The model that a study reads with, and its tokenizer."""
    return base(study.model or "", study.dtype)


def scored(logits: Tensor, targets: Tensor) -> Scored:
    """Of logits (R, T, V) and what came (R, T)."""
    losses = F.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none")
    hits = (logits.argmax(-1) == targets).double()
    return losses.double().cpu().numpy(), hits.cpu().numpy()


@torch.no_grad()
def whole(model: Any, tokens: Tensor, start: int) -> Scored:
    """All of tokens (R, T + 1) at once: those after ``start`` see all before them."""
    keep = tokens.shape[1] - 1 - start
    return scored(_logits(model, tokens[:, :-1], keep), tokens[:, start + 1 :])


@torch.no_grad()
def window_alone(model: Any, tokens: Tensor, start: int, window: int) -> Scored:
    """Windows that overlap by half, so that every token sees at least half a window."""
    half, last, found = window // 2, tokens.shape[1] - 1, []
    for at in range(start, last, half):
        end = min(at + half, last)
        logits = _logits(model, tokens[:, max(0, at - half) : end], end - at)
        found.append(scored(logits, tokens[:, at + 1 : end + 1]))
    return _joined(found)


@torch.no_grad()
def remembered(memory: InfiniteMemory, tokens: Tensor, start: int) -> Scored:
    """Window by window with what an attached memory holds; tokens after ``start`` are scored."""
    window, last, state, found = memory.options.window, tokens.shape[1] - 1, None, []
    for at in range(0, last, window):
        end = min(at + window, last)
        if end <= start:
            state = memory.read(tokens[:, at:end], state)
            continue
        out = memory(tokens[:, at:end], state)
        state, skip = out.state, max(0, start - at)
        found.append(scored(out.logits[:, skip:], tokens[:, at + skip + 1 : end + 1]))
    return _joined(found)


def _joined(found: list[Scored]) -> Scored:
    losses, hits = (np.concatenate(one, 1) for one in zip(*found, strict=True))
    return losses, hits


def _logits(model: Any, tokens: Tensor, keep: int) -> Tensor:
    """The last ``keep`` of them; most models need not compute the others."""
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        kept: Tensor = model(tokens, logits_to_keep=keep, use_cache=False).logits
        return kept
    all_of_them: Tensor = model(tokens, use_cache=False).logits
    return all_of_them[:, -keep:]
