"""What a page needs of a model that reads: steps with views, single heads, states with gaps.

Shapes: T tokens of a segment, N tokens read so far, V outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.views.view import Floats, Json, Part, Pick, mean_of_heads
from mnemoscope.core.errors import UserError


@dataclass
class Step:
    """What a model showed while it read one segment.

    logits  (R, V) after its last R tokens: all of them, one, or none while a source is read
    state   all that it carries on
    """

    logits: Tensor
    state: Any
    nbytes: int
    parts: list[Part] = field(default_factory=list)
    panels: list[Json] = field(default_factory=list)


class PageStream(Protocol):
    """Reads tokens (T,) after ``first`` others; a state goes in and is never changed."""

    def step(self, tokens: Tensor, state: Any, first: int, targets: Sequence[int]) -> Step:
        """Read on and say what was seen; segments come in their order, each once."""

    def head(self, tokens: Tensor, state: Any, first: int, part: str, head: int | None) -> Floats:
        """Attention of one head of one part while it reads on, (T, N); None is their mean."""

    def read(
        self, tokens: Tensor, state: Any, history: Tensor, blank: Blank | None
    ) -> tuple[Tensor, Any]:
        """Read on after ``history`` (first,), with some of the state taken away.

        Returns logits (R, V) and the state after.
        """

    def how(self, blank: Blank) -> str:
        """How that is done, in words."""


def device_of(model: nn.Module) -> torch.device:
    """Where a model computes."""
    return next(model.parameters()).device


def find_part(parts: Sequence[Part], name: str) -> Floats:
    """Shares of the part of this name."""
    for part in parts:
        if part.name == name:
            return part.shares
    raise UserError(f"{name[:80]!r} has no heads here, or nothing to attend to yet")


def pick_head(head: int | None) -> Pick:
    """A function from weights (H, T, S) to those of one head, (T, S), or to their mean."""

    def pick(weights: Tensor) -> Tensor:
        if head is None:
            return mean_of_heads(weights)
        if not 0 <= head < len(weights):
            raise UserError(f"there is no head {head + 1} among {len(weights)}")
        return weights[head]

    return pick
