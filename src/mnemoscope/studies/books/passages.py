"""Long passages, read from their beginning with a state that is carried, or tampered with.

Shapes: R passages, T bytes of a segment, K stretches of the reading, each twice as long as the one
before: the first segment, the second, the next two, the next four …
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import Document
from mnemoscope.data.vocabulary import Bytes
from mnemoscope.memories.state import State
from mnemoscope.memories.transformer_xl.state import CacheState, LayerState
from mnemoscope.models.model import SequenceModel, StreamState

Floats = NDArray[np.float64]

# Controls read every so many segments; the state itself is carried through all of them.
PROBE = 4


@dataclass(frozen=True, eq=False)
class Passage:
    """A stretch of a book: ids (n,) of its bytes, of which all but the last are read."""

    book: str
    ids: NDArray[np.int64]

    def segments(self, length: int) -> int:
        """Whole segments that can be read, a next byte known everywhere."""
        return (len(self.ids) - 1) // length


def cut(books: Sequence[Document], read: int, most: int, segment: int) -> list[Passage]:
    """Cut every book into at most ``most`` passages of ``read`` bytes, longest first.

    A book shorter than that is one passage. The longest is cut to the second longest, so that at
    every moment there is another one to exchange states with.
    """
    passages = []
    for book in books:
        ids = Bytes().encode(book.text)
        count = max(1, min(most, len(ids) // read))
        for start in (len(ids) * place // count for place in range(count)):
            passages.append(Passage(book.title, ids[start : start + read + 1]))
    passages = [one for one in passages if one.segments(segment) > PROBE]
    passages.sort(key=lambda one: -one.segments(segment))
    if len(passages) < 2:
        raise UserError(
            "states are exchanged between passages, and what is held out gives fewer than two of "
            f"more than {PROBE} segments of {segment} bytes; hold out more or longer books"
        )
    longest = passages[1].segments(segment) * segment + 1
    return [replace(passages[0], ids=passages[0].ids[:longest]), *passages[1:]]


def stretch(step: int) -> int:
    """Which stretch of the reading a segment belongs to."""
    return step.bit_length()


def starts(stretches: int, segment: int) -> NDArray[np.int64]:
    """Bytes read before each stretch, (K,)."""
    return np.array([0, *(segment * 2**place for place in range(stretches - 1))])


def lengths(passages: Sequence[Passage], segment: int, every: int = 1) -> Floats:
    """Bytes that each passage has in each stretch, of all segments or every few, (R, K)."""
    steps = [one.segments(segment) for one in passages]
    found = np.zeros((len(passages), 1 + stretch(max(steps) - 1)))
    for row, count in enumerate(steps):
        # There is nothing to tamper with in the first segment: every few begins with the second.
        for step in range(0 if every == 1 else every, count, every):
            found[row, stretch(step)] += segment
    return found


@torch.no_grad()
def read(model: SequenceModel, passages: Sequence[Passage], segment: int) -> dict[str, Any]:
    """Read all passages side by side and add up what every byte cost, in bits.

    bits         (R, K) with the state as it was carried, of all segments
    extra        for every control of `tampered`, (R, K) what it cost more, of every few segments
    state_bytes  what one passage carries in the end
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
        controls = {} if state is None or step % PROBE else tampered(state)
        spent, state = _cost(model, window, state)
        bits[:rows, place] += spent
        for name, other in controls.items():
            more = _cost(model, window, other)[0] - spent
            extra.setdefault(name, np.zeros_like(bits))[:rows, place] += more
    assert state is not None
    return {
        "bits": bits.tolist(),
        "extra": {name: found.tolist() for name, found in extra.items()},
        "state_bytes": state.nbytes // state.batch,
    }


def tampered(state: StreamState) -> dict[str, StreamState | None]:
    """The controls: what a model is given instead of the state that it carried.

    blanked         nothing, as at the beginning
    shuffled        the state of another passage, which has read as much
    older blanked   the cache as it was, but nothing of what is older than the cache
    older shuffled  the cache as it was, and another passage's memory of what is older
    """
    rows = state.batch
    # Half-way round: passages of one book stand together, so another book's is more likely.
    others = [(row + rows // 2) % rows for row in range(rows)]
    swapped = state.select(others)
    found: dict[str, StreamState | None] = {"blanked": None, "shuffled": swapped}
    pairs = list(zip(state.layers, swapped.layers, strict=True))
    if any(_older(layer) for layer in state.layers):
        blank = tuple(_with_older(layer, None) for layer in state.layers)
        found["older blanked"] = replace(state, layers=blank)
        mixed = tuple(_with_older(layer, other) for layer, other in pairs)
        found["older shuffled"] = replace(state, layers=mixed)
    return found


def _older(layer: State) -> bool:
    return isinstance(layer, LayerState) and (
        layer.compressed is not None or layer.signal is not None
    )


def _with_older(layer: State, other: State | None) -> State:
    """A layer's own cache, with what another layer remembers beyond its cache, or with nothing."""
    assert isinstance(layer, LayerState)
    if isinstance(other, LayerState):
        return replace(other, cache=layer.cache)
    compressed, signal = layer.compressed, layer.signal
    if compressed is not None:
        compressed = CacheState(compressed.inputs[:, :0])
    if signal is not None:
        signal = signal.map(torch.zeros_like)
    return replace(layer, compressed=compressed, signal=signal)


def _cost(
    model: SequenceModel, window: Tensor, state: StreamState | None
) -> tuple[Floats, StreamState]:
    """Bits for the bytes 1 … T of windows (R, T + 1), summed over a segment: (R,)."""
    out = model(window[:, :-1], state)
    nats = F.cross_entropy(out.logits.float().transpose(1, 2), window[:, 1:], reduction="none")
    spent: Floats = nats.double().sum(1).cpu().numpy() / math.log(2)
    return spent, out.state
