"""AdamW, and which weights it lets decay."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn

from mnemoscope.training.config import Training


def make_optimizer(
    model: nn.Module, settings: Training, decays: Collection[str] | None = None
) -> torch.optim.Optimizer:
    """AdamW; only matrices decay, or the weights that are named."""
    names = decaying(model) if decays is None else decays
    weights = dict(model.named_parameters())
    groups = [
        {
            "params": [weight for name, weight in weights.items() if (name in names) is decay],
            "weight_decay": settings.weight_decay if decay else 0.0,
        }
        for decay in (True, False)
    ]
    fused = next(iter(weights.values())).device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, lr=settings.lr, betas=(0.9, 0.98), fused=fused)


def decaying(model: nn.Module) -> list[str]:
    """Names of matrices: weights of linear maps, convolutions, embeddings, recurrent cells.

    A bias or a norm's scale has no reason to shrink, nor have vectors that a memory holds as rows
    of one parameter: Transformer-XL's u and v, one row a head, or the ∞-former's w_μ and w_σ.
    """
    kinds = (nn.Linear, nn.Embedding, nn.RNNBase, nn.Conv1d, nn.Conv2d)
    maps = [module for module in model.modules() if isinstance(module, kinds)]
    own = {id(weight) for module in maps for weight in module.parameters(recurse=False)}
    weights = model.named_parameters()
    return [name for name, weight in weights if weight.dim() >= 2 and id(weight) in own]


def all_but_vectors(model: nn.Module) -> list[str]:
    """Names of what decayed in versions whose checkpoints do not say: u, v and w as well."""
    return [name for name, weight in model.named_parameters() if weight.dim() >= 2]
