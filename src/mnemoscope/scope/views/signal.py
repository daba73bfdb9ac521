"""The signal of the ∞-former: where tokens stand in it, where heads attend, what is sticky.

Shapes: H heads, T tokens of the segment, N tokens read so far, W vectors written, P points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.memories.infinite.densities import gaussian_below, parabola_below
from mnemoscope.memories.infinite.horizon import timeline
from mnemoscope.memories.infinite.long_term import LongTerm
from mnemoscope.memories.infinite.signal import ContinuousState
from mnemoscope.scope.views.view import Floats, Part, Shown, listed, spread

# Points at which curves over the signal are drawn, and at which the position of tokens is known.
DRAWN, KNOWN = 96, 1024


class SignalView:
    """Watches the long-term memory of one layer; ``each`` tokens make one vector written."""

    def __init__(self, signal: LongTerm, number: int, each: int) -> None:
        self.signal, self.number, self.each = signal, number, each
        self.masses: list[Tensor] = []  # (1, K) before every write, what `timeline` asks for

    def sites(self) -> list[str]:
        """Mean and variance of attention densities, or the queries of a Gibbs density."""
        if self._gibbs:
            return [f"layer.{self.number}.attention.q"]
        return [f"layers.{self.number}.attention.signal.maps"]

    @property
    def _gibbs(self) -> bool:
        return self.signal.config.density == "gibbs"

    def show(
        self, seen: Seen, before: ContinuousState | None, after: Any, first: int, new: int
    ) -> Shown:
        """Attention to the signal as it was, and the signal as it is now."""
        read, shown = first + new, Shown()
        state = self.signal.fresh(1) if before is None else before
        mass = self._mass(seen[self.sites()[0]], state)
        if self.masses:
            borders = self._borders()
            shares = mass(torch.from_numpy(borders)).mean(0).numpy()  # (T, W)
            positions = self.each * np.arange(shares.shape[1])
            spread_out = spread(shares, positions, self.each, read)
            name = f"layer {self.number + 1} · signal"
            shown.parts.append(Part(self.number, name, spread_out))
        density = mass(torch.linspace(0, 1, DRAWN + 1, dtype=torch.float64)).mean(1) * DRAWN
        used = state.masses.double().cpu()
        if used.shape[1]:
            edges = torch.linspace(0, 1, used.shape[1] + 1, dtype=torch.float64)
            used = used + mass(edges).sum((0, 1))[None]
        # Before what this segment writes is known: heads attended to the signal as it was.
        shown.panels.append(self._panel(density, used, state, after, first))
        self._remember(used, int(state.count[0]), int(after.count[0]))
        return shown

    def _mass(self, captured: Tensor, state: ContinuousState) -> Any:
        """A function from edges (P + 1,) to what lies between them, (H, T, P)."""
        captured = captured.double().cpu()
        if not self._gibbs:
            below = gaussian_below if self.signal.config.density == "gaussian" else parabola_below
            mean, variance = captured[0].unbind(-1)
            return lambda edges: below(mean, variance, edges).diff(dim=-1)
        heads, size = captured.shape[1], captured.shape[3]
        about = self.signal.key(state.coefficients)
        keys = about.view(-1, heads, size).transpose(0, 1).double().cpu()
        weights = (captured[0] @ keys.transpose(1, 2) * size**-0.5).softmax(-1)  # (H, T, parts)
        # Constant on each part: mass grows in a straight line from border to border.
        passed = torch.nn.functional.pad(weights.cumsum(-1), (1, 0))

        def between(edges: Tensor) -> Tensor:
            position = (edges * weights.shape[-1]).clamp(0, weights.shape[-1])
            left = position.floor().long().clamp(max=weights.shape[-1] - 1)
            grown = torch.lerp(passed[..., left], passed[..., left + 1], position - left)
            return grown.diff(dim=-1)

        return between

    def _remember(self, used: Tensor, before: int, after: int) -> None:
        """Keep what every write sampled by; a second write in a segment finds nothing used."""
        for write in range(before, after):
            self.masses.append(used if write == before else torch.zeros_like(used))

    def _positions(self, points: int) -> Floats:
        """Which vector, counted from the first written, stands at each of so many points, (P,)."""
        stands = timeline(self.signal.plan, self.signal.chunk, self.masses, points)
        positions: Floats = np.maximum.accumulate(stands[0].numpy())
        return positions

    def _borders(self) -> Floats:
        """Where in [0, 1] each of the W vectors begins, and the last one ends: (W + 1,)."""
        written = len(self.masses) * self.signal.chunk
        times = (np.arange(KNOWN) + 0.5) / KNOWN
        inner = np.interp(np.arange(1, written), self._positions(KNOWN), times)
        return np.concatenate(([0.0], inner, [1.0]))

    def _panel(
        self,
        density: Tensor,
        used: Tensor,
        state: ContinuousState,
        after: ContinuousState,
        first: int,
    ) -> dict[str, Any]:
        times = (torch.arange(DRAWN, dtype=torch.float64) + 0.5) / DRAWN
        curve = self.signal.plan.basis.evaluate(times) @ state.coefficients[0].double().cpu()
        total, written = float(used.sum()), len(self.masses)
        per_write = self.signal.chunk * self.each
        return {
            "kind": "signal",
            "layer": self.number,
            "tokens": written * per_write,
            "after": int(after.count[0]) * per_write,
            "functions": self.signal.config.basis,
            "heads": [listed(row.numpy()) for row in density] if written else [],
            "height": listed(curve.norm(dim=1).numpy()),
            "ages": listed(first - self.each * self._positions(DRAWN)) if written else [],
            "sticky": listed((used[0] / total).numpy()) if total > 0 and written else [],
            "bytes": after.nbytes,
        }
