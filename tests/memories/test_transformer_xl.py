"""Transformer-XL's memory against the formula of the paper, in loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import mnemoscope as ms
from mnemoscope.memories.positions import waves
from mnemoscope.memories.transformer_xl.config import TransformerXL
from mnemoscope.memories.transformer_xl.relative import attend, by_key
from mnemoscope.memories.transformer_xl.state import LayerInputs, append

ROWS, HEADS, SIZE = 2, 2, 3


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def slowly(
    queries: Tensor, keys: Tensor, values: Tensor, by: Tensor, u: Tensor, v: Tensor, seen: Tensor
) -> Tensor:
    """Dai 2019, equation in section 3.3: distances counted in each row's own tokens."""
    new, total = queries.shape[2], keys.shape[2]
    found = torch.zeros_like(queries)
    place = seen.cumsum(1)
    for row in range(queries.shape[0]):
        for head in range(queries.shape[1]):
            for t in range(new):
                now = total - new + t
                places = [j for j in range(now + 1) if seen[row, j] or j == now]
                scores = []
                for j in places:
                    apart = int(place[row, now] - place[row, j])
                    content = (queries[row, head, t] + u[head]) @ keys[row, head, j]
                    position = (queries[row, head, t] + v[head]) @ by[head, total - 1 - apart]
                    scores.append((content + position) / math.sqrt(queries.shape[3]))
                weights = torch.stack(scores).softmax(0)
                found[row, head, t] = weights @ values[row, head, places]
    return found


@given(new=st.integers(1, 5), past=st.integers(0, 6), padded=st.booleans(), seed=st.integers(0, 9))
def test_attention_is_the_formula_in_values_and_gradients(
    new: int, past: int, padded: bool, seed: int
) -> None:
    total = past + new
    q = draw(ROWS, HEADS, new, SIZE, seed=seed).requires_grad_()
    k, x = (draw(ROWS, HEADS, total, SIZE, seed=seed + i).requires_grad_() for i in (1, 2))
    r = draw(HEADS, total, SIZE, seed=seed + 3).requires_grad_()
    u, v = (draw(HEADS, SIZE, seed=seed + i).requires_grad_() for i in (4, 5))
    seen = draw(ROWS, total, seed=seed + 6) > -0.5
    if not padded:
        seen = torch.ones_like(seen)
    fast = attend(q, k, x, r, u, v, seen if padded else None)
    slow = slowly(q, k, x, r, u, v, seen)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    weight = draw(*fast.shape, seed=seed + 7)
    leaves = [q, k, x, r, u, v]
    ours = torch.autograd.grad((fast * weight).sum(), leaves)
    theirs = torch.autograd.grad((slow * weight).sum(), leaves)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@given(new=st.integers(1, 6), past=st.integers(0, 6))
def test_every_distance_comes_to_its_key_and_the_future_is_hidden(new: int, past: int) -> None:
    total = past + new
    # Column 0 belongs to no distance, column 1 + c to the distance total − 1 − c.
    distances = torch.arange(total, -1, -1.0).expand(1, 1, new, total + 1).contiguous()
    found = by_key(distances)
    for t in range(new):
        for j in range(total):
            expected = past + t - j if j <= past + t else -math.inf
            assert found[0, 0, t, j] == expected


@given(
    pieces=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    cached=st.integers(1, 7),
    masked=st.booleans(),
)
def test_the_cache_holds_the_last_tokens_of_every_row(
    pieces: list[int], cached: int, masked: bool
) -> None:
    total = sum(pieces)
    inputs = torch.arange(ROWS * total, dtype=torch.float64).view(ROWS, total, 1)
    real = draw(ROWS, total, seed=total) > 0 if masked else torch.ones(ROWS, total) > 0
    state, start = None, 0
    for length in pieces:
        here = slice(start, start + length)
        state = append(state, inputs[:, here], real[:, here] if masked else None).last(cached)
        start += length
    assert isinstance(state, LayerInputs)
    assert state.length <= cached
    for row in range(ROWS):
        visible = slice(None) if state.visible is None else state.visible[row]
        held = state.inputs[row, :, 0][visible].tolist()
        assert held == inputs[row, :, 0][real[row]].tolist()[-cached:]


def test_a_cache_as_long_as_the_stream_is_attention_over_all_of_it() -> None:
    torch.manual_seed(0)
    model = ms.build("transformer_xl", vocab=9, width=8, layers=2, heads=2, mem_len=32).double()
    tokens = torch.randint(9, (2, 24))
    whole = model(tokens).logits
    state, pieces = None, []
    for piece in tokens.split([1, 7, 3, 9, 4], 1):
        out = model(piece, state)
        state = out.state
        pieces.append(out.logits)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-12)


def test_a_short_cache_forgets_what_left_it() -> None:
    torch.manual_seed(0)
    model = ms.build("transformer_xl", vocab=9, width=8, layers=1, heads=2, mem_len=4).double()
    tokens = torch.randint(9, (1, 10))
    other = tokens.clone()
    other[0, 1] = (other[0, 1] + 1) % 9

    def last(read: Tensor) -> Tensor:
        return model(read[:, 8:], model(read[:, :8]).state).logits

    assert torch.equal(last(tokens), last(other))
    other[0, 5] = (other[0, 5] + 1) % 9
    assert not torch.equal(last(tokens), last(other))


def test_state_bytes_are_one_vector_a_token_and_layer() -> None:
    model = ms.build("transformer_xl", vocab=9, width=8, layers=3, heads=2, mem_len=5)
    state = model(torch.randint(9, (2, 40))).state
    assert state.nbytes == 2 * 3 * 5 * 8 * 4
    shapes = {tuple(tensor.shape) for _, tensor in state.tensors()}
    assert shapes == {(2, 5, 8)}


def test_the_gradient_flows_into_the_cache_until_it_is_cut() -> None:
    model = ms.build("transformer_xl", vocab=9, width=8, heads=2, mem_len=8).double()
    tokens = torch.randint(9, (1, 12))
    first = model(tokens[:, :6])

    def reached(state: object) -> Tensor:
        model.zero_grad()
        model(tokens[:, 6:], state).logits.sum().backward()
        gradient = model.embedding.weight.grad
        assert gradient is not None
        return gradient.abs().sum(1) > 0

    only_before = [t for t in range(9) if t in tokens[0, :6] and t not in tokens[0, 6:]]
    through, cut = reached(first.state), reached(first.state.detach())
    assert only_before
    assert through[only_before].all()
    assert not cut[only_before].any()


@pytest.mark.parametrize("width", [8, 6])
def test_distances_are_sinusoids(width: int) -> None:
    model = TransformerXL.make(vocab=5, width=width, heads=2).build().double()
    layer = model.layers[0].attention
    table = waves(torch.arange(3), width)
    for distance in range(3):
        for pair in range(width // 2):
            angle = distance * 10000 ** (-2 * pair / width)
            assert table[distance, 2 * pair] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[distance, 2 * pair + 1] == pytest.approx(math.cos(angle), abs=1e-6)
    assert layer.distance.weight.shape == (width, width)
