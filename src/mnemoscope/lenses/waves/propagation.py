"""How much of the position embeddings survives on the way up, through sums and layer norms.

Shapes: T positions, D width.

A layer norm of x + P is (x + P − mean) / std · gain + bias: what was added at position t is scaled
by that token's 1 / std from the left and by the gain from the right. So if nothing else happened to
them, positions would arrive as S P L with diagonal S and L. The fit of that form, layer by layer,
says how far this is so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.lenses.positions.means import PositionMeans
from mnemoscope.lenses.waves.result import PropagationResult


class Propagation:
    """Follow position embeddings (T, D): ``observe`` sites laid out by position, then ``result``.

    A model that adds no positions to its words has none to follow.
    """

    def __init__(self, table: Tensor | None) -> None:
        if table is None:
            raise UserError(
                "this model adds no positions to its words (rotary, relative or none): there is "
                "nothing to follow"
            )
        self.table = table.double()
        self.means: dict[str, PositionMeans] = {}

    def observe(self, seen: Mapping[str, Tensor]) -> None:
        """Take in (B, T, D) by site."""
        for site, values in seen.items():
            if values.shape[1:] != self.table.shape:
                raise UserError(
                    f"{site} has {tuple(values.shape[1:])} positions and dimensions, the position "
                    f"embeddings {tuple(self.table.shape)}"
                )
            self.means.setdefault(site, PositionMeans()).add(values)

    def result(self) -> PropagationResult:
        """What was seen so far."""
        if not self.means:
            raise UserError("nothing was observed yet: call observe(seen) for every batch first")
        order = torch.randperm(len(self.table), generator=torch.Generator().manual_seed(0))
        ramp = torch.linspace(-1, 1, len(self.table), dtype=torch.float64)[:, None]
        rows = []
        for means in self.means.values():
            mean = means.mean()
            mean = mean - mean.mean(0)
            line = (mean * ramp).sum(0, keepdim=True) / ramp.square().sum() * ramp
            rows.append(
                (
                    scaled_fit(mean, self.table)[0],
                    scaled_fit(mean, self.table[order])[0],
                    _explained(mean, line),
                    means.share(),
                )
            )
        return PropagationResult(tuple(self.means), *np.array(rows).T)


def scaled_fit(target: Tensor, table: Tensor, rounds: int = 50) -> tuple[float, Tensor, Tensor]:
    """The best S P L for centred (T, D): R², s (T,), l (D,), by least squares in turn."""
    table = table.double() - table.double().mean(0)
    left = torch.ones(len(table), 1, dtype=torch.float64)
    right = torch.ones(1, table.shape[1], dtype=torch.float64)
    for _ in range(rounds):
        half = table * left
        right = (half * target).sum(0, keepdim=True) / half.square().sum(0, True).clamp(min=1e-300)
        half = table * right
        left = (half * target).sum(1, keepdim=True) / half.square().sum(1, True).clamp(min=1e-300)
    return _explained(target, left * table * right), left[:, 0], right[0]


def _explained(target: Tensor, found: Tensor) -> float:
    whole = float(target.square().sum())
    return 1 - float((target - found).square().sum()) / whole if whole > 0 else float("nan")


class NormSpread:
    """How much the std that layer norms divide by varies from token to token: std / mean of it."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}

    @contextmanager
    def watching(self, model: nn.Module, kept: slice) -> Iterator[None]:
        """Look at every norm of ``model`` inside the block, at the positions kept."""

        def hook(path: str) -> Any:
            def before(module: nn.Module, given: tuple[Tensor, ...]) -> None:
                if given and given[0].dim() == 3:
                    scale = given[0][:, kept].detach().cpu().double()
                    centre = "RMS" not in type(module).__name__
                    scale = scale.var(-1, correction=0) if centre else scale.square().mean(-1)
                    scale = scale.sqrt()
                    new = torch.stack((torch.ones_like(scale), scale, scale.square()))
                    known = self.sums.get(path, torch.zeros(3, dtype=torch.float64))
                    self.sums[path] = known + new.sum((1, 2))

            return before

        norms = {p: m for p, m in model.named_modules() if "Norm" in type(m).__name__}
        hooks = [module.register_forward_pre_hook(hook(path)) for path, module in norms.items()]
        try:
            yield
        finally:
            for one in hooks:
                one.remove()

    def result(self) -> dict[str, float]:
        """Coefficient of variation by path of the norm."""
        found = {}
        for path, (count, total, squares) in ((p, s.tolist()) for p, s in self.sums.items()):
            mean = total / count
            found[path] = max(squares / count - mean**2, 0.0) ** 0.5 / max(mean, 1e-300)
        return found
