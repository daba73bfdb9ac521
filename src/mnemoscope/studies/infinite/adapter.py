"""LoRA (Hu 2021): low-rank changes of a model's linear maps, to compare memories with.

Shapes: D width in, O width out, K rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class LowRank(nn.Module):
    """Adds B A x to what every linear map in some blocks gives; at first that is nothing."""

    def __init__(self, blocks: Sequence[nn.Module], weights: int, seed: int) -> None:
        super().__init__()
        maps = [part for block in blocks for part in block.modules() if isinstance(part, nn.Linear)]
        # As many weights as there shall be, by the rank.
        rank = max(1, weights // sum(part.in_features + part.out_features for part in maps))
        generator = torch.Generator().manual_seed(seed)
        self.down, self.up = nn.ParameterList(), nn.ParameterList()
        for part in maps:
            drawn = torch.randn(rank, part.in_features, generator=generator)
            self.down.append(nn.Parameter(drawn / part.in_features**0.5))  # (K, D)
            self.up.append(nn.Parameter(torch.zeros(part.out_features, rank)))  # (O, K)
        self._hooks = [
            part.register_forward_hook(self._hook(number)) for number, part in enumerate(maps)
        ]

    def _hook(self, number: int) -> Any:
        def add(part: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            inputs = given[0].to(self.down[number].dtype)
            added: Tensor = inputs @ self.down[number].T @ self.up[number].T
            return output + added.to(output.dtype)

        return add

    def detach(self) -> None:
        """Take it off; the model is what it was."""
        for hook in self._hooks:
            hook.remove()
