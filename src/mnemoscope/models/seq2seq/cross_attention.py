"""Attention over a source: its states, one vector per source word, and its scores.

Shapes: B rows, T target tokens, S source words, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State
from mnemoscope.memories.transformer.state import AttentionState


@dataclass(frozen=True)
class SourceState(State):
    """Encoder outputs (B, S, D); visible (B, S) false where a row has ended, None when none has."""

    vectors: Annotated[Tensor, Axes("BSD")]
    visible: Annotated[Tensor, Axes("BS", "flags")] | None = None


@dataclass(frozen=True)
class AttentiveState(State):
    """A recurrent decoder with attention over the source.

    cells  one state per layer
    words  the encoder outputs it attends to
    found  (B, D) its last attentional output, fed into the next step (input feeding), or None
    """

    cells: tuple[State, ...]
    words: SourceState
    found: Annotated[Tensor, Axes("BD")] | None = None


@dataclass(frozen=True)
class CrossState(State):
    """Keys and values of the target so far and of the source, for one layer of a Transformer."""

    past: AttentionState
    source: AttentionState


def attended(visible: Tensor | None) -> Tensor | None:
    """Where attention may go; a row that was reset has nothing and attends to zeros everywhere."""
    return None if visible is None else visible | ~visible.any(1, keepdim=True)


def weigh(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax over the source words: scores (B, T, S) -> weights (B, T, S)."""
    seen = attended(visible)
    if seen is not None:
        scores = scores.masked_fill(~seen[:, None], -torch.inf)
    return scores.softmax(-1)


def additive(queries: Tensor, keys: Tensor, direction: Tensor) -> Tensor:
    """v · tanh(q_t + k_j), Bahdanau 2015, A.1.2: (B, T, D), (B, S, D), (D,) -> (B, T, S)."""
    return torch.tanh(queries[:, :, None] + keys[:, None]) @ direction


def multiplicative(queries: Tensor, vectors: Tensor) -> Tensor:
    """q_t · h_j, Luong 2015 ("general" once q is projected): (B, T, D), (B, S, D) -> (B, T, S)."""
    return queries @ vectors.transpose(1, 2)
