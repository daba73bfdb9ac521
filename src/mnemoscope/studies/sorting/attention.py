"""Where a Transformer with a memory looks when it is asked, by the age of what it looks at.

Shapes: R rows, H heads, T tokens, S keys, K bins of a signal, A ages (segments).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.activations.capture import Seen, capture
from mnemoscope.core.errors import UserError
from mnemoscope.data.sorting import Sorting
from mnemoscope.memories.infinite.densities import masses
from mnemoscope.memories.infinite.horizon import timeline
from mnemoscope.memories.infinite.long_term import LongTerm, plan_of
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.memories.transformer_xl.state import LayerState
from mnemoscope.models.model import SequenceModel, StreamState
from mnemoscope.training.run import Run

Floats = NDArray[np.float64]
BINS = 128
TAPS = "layers.*.attention*.maps"


@dataclass(frozen=True, eq=False)
class Looking:
    """What one model did in a few streams of equal length.

    by_age     (A,)      share of attention to what was read, by age in segments, while answering
    means      (looks,)  μ of every look at a signal while answering; empty without a signal
    deviations (looks,)  σ of the same
    over_time  (W, K)    first row and layer: share of attention by bin of the signal, before every
                         write; empty without a signal
    """

    by_age: Floats
    means: Floats
    deviations: Floats
    over_time: Floats


@torch.no_grad()
def look(folder: Path, length: int, rows: int, segment: int) -> Looking:
    """Let a finished run of the task sorting read and answer, and watch it."""
    run = Run.open(folder)
    task = run.config.task
    if not isinstance(task, Sorting):
        raise UserError(f"{folder} is not a run of the task sorting")
    model = run.model()
    batch = Sorting.make(symbols=task.symbols, length=length).batch(0, rows, seed=0, split="valid")
    tokens = torch.from_numpy(batch.tokens)
    stream, answers = tokens[:, :length], tokens[:, length:]
    state: StreamState | None = None
    past: list[list[Tensor]] = [[] for _ in model.layers]  # masses before every write, by layer
    for part in torch.split(stream, segment, 1):
        with capture(model, TAPS) as seen:
            state = model(part, state).state
        for number, looks in _signals(model, seen):
            past[number].append(masses("gaussian", looks[0], looks[1], BINS, None))
    with capture(model, TAPS) as seen:
        model(answers, state)
    assert state is not None
    ages = -(-length // segment)
    found = dict(_signals(model, seen))
    writes = _writes(state)
    if found and writes:
        by_age = np.mean(
            [
                _signal_ages(model, n, looks, past[n], writes, length, segment, ages)
                for n, looks in found.items()
            ],
            axis=0,
        )
        means = torch.cat([looks[0].flatten() for looks in found.values()]).double().numpy()
        spread = torch.cat([looks[1].flatten() for looks in found.values()]).sqrt()
        over_time = torch.stack(past[0])[:, 0].double()
        over_time = over_time / over_time.sum(1, keepdim=True)
        return Looking(by_age, means, spread.double().numpy(), over_time.numpy())
    rate = getattr(model.config, "rate", 1)
    by_age = np.mean(
        [
            _cache_ages(layer, seen[f"layers.{n}.attention.maps"], rate, segment, ages)
            for n, layer in enumerate(state.layers)
            if isinstance(layer, LayerState)
        ],
        axis=0,
    )
    return Looking(by_age, np.empty(0), np.empty(0), np.empty((0, 0)))


def _writes(state: StreamState) -> int:
    first = state.layers[0]
    if not isinstance(first, LayerState) or first.signal is None:
        return 0
    return int(first.signal.count[0])


def _signals(model: SequenceModel, seen: Seen) -> list[tuple[int, tuple[Tensor, ...]]]:
    """Mean and variance of the densities over every layer's signal, if layers have one."""
    places = [(n, f"layers.{n}.attention.signal.maps") for n in range(len(model.layers))]
    return [(n, seen[path].unbind(-1)) for n, path in places if path in seen]


def _signal_ages(
    model: SequenceModel,
    number: int,
    looks: tuple[Tensor, ...],
    past: list[Tensor],
    writes: int,
    length: int,
    segment: int,
    ages: int,
) -> Floats:
    attention = model.layers[number].attention
    assert isinstance(attention, RelativeAttention)
    assert isinstance(attention.signal, LongTerm)
    config = attention.signal.config
    # While the cache fills up nothing is written.
    sticky = [mass if config.sticky else mass[:, :0] for mass in past[len(past) - writes :]]
    tokens = timeline(plan_of(config), segment, sticky, BINS)  # (R, K)
    mass = masses("gaussian", looks[0], looks[1], BINS, None)
    return _histogram(mass, length - tokens, segment, ages)


def _cache_ages(layer: LayerState, weights: Tensor, rate: int, segment: int, ages: int) -> Floats:
    """Attention by age over a cache and the compressed vectors behind it."""
    read = layer.cache.length
    age = torch.arange(read, 0, -1, dtype=torch.float64) - 0.5
    if layer.compressed is not None:
        # What left the cache was squeezed, the newest into the newest slot.
        slots = torch.arange(layer.compressed.length, 0, -1, dtype=torch.float64)
        age = torch.cat((read + rate * (slots - 0.5), age))
    mass = weights.sum((1, 2))[:, : len(age)]
    return _histogram(mass, age.expand(len(mass), -1), segment, ages)


def _histogram(mass: Tensor, age: Tensor, segment: int, ages: int) -> Floats:
    """Share of mass (R, X) by age (R, X) in segments, (A,)."""
    which = (age / segment).floor().clamp(0, ages - 1).long()
    total = torch.zeros(ages, dtype=torch.float64)
    total.index_add_(0, which.flatten(), mass.double().flatten())
    shares: Floats = (total / total.sum().clamp(min=1e-30)).numpy()
    return shares
