"""The long-term memory of a layer: writes what the cache lets go, reads with the layer's queries.

Shapes: R rows, T tokens, L tokens written at once, D width, H heads, E = D / H, N functions.
"""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.heads import join, split
from mnemoscope.memories.infinite.basis import Basis, Gaussians, Rectangles, constants
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.infinite.densities import (
    divergence,
    gaussian_expectation,
    gibbs_masses,
    masses,
    parabola_expectation,
)
from mnemoscope.memories.infinite.horizon import directions, used
from mnemoscope.memories.infinite.signal import (
    ContinuousState,
    Plan,
    fresh,
    look,
    operators,
)
from mnemoscope.memories.layer import Context, Tap
from mnemoscope.memories.shapes import Wanted

# Below this share of directions that a fit can use, basis functions are wasted.
FEW = 0.6


def plan_of(config: Infinite) -> Plan:
    """How the config wants its signal kept."""
    basis: Basis
    if config.density == "gibbs":
        basis = Rectangles(config.basis)
    elif config.widths is not None:
        basis = Gaussians(config.basis, config.widths)
    else:
        basis = Gaussians.spread(config.basis, config.spread)
    return Plan(basis, config.penalty, config.sampled, config.contraction, config.fit)


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
        with torch.no_grad():  # one branch more of the residual stream, as small as the others
            self.out.weight /= math.sqrt(2 * config.layers)
        if config.density != "gibbs":
            self.weights = nn.Parameter(torch.empty(2, config.basis))  # w_μ and w_σ
            nn.init.normal_(self.weights, std=config.basis**-0.5)
        self.gate = nn.Conv1d(width, width, 3, padding=1) if config.gate else None
        self.maps = Tap()  # mean and variance of every query's density, (R, H, T, 2)
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
        """The signal that it can continue from."""
        config = self.config
        return Wanted(ContinuousState, {"N": config.basis, "D": config.width, "K": self.bins})

    def fresh(self, rows: int) -> ContinuousState:
        """A signal nothing was written to."""
        return fresh(rows, self.config.basis, self.bins, self.value.weight)

    def forward(
        self, queries: Tensor, state: ContinuousState, context: Context
    ) -> tuple[Tensor, ContinuousState]:
        """queries (R, H, T, E) -> output (R, T, D), and the state with the attention it got."""
        config = self.config
        keys, values = self._views(state, queries.shape[1])
        keys = keys.to(queries.dtype)
        if config.density == "gibbs":
            # Of p(t) ∝ exp(q·K(t) / √E), and of a signal that is constant on N equal parts, the
            # integral is a softmax over the coefficients.
            output = F.scaled_dot_product_attention(queries, keys, values.to(queries.dtype))
            if config.sticky:
                state = state.attended(gibbs_masses(queries, keys, context.mask))
        else:
            scores = queries @ keys.transpose(2, 3)
            # Two numbers per query decide all the rest: worth full precision in any model.
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            mean, variance = scores.unbind(-1)
            mean, variance = mean.sigmoid(), F.softplus(variance)
            clamped = config.variance == "clamp"
            variance = variance.clamp(min=config.floor) if clamped else variance + config.floor
            if self.maps.watched:
                self.maps(torch.stack((mean, variance), -1))
            # The expected value of the signal is Σ_j E[ψ_j] v_j.
            assert isinstance(self.plan.basis, Gaussians)
            functions = constants(self.plan.basis, mean.dtype, mean.device)
            gaussian = config.density == "gaussian"
            expect = gaussian_expectation if gaussian else parabola_expectation
            expected = expect(mean, variance, *functions, config.domain)
            output = expected.to(values.dtype) @ values
            if config.sticky:
                kind, bins, domain = config.density, config.bins, config.domain
                got = masses(kind, mean, variance, bins, context.mask, domain)
                state = state.attended(got)
            if config.kl and self.training and torch.is_grad_enabled():
                wanted = config.kl_width, config.kl_centre
                counted = (state.count > 0)[:, None].expand(-1, queries.shape[2])
                if context.mask is not None:
                    counted = counted & context.mask
                loss = divergence(config.density, mean, variance, *wanted, counted)
                context.add_loss("kl", config.kl * loss)
        return self.out(join(output)), state

    def write(
        self, state: ContinuousState, tokens: Tensor, rows: Tensor | None = None
    ) -> ContinuousState:
        """Add tokens (R, L, D) to the signal, in all rows or in those that ``rows`` (R,) says."""
        # Rounded to bfloat16, as autocast would, the recurrence would lose more at every write.
        with torch.autocast(tokens.device.type, enabled=False):
            tokens = tokens.to(self.value.weight.dtype)
            if self.gate is not None:
                tokens = tokens * self.gate(tokens.transpose(1, 2)).transpose(1, 2).sigmoid()
            return write(self.plan, state, tokens, rows)

    def _views(self, state: ContinuousState, heads: int) -> tuple[Tensor, Tensor]:
        """Keys (R, H, N, E) and values (R, H, N, E) of the signal.

        A density of mean and variance needs of the keys only Σ_j w_j k_j / √E under the weights
        w_μ and w_σ: the scores q·k_j enter nowhere else, so there are but two, (R, H, 2, E).
        They change only when something is written: a stream without gradients makes them once.
        """
        made_of = [self.value.weight, self.key.weight]
        if self.config.density != "gibbs":
            made_of.append(self.weights)
        mark = None
        if not torch.is_grad_enabled():
            mark = tuple((weight.data_ptr(), weight._version) for weight in made_of)
        known = state._derived.get(mark)
        if known is not None:
            return known[0], known[1]
        signal = state.coefficients
        if self.config.density == "gibbs":
            about = signal
        else:
            # Normalised Gaussians make coefficients about 1/N as large as what was written.
            scale = self.config.basis / math.sqrt(signal.shape[2] // heads)
            about = scale * (self.weights @ signal)
        (keys,), (values,) = split(self.key(about), heads), split(self.value(signal), heads)
        if mark is not None:
            values = values.contiguous()
            state._derived.clear()
            # With the weights: while they are held no others can come to lie where they do.
            state._derived[mark] = keys, values, [weight.detach() for weight in made_of]
        return keys, values

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


def write(
    plan: Plan, state: ContinuousState, tokens: Tensor, rows: Tensor | None = None
) -> ContinuousState:
    """Squeeze the signal and add tokens (R, L, D) at its end, in all rows or where ``rows`` (R,).

    With bins in the state the old signal is sampled where attention went (sticky memories), else
    evenly. Every part then has the room that its attention asked for, so attention that moves
    with what it went to is even now: until the next read further chunks are written evenly, and a
    segment is kept the same in however many chunks it is written.
    """
    sticky = state.masses.shape[1] > 0
    counts: list[int] = sorted(set(state.count.tolist()))
    new = state.coefficients
    for count in counts:
        same = state.count == count if len(counts) > 1 else None
        old, added, mass = state.coefficients, tokens, state.masses
        if same is not None:
            old, added, mass = old[same], added[same], mass[same]
        maps = operators(plan, tokens.shape[1], sticky, old.dtype, old.device)(count)
        written = maps.new @ added
        if count > 0:
            seen = look(plan, mass, plan.share(count)).to(old.dtype) @ old if sticky else old
            written = written + maps.old @ seen
        if same is not None:
            written = new.masked_scatter(same[:, None, None].expand_as(new), written)
        new = written
    mass, count_after = torch.zeros_like(state.masses), state.count + 1
    if rows is not None:
        new = torch.where(rows[:, None, None], new, state.coefficients)
        mass = torch.where(rows[:, None], mass, state.masses)
        count_after = torch.where(rows, count_after, state.count)
    return ContinuousState(new, mass, count_after)
