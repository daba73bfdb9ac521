"""Our layer of Transformer-XL against the textbook way to compute it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.measure import Row, compared, interleave
from mnemoscope.memories.layer import Context
from mnemoscope.memories.positions import waves
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.memories.transformer_xl.config import TransformerXL
from mnemoscope.memories.transformer_xl.state import LayerInputs, LayerState

TITLE = "Attention by distance over a cache: our layer against the textbook"
SETTING = (
    "Width 512, 8 heads, a segment of 512 tokens after a cache of 512 or 1536, same weights, "
    "outputs and gradients checked to agree within 1e-4. *Textbook* forms content scores, position "
    "scores and their sum one after the other, masks, takes the softmax and multiplies, as the "
    "published code does; ours hands the position scores to torch's fused attention as a bias. "
    "Ratio = textbook's time / our time."
)
SEGMENT, WIDTH, HEADS, ROUNDS = 512, 512, 8, 9
# key, rows, cached tokens, with the backward pass
CASES = (
    ("xl_layer_vs_textbook", 1, 512, False),
    ("xl_layer_vs_textbook_1536", 1, 1536, False),
    ("xl_layer_vs_textbook_b4", 4, 512, False),
    ("xl_layer_train_vs_textbook_b4", 4, 512, True),
)


def run(quick: bool) -> list[Row]:
    """Compare both ways in every case."""
    shrink = 16 if quick else 1
    rounds = 3 if quick else ROUNDS
    return [
        _compare(key, batch, SEGMENT // shrink, cached // shrink, learn, rounds)
        for key, batch, cached, learn in CASES
    ]


def _compare(key: str, batch: int, new: int, cached: int, learn: bool, rounds: int) -> Row:
    torch.manual_seed(0)
    config = TransformerXL.make(vocab=2, width=WIDTH, heads=HEADS, mem_len=cached)
    layer = RelativeAttention(config)
    with torch.no_grad():
        layer.content_bias.normal_()
        layer.position_bias.normal_()
    past, inputs = torch.randn(batch, cached, WIDTH), torch.randn(batch, new, WIDTH)

    def ours() -> Tensor:
        found: Tensor = layer(
            inputs, LayerState(LayerInputs(past)), Context(mask=None, rotation=None)
        )[0]
        return found

    ways: dict[str, Callable[[], Tensor]] = {
        "ours": ours,
        "textbook": partial(_textbook, layer, past, inputs),
    }

    def work(name: str) -> list[Tensor]:
        layer.zero_grad()
        if not learn:
            with torch.no_grad():
                return [ways[name]()]
        found = ways[name]()
        torch.autograd.backward(found.square().mean())
        return [found.detach(), *(w.grad for w in layer.parameters() if w.grad is not None)]

    for mine, theirs in zip(work("ours"), work("textbook"), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    times = interleave({name: partial(work, name) for name in ways}, rounds)
    what = f"{batch} × ({cached} + {new}) tokens, {'with backward' if learn else 'forward'}"
    goal = "≥ 1.4" if key == "xl_layer_vs_textbook" else ""
    return compared(key, what, times, theirs="textbook", goal=goal)


def _textbook(layer: RelativeAttention, past: Tensor, inputs: Tensor) -> Tensor:
    whole = torch.cat((past, inputs), 1)
    batch, new, total = len(inputs), inputs.shape[1], whole.shape[1]
    size = WIDTH // HEADS
    queries = layer.query(inputs).view(batch, new, HEADS, size)
    keys, values = layer.pairs(whole).view(batch, total, 2, HEADS, size).unbind(2)
    places = torch.arange(total - 1, -1, -1)
    distances = layer.distance(waves(places, WIDTH)).view(total, HEADS, size)
    content = torch.einsum("bqhe,bkhe->bhqk", queries + layer.content_bias, keys)
    position = torch.einsum("bqhe,khe->bhqk", queries + layer.position_bias, distances)
    # The relative shift: one column of padding, another view, one row dropped.
    padded = torch.cat((position.new_zeros(batch, HEADS, new, 1), position), 3)
    shifted = padded.view(batch, HEADS, total + 1, new)[:, :, 1:].reshape(content.shape)
    scores = (content + shifted) / math.sqrt(size)
    future = torch.ones(new, total, dtype=torch.bool).triu(total - new + 1)
    weights = scores.masked_fill(future, -torch.inf).softmax(-1)
    found = torch.einsum("bhqk,bkhe->bqhe", weights, values).reshape(batch, new, WIDTH)
    projected: Tensor = layer.out(found)
    return projected
