"""The signal of the ∞-former: where tokens stand in it, where heads attend, what is sticky.

Shapes: H heads, T tokens of the segment, N tokens read so far, W vectors written, P points.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.views.view import (
    Floats,
    Json,
    Part,
    Pick,
    listed,
    one_of,
    spread,
)
from mnemoscope.memories.infinite.densities import gaussian_below, parabola_below
from mnemoscope.memories.infinite.horizon import timeline
from mnemoscope.memories.infinite.long_term import LongTerm
from mnemoscope.memories.infinite.signal import ContinuousState, middles

SIGNAL = "signal"
# Points at which curves over the signal are drawn, and at which the position of tokens is known.
DRAWN, KNOWN = 96, 1024
# Directions of a basis that a fit on its points cannot tell apart.
FAINT = 1e-6


class SignalView:
    """Watches the long-term memory of one layer; ``each`` tokens make one vector written.

    ``site`` gives mean and variance of attention densities, or the queries of a Gibbs density.
    """

    def __init__(self, signal: LongTerm, number: int, each: int, heads: int, site: str) -> None:
        self.signal, self.number, self.each = signal, number, each
        self.heads, self.site = heads, site
        self.masses: list[Tensor] = []  # (1, K) before every write, what `timeline` asks for

    @property
    def name(self) -> str:
        """What the part is called that uses it."""
        return f"layer {self.number + 1} · signal"

    def parts(
        self, seen: Seen, before: ContinuousState | None, first: int, new: int, pick: Pick
    ) -> list[Part]:
        """How the densities of heads are shared by the tokens that stand in the signal."""
        if before is None or not int(before.count[0]) or self.site not in seen:
            return []
        borders = self._borders(int(before.count[0]))
        mass = self._mass(seen[self.site], before)(torch.from_numpy(borders))  # (H, T, W)
        shares = pick(mass).numpy()
        positions = self.each * np.arange(shares.shape[1])
        return [
            Part(
                self.number,
                self.name,
                spread(shares, positions, self.each, first + new),
                self.heads,
            )
        ]

    def panels(
        self, seen: Seen, before: ContinuousState | None, after: Any, first: int, new: int
    ) -> list[Json]:
        """Attention to the signal as it was before the segment, and how large it was."""
        state = self.signal.fresh(1) if before is None else before
        written = int(state.count[0])
        density, used = None, state.masses.double().cpu()
        if self.site in seen:
            mass = self._mass(seen[self.site], state)
            density = mass(torch.linspace(0, 1, DRAWN + 1, dtype=torch.float64)).mean(1) * DRAWN
            if used.shape[1]:
                edges = torch.linspace(0, 1, used.shape[1] + 1, dtype=torch.float64)
                used = used + mass(edges).sum((0, 1))[None]
        panel = self._panel(density, used, state, after, first)
        # Kept: what every write sampled by. A second write in a segment finds nothing used.
        new_writes = int(after.count[0]) - written
        self.masses[written:] = [used, *[torch.zeros_like(used)] * (new_writes - 1)][:new_writes]
        return [panel]

    def blanked(self, state: ContinuousState, blank: Blank, read: int) -> ContinuousState:
        """A signal that is zero, or zero where some tokens stand, or without one function."""
        if not blank.concerns(self.number, SIGNAL):
            return state
        if blank.unit is not None:
            return replace(state, coefficients=one_of(state.coefficients, 1, blank.unit))
        if blank.tokens is None:
            return replace(state, coefficients=torch.zeros_like(state.coefficients))
        written = int(state.count[0]) * self.signal.chunk
        gone = np.flatnonzero(blank.hides(self.each * np.arange(written), self.each))
        if not len(gone):
            return state
        borders = self._borders(int(state.count[0]))
        times = middles(KNOWN)
        kept = (times < borders[gone[0]]) | (times > borders[gone[-1] + 1])
        functions = self.signal.plan.basis.evaluate(times)  # (P, N)
        signal = functions @ state.coefficients[0].double().cpu() * kept[:, None]
        fitted = torch.linalg.pinv(functions, rtol=FAINT) @ signal
        return replace(state, coefficients=fitted[None].to(state.coefficients))

    def _mass(self, captured: Tensor, state: ContinuousState) -> Any:
        """A function from edges (P + 1,) to what lies between them, (H, T, P)."""
        captured = captured.double().cpu()
        if self.signal.config.density != "gibbs":
            below = gaussian_below if self.signal.config.density == "gaussian" else parabola_below
            mean, variance = captured[0].unbind(-1)
            inside: Tensor | float = 1.0
            if self.signal.config.domain == "unit":  # nothing of a density lies elsewhere
                ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
                inside = below(mean, variance, ends).diff(dim=-1)
            return lambda edges: below(mean, variance, edges).diff(dim=-1) / inside
        if captured.dim() == 3:  # queries that are not split into heads yet
            captured = captured.view(*captured.shape[:2], self.heads, -1).transpose(1, 2)
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

    def _positions(self, writes: int, points: int) -> Floats:
        """Which vector, counted from the first written, stands at each of so many points, (P,)."""
        stands = timeline(self.signal.plan, self.signal.chunk, self.masses[:writes], points)
        positions: Floats = np.maximum.accumulate(stands[0].numpy())
        return positions

    def _borders(self, writes: int) -> Floats:
        """Where in [0, 1] each of the W vectors begins, and the last one ends: (W + 1,)."""
        times = (np.arange(KNOWN) + 0.5) / KNOWN
        inner = np.arange(1, writes * self.signal.chunk)
        return np.concatenate(
            ([0.0], np.interp(inner, self._positions(writes, KNOWN), times), [1.0])
        )

    def _panel(
        self,
        density: Tensor | None,
        used: Tensor,
        state: ContinuousState,
        after: ContinuousState,
        first: int,
    ) -> Json:
        times = (torch.arange(DRAWN, dtype=torch.float64) + 0.5) / DRAWN
        curve = self.signal.plan.basis.evaluate(times) @ state.coefficients[0].double().cpu()
        total, writes = float(used.sum()), int(state.count[0])
        per_write = self.signal.chunk * self.each
        heads = density.numpy() if writes and density is not None else np.zeros((0, DRAWN))
        ages = first - self.each * self._positions(writes, DRAWN) if writes else np.zeros(0)
        return {
            "kind": "signal",
            "layer": self.number,
            "title": SIGNAL,
            "tokens": writes * per_write,
            "after": int(after.count[0]) * per_write,
            "functions": self.signal.config.basis,
            "heads": [listed(row) for row in heads],
            "height": listed(curve.norm(dim=1).numpy()),
            "ages": listed(ages),
            "sticky": listed((used[0] / total).numpy()) if total > 0 and writes else [],
            "bytes": after.nbytes,
        }
