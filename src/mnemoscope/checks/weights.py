"""Weights with which a state matters: random models whose slips show in their logits."""

from __future__ import annotations

import torch
from torch import nn

# Standard deviation of weights, in units of one over the root of their inputs.
GAIN = 2.0


@torch.no_grad()
def make_state_matter(model: nn.Module, seed: int = 0) -> None:
    """Draw all matrices of a model anew, in place, so large that attention is not uniform.

    With the small weights that training begins with, every token attends to all others alike and
    what was read long ago moves a logit by less than rounding does.
    """
    dice = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() >= 2 and weight.is_floating_point():
            drawn = torch.randn(weight.shape, generator=dice) * GAIN * weight.shape[-1] ** -0.5
            weight.copy_(drawn)
