"""Our recurrent cells, step by step in Python, and our layers, against `torch.nn`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.measure import Row, compared, interleave
from mnemoscope.core.registry import find
from mnemoscope.memories.layer import Context
from mnemoscope.memories.recurrent import RecurrentLayer, scan

TITLE = "Recurrent cells and layers against torch.nn: time, forward and backward"
SETTING = (
    "Same weights and inputs; outputs and all gradients checked to agree within 1e-3, absolute or "
    "relative. *Readable* is the loop over single steps that runs when a lens looks at the "
    "gates; *layer* is what users get when none does, torch's kernel behind our state. "
    "Ratio = our time / torch's time."
)
SHAPES = ((1, 1024, 256), (32, 256, 256), (64, 128, 512))  # batch, steps, width
ROUNDS = 11


def run(quick: bool) -> list[Row]:
    """Compare every cell at every shape."""
    rows = []
    for memory in ("rnn", "lstm", "gru"):
        for batch, steps, width in SHAPES:
            if quick:
                steps, width = steps // 16, width // 4
            rows += _compare(memory, batch, steps, width, 3 if quick else ROUNDS)
    return rows


def _compare(memory: str, batch: int, steps: int, width: int, rounds: int) -> list[Row]:
    torch.manual_seed(0)
    layer = RecurrentLayer(find("memory", memory).cell, width, dropout=0.0)
    cell, kernel = layer.cell, layer.kernel
    inputs = torch.randn(batch, steps, width, requires_grad=True)
    weigh = torch.randn(batch, steps, width)

    def learn(read: Callable[[], Tensor]) -> Tensor:
        layer.zero_grad()
        inputs.grad = None
        outputs = read()
        torch.autograd.backward((outputs * weigh).sum())
        return outputs

    def readable() -> Tensor:
        start = cell.start(inputs.new_zeros(batch, width))
        return scan(cell, inputs, start, layer.weights)[0]

    def as_layer() -> Tensor:
        outputs: Tensor = layer(inputs, None, Context(mask=None, rotation=None))[0]
        return outputs

    def as_torch() -> Tensor:
        outputs: Tensor = kernel(inputs)[0]
        return outputs

    def all_numbers(read: Callable[[], Tensor]) -> list[Tensor]:
        outputs = learn(read).detach()
        return [outputs, *(leaf.grad for leaf in (inputs, *kernel.parameters()))]

    theirs = all_numbers(as_torch)
    for read in (readable, as_layer):
        for mine, their in zip(all_numbers(read), theirs, strict=True):
            torch.testing.assert_close(mine, their, rtol=1e-3, atol=1e-3)

    ways = {"readable": readable, "layer": as_layer, "torch": as_torch}
    times = interleave({name: partial(learn, read) for name, read in ways.items()}, rounds)
    shape = f"{batch} × {steps} × {width}"
    rows = []
    for name in ("readable", "layer"):
        rows.append(
            compared(
                _key(memory, batch, name),
                f"{memory}, {shape}: {name} / torch.nn",
                times,
                name,
                "torch",
                goal=_goal(batch, name),
                slower=True,
            )
        )
    return rows


def _key(memory: str, batch: int, name: str) -> str:
    """The bare key goes to the way that is meant for the shape: the kernel for a single row."""
    meant = "layer" if batch == 1 else "readable"
    return f"{memory}_b{batch}{'' if name == meant else '_' + name}_time_vs_torch"


def _goal(batch: int, name: str) -> str:
    if name == "layer":
        return "≈ 1"
    return "≤ 1.10" if batch >= 32 else ""
