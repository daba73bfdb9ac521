"""Models with heads built by hand, so that what a lens should find is known."""

from __future__ import annotations

import math
from typing import Any

import torch

import mnemoscope as ms
from mnemoscope.models.model import SequenceModel

WIDTH, HEADS, VOCAB = 64, 2, 40
SIZE = WIDTH // HEADS


def built(
    pairs: list[int], back: int, words: float = 0.15, sharpness: float = 3.0
) -> SequenceModel:
    """One layer on sinusoidal positions: head 0 looks ``back`` tokens back, head 1 at words.

    Head 0 takes the sinusoids of ``pairs`` as they are for its queries and turned by ``back``
    tokens for its keys; head 1 takes columns whose sinusoids hardly move, so only words are there.
    """
    torch.manual_seed(0)
    model = ms.build(
        "encoder",
        vocab=VOCAB,
        width=WIDTH,
        layers=1,
        heads=HEADS,
        positions="sinusoidal",
    ).double()
    attention: Any = model.layers[0].attention
    qkv = attention.qkv
    with torch.no_grad():
        model.embedding.weight.normal_(std=words * WIDTH**-0.5)
        weight = torch.zeros(3, HEADS, SIZE, WIDTH, dtype=torch.float64)
        qkv.bias.zero_()
        for place, pair in enumerate(pairs):
            angle = back * 10_000 ** (-2 * pair / WIDTH)
            row = 2 * place
            sine, cosine = 2 * pair, 2 * pair + 1
            weight[0, 0, row, sine] = weight[0, 0, row + 1, cosine] = sharpness
            # sin(a + angle) and cos(a + angle) from sin a and cos a
            weight[1, 0, row, sine] = weight[1, 0, row + 1, cosine] = math.cos(angle)
            weight[1, 0, row, cosine], weight[1, 0, row + 1, sine] = (
                math.sin(angle),
                -math.sin(angle),
            )
        last = torch.arange(WIDTH - SIZE // 2, WIDTH)
        for side in (0, 1):
            weight[side, 1, torch.arange(len(last)), last] = 1.0
        weight[2].normal_(std=WIDTH**-0.5)
        qkv.weight.copy_(weight.view(3 * WIDTH, WIDTH))
    return model.eval()


def passages(count: int = 60, length: int = 80) -> torch.Tensor:
    return torch.randint(VOCAB, (count, length), generator=torch.Generator().manual_seed(3))
