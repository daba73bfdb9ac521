"""Hidden states below a memory, computed once: a step of training then costs what is above them.

Nothing below the lowest block that learns changes while it does, nor does what these blocks carry
from window to window.

Shapes: R rows, T tokens, D width.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.huggingface import blocks as parts
from mnemoscope.memories.state import StreamState, read_tensors, write_tensors

if TYPE_CHECKING:
    from mnemoscope.huggingface.config import InfiniteFitting
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory
    from mnemoscope.huggingface.infinite.streams import Stretch


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """What the last of some lowest blocks returned, (R, T, D).

    sizes  how long a tuple each of these blocks returns; 0 for a tensor
    """

    hidden: Tensor
    sizes: list[int]


class TextStates:
    """Hidden states (T, D) of every text, below one block of a model with a memory."""

    def __init__(self, memory: InfiniteMemory, hidden: list[Tensor], sizes: list[int]) -> None:
        self.memory, self.hidden, self.sizes = memory, hidden, sizes

    @contextmanager
    def of(self, one: Stretch, length: int) -> Iterator[None]:
        """Let calls start behind the hidden states of one stretch of ``length`` tokens."""
        found = self.hidden[0].new_zeros(len(one.places), length, self.hidden[0].shape[1])
        for row, (text, place) in enumerate(one.places):
            there = self.hidden[text][place : place + length]
            found[row, : len(there)] = there
        device = next(self.memory.base.parameters()).device
        with self.memory.kept(HiddenStates(found.to(device), self.sizes)):
            yield


def states_below(
    memory: InfiniteMemory,
    texts: Sequence[Tensor],
    rows: int,
    lowest: int,
    options: InfiniteFitting,
) -> TextStates | None:
    """Hidden states of the texts, from the file if they lie there; None if none are to be kept."""
    tokens = sum(map(len, texts))
    nbytes = tokens * parts.width_of(memory.base) * memory.base.dtype.itemsize
    why = ""
    if options.learn == "all" or lowest == 0:
        why = "the lowest block learns too, and nothing is below it"
    elif memory.windows.mem_len:
        why = "keys are carried without sinks: set sinks"
    if options.cache == "on" and why:
        raise UserError(f"cache=on, but no hidden states can be kept: {why}")
    read = options.steps * rows * memory.options.window * options.tbptt
    if options.cache == "off" or why:
        return None
    if options.cache == "auto" and (nbytes > options.cache_bytes or read < tokens):
        return None
    path = options.cache_file
    about = _fingerprint(memory, texts, lowest)
    if path is not None and path.is_file():
        tensors, said = read_tensors(path)
        if said.get("of") != about:
            raise UserError(f"{path} holds hidden states of another model, memory or texts")
    else:
        tensors = _computed(memory, texts, rows, lowest, options.silent)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(path, tensors, {"of": about})
    hidden = [tensors[f"text {number}"] for number in range(len(texts))]
    return TextStates(memory, hidden, tensors["sizes"].tolist())


def _fingerprint(memory: InfiniteMemory, texts: Sequence[Tensor], lowest: int) -> str:
    options = memory.options.model_dump_json(include={"window", "sinks", "mem_len", "pooling"})
    digest = hashlib.blake2b(f"{parts.fingerprint(memory.base)} {options} {lowest}".encode())
    for text in texts:
        digest.update(text.numpy().tobytes())
    return digest.hexdigest()[:32]


@torch.no_grad()
def _computed(
    memory: InfiniteMemory, texts: Sequence[Tensor], rows: int, lowest: int, silent: bool
) -> dict[str, Tensor]:
    """Read all texts with the lowest blocks alone, ``rows`` side by side."""
    device, window = next(memory.base.parameters()).device, memory.options.window
    seen: dict[int, Any] = {}

    def note(number: int) -> Any:
        def hook(block: nn.Module, given: Any, output: Any) -> None:
            seen[number] = output

        return hook

    hooks = [
        block.register_forward_hook(note(number))
        for number, block in enumerate(memory.blocks[:lowest])
    ]
    pieces: list[list[Tensor]] = [[] for _ in texts]
    groups = [[*range(at, min(at + rows, len(texts)))] for at in range(0, len(texts), rows)]
    windows = sum(-(-max(len(texts[n]) for n in group) // window) for group in groups)
    done = itertools.count(1)
    lower = parts.frozen(memory), memory.until(lowest)
    try:
        with lower[0], lower[1], progress("hidden states", windows, silent=silent) as show:
            for group in groups:
                state: StreamState | None = None
                for at in range(0, max(len(texts[n]) for n in group), window):
                    going = [row for row, n in enumerate(group) if len(texts[n]) > at]
                    group = [group[row] for row in going]
                    state = None if state is None else state.select(going)
                    here = [texts[n][at : at + window] for n in group]
                    tokens = nn.utils.rnn.pad_sequence(here, batch_first=True).to(device)
                    lengths = torch.tensor([[len(text)] for text in here])
                    mask = (torch.arange(tokens.shape[1])[None] < lengths).to(device)
                    state = memory.read(tokens, state, None if bool(mask.all()) else mask)
                    hidden = parts.hidden_of(seen[lowest - 1]).cpu()
                    for n, text, states in zip(group, here, hidden, strict=True):
                        pieces[n].append(states[: len(text)].clone())
                    show(next(done), "")
    finally:
        for hook in hooks:
            hook.remove()
    found = {f"text {n}": torch.cat(each) for n, each in enumerate(pieces)}
    outputs = [seen[number] for number in range(lowest)]
    found["sizes"] = torch.tensor(
        [len(output) if isinstance(output, tuple) else 0 for output in outputs]
    )
    return found
