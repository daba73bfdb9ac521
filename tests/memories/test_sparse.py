from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from largest import Largest
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
    # Every head its own sub-block; one of them has begun in the seventh block.
    options = {"pattern": "summary", "stride": 8, "summaries": 2, "subblocks": 4, "heads": 4}
    model = make_named("sparse strided", **options)
    assert kept(model, tokens_of(2, 50), lengths, read_in) == [12, 12, 12, 14]


@pytest.mark.parametrize("pattern", ["strided", "fixed", "local", "dense"])
def test_a_long_segment_after_a_state_is_read_strip_by_strip(
    make_named: Make, tokens_of: Tokens, read_in: Read, pattern: str
) -> None:
    options = {"pattern": pattern, "stride": 16, "summaries": 2, "context": 120, "layers": 1}
    model, tokens = make_named("sparse strided", **options), tokens_of(1, 1060)
    whole, _ = read_in(model, tokens, [1060])
    with Largest() as largest:
        parts, _ = read_in(model, tokens, [60, 1000])
    torch.testing.assert_close(parts, whole)
    assert largest.numbers < 1000**2 / 3


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
        ({"subblocks": 2, "pattern": "strided"}, "use a pattern that has them, as fixed"),
        ({"subblocks": 3, "pattern": "fixed"}, "subblocks 3 must divide the heads .* are 4"),
        ({"subblocks": 2, "pattern": "fixed|local|local|local"}, "which are 1"),
        ({"subblocks": 4, "pattern": "fixed", "stride": 8, "summaries": 3}, "do not fit into a"),
    ],
)
def test_mistakes_in_a_sparse_config_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sparse.make(vocab=5, **options)
