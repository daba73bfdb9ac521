"""Where the attention of a Transformer with a memory goes while it answers, by age.

Shapes: R rows, H heads, T tokens, S keys, K bins of a signal, A ages (segments), L layers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import Seen, capture
from mnemoscope.core.arrays import Floats
from mnemoscope.data.sorting import Sorting
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.infinite.densities import masses, variance_of
from mnemoscope.memories.infinite.horizon import timeline
from mnemoscope.memories.infinite.long_term import plan_of
from mnemoscope.memories.transformer_xl.config import Relative
from mnemoscope.memories.transformer_xl.state import LayerState
from mnemoscope.models.model import SequenceModel, StreamState
from mnemoscope.studies.sorting.result import MU_EDGES, PARTS, SIGMA_EDGES, Attention

BINS = 4 * PARTS
# Attention weights over a queue (R, H, T, S); mean and variance of the densities through which
# queries attend to a signal (R, H, T, 2).
WEIGHTS, DENSITIES = "layers.{}.attention.maps", "layers.{}.attention.signal.maps"
SITES = "layers.*.attention*.maps"


@torch.no_grad()
def measure_attention(
    model: SequenceModel, task: Sorting, rows: int, segment: int
) -> Attention | None:
    """Let a model read streams and answer.

    None if it attends neither to a queue nor, by densities of a mean and a variance, to a signal.
    """
    if not isinstance(model.config, Relative):
        return None
    if isinstance(model.config, Infinite) and model.config.density == "gibbs":
        return None
    batch = task.batch(0, rows, seed=0, split="valid")
    tokens = torch.from_numpy(batch.tokens)
    # Answers are given in the segment in which the stream ends, behind its last tokens.
    rest = task.length % segment
    stream, ending = torch.split(tokens, [task.length - rest, rest + task.symbols], 1)
    ages = -(-task.length // segment)
    state: StreamState | None = None
    before: list[list[Tensor]] = []  # of every segment, the mass (R, K) in each layer's signal
    for part in torch.split(stream, segment, 1) if stream.shape[1] else ():
        with capture(model, SITES) as seen:
            state = model(part, state).state
        before.append([_mass(model.config, one) for one in _densities(model, seen)])
    if state is None:  # a stream within one segment: there is no memory to attend to
        return None
    with capture(model, SITES) as seen:
        model(ending, state)
    densities, writes = [one[:, :, rest:] for one in _densities(model, seen)], _writes(state)
    if not densities or not writes:
        by_age = _queue_ages(model, seen, state, segment, ages, rest)
        return Attention(tuple(by_age.tolist()), (), (), ())
    assert isinstance(model.config, Infinite)
    of_layers = [list(column) for column in zip(*before, strict=True)]
    by_age = np.mean(
        [
            _signal_ages(model.config, now, past[-writes:], task.length, segment, ages)
            for now, past in zip(densities, of_layers, strict=True)
        ],
        axis=0,
    )
    mean, variance = torch.stack(densities).unbind(-1)
    return Attention(
        tuple(by_age.tolist()),
        _histogram(mean, MU_EDGES),
        _histogram(variance_of(model.config.density, variance).sqrt(), SIGMA_EDGES),
        _by_part(torch.stack(of_layers[0])[:, 0]) if model.config.sticky else (),
    )


def _densities(model: SequenceModel, seen: Seen) -> list[Tensor]:
    """Of every layer that has a signal, the densities over it."""
    names = [DENSITIES.format(number) for number in range(len(model.layers))]
    return [seen[name] for name in names if name in seen]


def _mass(config: Relative, densities: Tensor) -> Tensor:
    """Attention that each part of a signal gets from all heads and queries, (R, K)."""
    assert isinstance(config, Infinite)
    mean, variance = densities.unbind(-1)
    return masses(config.density, mean, variance, BINS, None, "unit")


def _writes(state: StreamState) -> int:
    first = state.layers[0]
    if not isinstance(first, LayerState) or first.signal is None:
        return 0
    return int(first.signal.count[0])


def _signal_ages(
    config: Infinite, now: Tensor, past: list[Tensor], length: int, segment: int, ages: int
) -> Floats:
    """Attention by age over a signal; ``past`` is its mass (R, K) before every write."""
    moved = [mass if config.sticky else mass[:, :0] for mass in past]
    tokens = timeline(plan_of(config), segment, moved, BINS)  # (R, K)
    return _shares(_mass(config, now), length - tokens, segment, ages)


def _queue_ages(
    model: SequenceModel, seen: Seen, state: StreamState, segment: int, ages: int, rest: int
) -> Floats:
    """Attention by age over the last tokens and the compressed vectors behind them.

    The last ``rest`` tokens of the stream are in the segment of the answers.
    """
    rate = getattr(model.config, "rate", 1)
    shares = []
    for number, layer in enumerate(state.layers):
        assert isinstance(layer, LayerState)
        read = layer.cache.length + rest
        age = torch.arange(read, 0, -1, dtype=torch.float64) - 0.5
        if layer.compressed is not None:
            # What left the queue was squeezed, the newest into the newest slot.
            slots = torch.arange(layer.compressed.length, 0, -1, dtype=torch.float64)
            age = torch.cat((read + rate * (slots - 0.5), age))
        mass = seen[WEIGHTS.format(number)][:, :, rest:].sum((1, 2))[:, : len(age)]
        shares.append(_shares(mass, age.expand(len(mass), -1), segment, ages))
    found: Floats = np.mean(shares, axis=0)
    return found


def _shares(mass: Tensor, age: Tensor, segment: int, ages: int) -> Floats:
    """Share of mass (R, X) by age (R, X) in segments, (A,)."""
    which = (age / segment).floor().clamp(0, ages - 1).long()
    total = torch.zeros(ages, dtype=torch.float64)
    total.index_add_(0, which.flatten(), mass.double().flatten())
    shares: Floats = (total / total.sum().clamp(min=1e-30)).numpy()
    return shares


def _histogram(values: Tensor, edges: Floats) -> tuple[float, ...]:
    """Share of all values in each bin."""
    counts = np.histogram(values.double().numpy(), edges)[0]
    return tuple((counts / values.numel()).tolist())


def _by_part(mass: Tensor) -> tuple[tuple[float, ...], ...]:
    """Mass (W, K) of one row before every write, as shares of the parts of a signal."""
    parts = mass.double().reshape(len(mass), PARTS, -1).sum(2)
    return tuple(map(tuple, (parts / parts.sum(1, keepdim=True)).tolist()))
