"""Small models of every memory that read random tokens under the page."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.activations.streams.native_stream import NativePageStream
from mnemoscope.activations.streams.page_stream import Step
from mnemoscope.core.registry import find
from mnemoscope.models.model import SequenceModel

LONG = 48
KINDS: dict[str, dict[str, Any]] = {
    "rnn": {"layers": 2},
    "lstm": {"layers": 2},
    "gru": {},
    "transformer": {"layers": 2, "heads": 2, "context": 20},
    "sparse": {"layers": 2, "heads": 4, "pattern": "strided|fixed", "stride": 5, "context": 30}
    | {"summaries": 2},
    "transformer_xl": {"heads": 2, "mem_len": 12},
    "compressive": {"heads": 2, "mem_len": 8, "compressed_len": 3, "rate": 3},
    "infinite": {"heads": 2, "mem_len": 8, "chunk": 4, "basis": 8, "sticky": True, "bins": 16},
    "infinite sparse": {"heads": 2, "mem_len": 4, "chunk": 4, "basis": 8, "density": "sparse"},
    "infinite gibbs": {"heads": 2, "mem_len": 4, "chunk": 4, "basis": 8, "density": "gibbs"}
    | {"sticky": True},
    "infinite both": {
        "heads": 2,
        "mem_len": 4,
        "compressed_len": 2,
        "rate": 2,
        "chunk": 2,
        "basis": 8,
    },
}


def build(kind: str) -> SequenceModel:
    torch.manual_seed(4)
    config = find("memory", kind.split()[0]).make(vocab=9, width=8, **KINDS[kind])
    model: SequenceModel = config.build().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.4)
    return model


def tokens_of(length: int = LONG) -> Tensor:
    return torch.randint(9, (length,), generator=torch.Generator().manual_seed(5))


def read(kind: str, cuts: list[int]) -> tuple[NativePageStream, list[Step]]:
    stream, at = NativePageStream(build(kind)), 0
    steps: list[Step] = []
    for length in cuts:
        state = steps[-1].state if steps else None
        steps.append(stream.step(tokens_of()[at : at + length], state, at, []))
        at += length
    return stream, steps
