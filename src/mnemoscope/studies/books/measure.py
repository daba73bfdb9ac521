"""Read passages with a state that is carried, or tampered with: this is where models run.

Shapes: R passages, T tokens of a segment, K stretches of the reading, see `passages`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.arrays import Floats
from mnemoscope.data.documents import choose, read_documents
from mnemoscope.data.text import Text
from mnemoscope.memories.state import State
from mnemoscope.memories.transformer_xl.state import LayerInputs, LayerState
from mnemoscope.models.model import SequenceModel, StreamState
from mnemoscope.studies.books.passages import PROBE, Passage, cut, cut_for_rates, lengths, stretch
from mnemoscope.studies.books.result import Examined, Grid
from mnemoscope.studies.rates import Tried
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run


def examine(folder: Path, read: int, passages: int | None, segment: int, recent: int) -> Examined:
    """Let a trained model read what is reported, its state carried and tampered with."""
    run, task = _opened(folder)
    assert task.valid is not None
    books = choose(read_documents(task.source), task.tested or task.valid)
    chosen = cut(books, read, passages, segment, run.vocabulary)
    return read_passages(_model(run), chosen, segment, run.seconds, recent=recent)


def examine_rate(folder: Path, read: int, segment: int) -> Tried:
    """Let a model that tries a rate read the books for that, which nothing is reported of."""
    run, task = _opened(folder)
    assert task.valid is not None
    assert task.tested is not None
    books = choose(read_documents(task.source), task.valid)
    chosen = cut_for_rates(books, read, segment, run.vocabulary)
    bits = np.sum(read_passages(_model(run), chosen, segment, controls=False).bits)
    return Tried(float(bits) * math.log(2) / float(lengths(chosen, segment).sum()))


def _opened(folder: Path) -> tuple[Run, Text]:
    run = Run.open(folder)
    task = run.config.task
    assert isinstance(task, Text)
    return run, task


def _model(run: Run) -> SequenceModel:
    return run.model().to(join(run.config.training.device).device)


@torch.no_grad()
def read_passages(
    model: SequenceModel,
    passages: Sequence[Passage],
    segment: int,
    seconds: float = 0.0,
    *,
    recent: int = 0,
    controls: bool = True,
) -> Examined:
    """Read all passages side by side and add up what every token cost, in bits.

    Of a longer cache, the last ``recent`` tokens count as one.
    """
    device = model.readout.weight.device
    bits = np.zeros_like(lengths(passages, segment))
    extra: dict[str, Floats] = {}
    state: StreamState | None = None
    for step in range(passages[0].segments(segment)):
        ids = [one.ids[step * segment :] for one in passages if one.segments(segment) > step]
        rows, place = len(ids), stretch(step)
        window = torch.from_numpy(np.stack([one[: segment + 1] for one in ids])).to(device)
        if state is not None and state.batch > rows:
            state = state.select(range(rows))
        probing = controls and state is not None and step % PROBE == 0
        others = tampered(state, recent) if probing and state is not None else {}
        spent, state = _cost(model, window, state)
        bits[:rows, place] += spent
        for name, other in others.items():
            more = _cost(model, window, other)[0] - spent
            extra.setdefault(name, np.zeros_like(bits))[:rows, place] += more
    assert state is not None
    return Examined(
        _grid(bits),
        {name: _grid(values) for name, values in extra.items()},
        state.nbytes // state.batch,
        seconds,
    )


def _grid(values: Floats) -> Grid:
    return tuple(map(tuple, values.tolist()))


def tampered(state: StreamState, recent: int = 0) -> dict[str, StreamState | None]:
    """The controls: what a model is given instead of the state that it carried.

    blanked         nothing, as at the beginning
    shuffled        the state of another passage, which has read as much
    older blanked   the cache as it was, but nothing of what is older than the cache
    older shuffled  the cache as it was, and another passage's memory of what is older

    Of a longer cache, the last ``recent`` tokens count as one, and the others as older.
    """
    rows = state.batch
    # Half-way round: passages of one book stand together, so another book's is more likely.
    others = [(row + rows // 2) % rows for row in range(rows)]
    swapped = state.select(others)
    found: dict[str, StreamState | None] = {"blanked": None, "shuffled": swapped}
    pairs = list(zip(state.layers, swapped.layers, strict=True))
    if any(_older(layer, recent) for layer in state.layers):
        blank = tuple(_with_older(layer, None, recent) for layer in state.layers)
        found["older blanked"] = replace(state, layers=blank)
        mixed = tuple(_with_older(layer, other, recent) for layer, other in pairs)
        found["older shuffled"] = replace(state, layers=mixed)
    return found


def _older(layer: State, recent: int) -> bool:
    return isinstance(layer, LayerState) and (
        layer.compressed is not None or layer.signal is not None or _long(layer, recent)
    )


def _long(layer: LayerState, recent: int) -> bool:
    """Whether the cache holds more than the last tokens, which alone count as one."""
    return 0 < recent < layer.cache.inputs.shape[1]


def _with_older(layer: State, other: State | None, recent: int) -> State:
    """A layer's own cache, with what another layer remembers beyond its cache, or with nothing."""
    assert isinstance(layer, LayerState)
    cache = layer.cache
    if _long(layer, recent):
        own = cache.inputs[:, -recent:]
        older = other.cache.inputs[:, :-recent] if isinstance(other, LayerState) else own[:, :0]
        cache = LayerInputs(torch.cat((older, own), 1))
    if isinstance(other, LayerState):
        return replace(other, cache=cache)
    compressed, signal = layer.compressed, layer.signal
    if compressed is not None:
        compressed = LayerInputs(compressed.inputs[:, :0])
    if signal is not None:
        signal = signal.map(torch.zeros_like)
    return replace(layer, cache=cache, compressed=compressed, signal=signal)


def _cost(
    model: SequenceModel, window: Tensor, state: StreamState | None
) -> tuple[Floats, StreamState]:
    """Bits for the tokens 1 … T of windows (R, T + 1), summed over a segment: (R,)."""
    out = model(window[:, :-1], state)
    nats = F.cross_entropy(out.logits.float().transpose(1, 2), window[:, 1:], reduction="none")
    spent: Floats = nats.double().sum(1).cpu().numpy() / math.log(2)
    return spent, out.state
