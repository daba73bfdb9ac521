"""The long-term memory of a layer: writes what the cache lets go, reads with the layer's queries.

Shapes: R rows, T tokens, L tokens written at once, D width, H heads, E = D / H, N functions.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mnemoscope.memories import continuous
from mnemoscope.memories.basis import Gaussians, Rectangles
from mnemoscope.memories.continuous import ContinuousState, Plan
from mnemoscope.memories.density import divergence
from mnemoscope.memories.horizon import directions, used
from mnemoscope.memories.reading import Looks, gibbs_masses, gibbs_read, locate, masses, read
from mnemoscope.memories.shapes import Wanted
from mnemoscope.models.model import Context, Tap

if TYPE_CHECKING:
    from mnemoscope.models.config import Infinite

# Below this share of directions that a fit can use, basis functions are wasted.
FEW = 0.6


def plan_of(config: Infinite) -> Plan:
    """How the config wants its signal kept."""
    basis: Gaussians | Rectangles
    if config.density == "gibbs":
        basis = Rectangles(config.basis)
    elif config.widths is not None:
        basis = Gaussians(config.basis, config.widths)
    else:
        basis = Gaussians.spread(config.basis, config.spread)
    return Plan(basis, config.penalty, config.samples or config.basis, config.contraction)


class LongTerm(nn.Module):
    """A signal of fixed size for everything older than the cache."""

    def __init__(self, config: Infinite) -> None:
        super().__init__()
        self.config, self.plan, self.chunk = config, plan_of(config), config.chunk
        width = config.width
        self.value = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        # No bias anywhere: an empty signal adds nothing.
        self.out = nn.Linear(width, width, bias=False)
        if config.density != "gibbs":
            self.weights = nn.Parameter(torch.empty(2, config.basis))  # w_μ and w_σ
            nn.init.normal_(self.weights, std=config.basis**-0.5)
        self.gate = nn.Conv1d(width, width, 3, padding=1) if config.gate else None
        self.looks = Tap()  # mean and variance of every look, (R, H, T, 2)
        self._warn()

    @property
    def bins(self) -> int:
        """Parts of the signal whose attention is counted."""
        config = self.config
        if not config.sticky:
            return 0
        return config.basis if config.density == "gibbs" else config.bins

    @property
    def wants(self) -> Wanted:
        """The signal that it can go on from."""
        config = self.config
        return Wanted(ContinuousState, {"N": config.basis, "D": config.width, "K": self.bins})

    def fresh(self, rows: int) -> ContinuousState:
        """A signal nothing was written to."""
        return continuous.fresh(rows, self.config.basis, self.bins, self.value.weight)

    def forward(
        self, queries: Tensor, state: ContinuousState, context: Context
    ) -> tuple[Tensor, ContinuousState]:
        """queries (R, H, T, E) -> what was found (R, T, D), and who looked where."""
        config = self.config
        keys, values = self._views(state, queries.shape[1])
        if config.density == "gibbs":
            found = gibbs_read(queries, keys.to(queries.dtype), values.to(queries.dtype))
            if config.sticky:
                state = state.attended(gibbs_masses(queries, keys, context.mask))
        else:
            looks = locate(queries, keys.to(queries.dtype), config.floor)
            if self.looks.watched:
                self.looks(torch.stack((looks.mean, looks.variance), -1))
            assert isinstance(self.plan.basis, Gaussians)
            found = read(config.density, looks, self.plan.basis, values)
            if config.sticky:
                state = state.attended(masses(config.density, looks, config.bins, context.mask))
            self._regularise(looks, context)
        rows, heads, length, size = queries.shape
        return self.out(found.transpose(1, 2).reshape(rows, length, heads * size)), state

    def write(
        self, state: ContinuousState, tokens: Tensor, rows: Tensor | None = None
    ) -> ContinuousState:
        """Add tokens (R, L, D) to the signal, in all rows or in those that ``rows`` (R,) says."""
        # Rounded to bfloat16, as autocast would, the recurrence would lose more at every write.
        with torch.autocast(tokens.device.type, enabled=False):
            tokens = tokens.to(self.value.weight.dtype)
            if self.gate is not None:
                tokens = tokens * self.gate(tokens.transpose(1, 2)).transpose(1, 2).sigmoid()
            return continuous.write(self.plan, state, tokens, rows)

    def _views(self, state: ContinuousState, heads: int) -> tuple[Tensor, Tensor]:
        """Pointers (R, H, 2, E) or keys (R, H, N, E), and values (R, H, N, E), of the signal.

        They change only when something is written: a stream without gradients makes them once.
        """
        made_of = [self.value.weight, self.key.weight]
        if self.config.density != "gibbs":
            made_of.append(self.weights)
        mark = tuple((id(weight), weight._version) for weight in made_of)
        kept = None if torch.is_grad_enabled() else state._derived.get(mark)
        if kept is not None:
            return kept[0], kept[1]
        signal = state.coefficients
        if self.config.density == "gibbs":
            about = signal
        else:
            # Normalised Gaussians make coefficients about 1/N as large as what was written.
            scale = self.config.basis / math.sqrt(signal.shape[2] // heads)
            about = scale * (self.weights @ signal)
        keys = self.key(about).view(*about.shape[:2], heads, -1).transpose(1, 2)
        values = self.value(signal).view(*signal.shape[:2], heads, -1).transpose(1, 2)
        if not torch.is_grad_enabled():
            values = values.contiguous()
            state._derived.clear()
            state._derived[mark] = keys, values
        return keys, values

    def _regularise(self, looks: Looks, context: Context) -> None:
        config = self.config
        if config.kl and self.training and torch.is_grad_enabled():
            loss = divergence(looks.mean, looks.variance, config.kl_width, config.kl_centre)
            context.add_loss("kl", config.kl * loss)

    def _warn(self) -> None:
        share = used(self.plan, self.chunk) / min(self.config.basis, self.chunk)
        if share < FEW:
            warnings.warn(
                f"of the {self.config.basis} basis functions only {share:.0%} can be told apart "
                "after a fit: the functions are too wide; lower widths or spread, or use a "
                "smaller basis",
                stacklevel=4,
            )

    def extra_repr(self) -> str:
        """The horizon, so that printing a model shows how long it can remember."""
        kept = directions(self.plan, self.chunk, 64)
        age = next((age for age, count in enumerate(kept) if count == 0), None)
        shown = ", ".join(map(str, kept[:16].tolist()))
        end = f"none is left after {age}" if age else f"{kept[-1]} are left after {len(kept) - 1}"
        return (
            f"directions of {self.chunk} tokens kept after 0, 1, 2 … further writes: "
            f"{shown} …; {end} writes, {(age or len(kept)) * self.chunk} tokens"
        )
