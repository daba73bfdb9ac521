from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.activations.capture import capture
from mnemoscope.core.errors import UserError
from mnemoscope.memories.sparse.attention import SparseAttention
from mnemoscope.memories.sparse.config import Sparse
from mnemoscope.memories.sparse.state import SparseState
from mnemoscope.models.model import SequenceModel

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]
Read = Callable[..., tuple[Tensor, Any]]


def kept(model: SequenceModel, tokens: Tensor, lengths: list[int], read_in: Read) -> list[int]:
    """How many tokens each group of heads of the first layer keeps."""
    with torch.no_grad():
        state = read_in(model, tokens, lengths)[1].layers[0]
    assert isinstance(state, SparseState)
    return [group.keys.shape[2] for group in state.groups]


@pytest.mark.parametrize("lengths", [[50], [20, 1, 1, 28], [1] * 50])
def test_the_state_holds_what_each_pattern_needs(
    make_named: Make, tokens_of: Tokens, read_in: Read, lengths: list[int]
) -> None:
    # 50 tokens, stride 8, 2 summaries: 6 whole blocks and 2 tokens of the seventh.
    needed = {"local": 7, "column": 50, "block": 2, "summary": 12}
    needed |= {"strided": 50, "fixed": 2 + 12, "dense": 50}
    for pattern, count in needed.items():
        options = {"pattern": pattern, "stride": 8, "summaries": 2}
        model = make_named("sparse strided", **options)
        assert kept(model, tokens_of(2, 50), lengths, read_in) == [count]
    model = make_named("sparse strided", pattern="local|summary", stride=8, summaries=2)
    assert kept(model, tokens_of(2, 50), lengths, read_in) == [7, 12]


def test_nothing_older_than_the_context_is_kept(
    make_named: Make, tokens_of: Tokens, read_in: Read
) -> None:
    model = make_named("sparse strided", context=20)
    assert kept(model, tokens_of(1, 64), [16] * 4, read_in)[0] <= 19
    first, second = tokens_of(1, 64), tokens_of(1, 64)
    second[:, :24] = tokens_of(1, 24, seed=1)
    # Two layers look back 19 tokens each: what came before 24 is out of reach at 63.
    torch.testing.assert_close(model(first).logits[:, -1], model(second).logits[:, -1])


@pytest.mark.parametrize("pattern", ["strided", "fixed", "local|column", "block,summary", "dense"])
def test_a_layer_attends_where_its_pattern_says(
    make_named: Make, tokens_of: Tokens, pattern: str
) -> None:
    model, tokens = make_named("sparse strided", pattern=pattern, stride=4), tokens_of(2, 19)
    with capture(model, "layers.*.attention.maps") as seen:
        model(tokens)
    for number, layer in enumerate(model.layers):
        attention = layer.attention
        assert isinstance(attention, SparseAttention)
        weights = seen[f"layers.{number}.attention.maps"]
        share = attention.heads // len(attention.patterns)
        for head in range(attention.heads):
            mask = torch.from_numpy(attention.patterns[head // share].mask(19))
            assert torch.equal(weights[:, head] > 0, mask.expand(2, -1, -1))
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_attention_maps_are_what_is_computed(make_named: Make, tokens_of: Tokens) -> None:
    model, tokens = make_named("sparse heads", layers=1), tokens_of(2, 10)
    attention = model.layers[0].attention
    inputs: dict[str, Tensor] = {}
    attention.register_forward_hook(
        lambda module, given, out: inputs.update(vectors=given[0], found=out[0])
    )
    with capture(model, "layers.0.attention.maps") as seen:
        model(tokens)
    values = attention.qkv(inputs["vectors"]).view(2, 10, 3, 2, 4)[:, :, 2].transpose(1, 2)
    found = (seen["layers.0.attention.maps"] @ values).transpose(1, 2).reshape(2, 10, 8)
    torch.testing.assert_close(attention.out(found), inputs["found"])


def test_recompute_gives_the_same_gradients_with_the_same_dropout(
    make_named: Make, tokens_of: Tokens
) -> None:
    def gradients(recompute: bool) -> dict[str, Any]:
        options = {"pattern": "strided,fixed", "dropout": 0.3, "layers": 4}
        model = make_named("sparse strided", **options, recompute=recompute).train()
        torch.manual_seed(7)
        first = model(tokens_of(2, 20))
        second = model(tokens_of(2, 7, seed=1), first.state)
        (first.logits.square().sum() + second.logits.square().sum()).backward()
        return {name: weight.grad for name, weight in model.named_parameters()}

    plain, again = gradients(False), gradients(True)
    assert all(torch.equal(plain[name], again[name]) for name in plain)


ROOT = Path(__file__).parents[2]
PEAK = """
import sys, torch
from benchmarks.measure import peak_memory as peak
from mnemoscope.memories.sparse.config import Sparse
torch.set_num_threads(1)
def step(recompute, length):
    config = Sparse(vocab=8, width=64, layers=12, context=4096, recompute=recompute, dropout=0.1)
    out = config.build().train()(torch.zeros(2, length, dtype=torch.long))
    torch.autograd.backward(out.logits.square().mean())
step(sys.argv[1] == "True", 64)  # code and buffers that every step needs
before = peak()
step(sys.argv[1] == "True", 2048)
print(peak() - before)
"""


def test_recompute_needs_little_memory() -> None:
    def kilobytes(recompute: bool) -> int:
        command = [sys.executable, "-c", PEAK, str(recompute)]
        # Every tensor straight from the system: else the peak counts holes between tensors too.
        env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    plain = kilobytes(False)
    assert plain > 50_000  # else nothing was measured
    assert kilobytes(True) <= 0.6 * plain


def test_axes_are_counted_from_the_slowest(make_named: Make) -> None:
    model = make_named("sparse axes", axes=(2, 3, 4))
    zeros, places = torch.zeros(1, 24, 8, dtype=torch.float64), torch.arange(24)[None]
    added = model.positions(zeros, places)[0][0].view(2, 3, 4, 8)
    rows, columns, channels = (table.weight for table in model.positions.tables)
    expected = rows[:, None, None] + columns[None, :, None] + channels
    torch.testing.assert_close(added, expected)
    with pytest.raises(UserError, match="25 tokens but learned positions end at 24"):
        model(torch.zeros(1, 25, dtype=torch.long))


def test_output_projections_shrink_with_depth() -> None:
    def spread(layers: int) -> float:
        torch.manual_seed(0)
        block = Sparse(vocab=4, width=128, layers=layers).build().layers[0]
        return float(block.attention.out.weight.detach().std())

    assert spread(8) == pytest.approx(spread(1) / math.sqrt(8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "strded"}, "unknown set 'strded'; did you mean 'strided'"),
        ({"pattern": "local|column|block"}, "4 heads cannot be shared by 3 patterns"),
        ({"summaries": 9, "stride": 8}, "between 1 and stride summaries"),
        ({"axes": "4,4"}, "need positions=axes"),
        ({"axes": "0,4", "positions": "axes"}, "sizes of at least 1"),
        ({"width": 12, "heads": 4}, "rotary positions turn pairs"),
    ],
)
def test_mistakes_in_a_sparse_config_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sparse.make(vocab=5, **options)
