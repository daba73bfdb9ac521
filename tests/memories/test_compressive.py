"""What leaves a cache, and what it is squeezed into."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.memories.compressive.compressor import (
    Compressor,
    attention_loss,
    autoencoding_loss,
)
from mnemoscope.memories.compressive.config import Compressive
from mnemoscope.memories.transformer_xl.relative import attend, weights
from mnemoscope.memories.transformer_xl.state import LayerInputs, append

ROWS = 3


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    keep=st.integers(0, 5),
    chunk=st.integers(1, 4),
    masked=st.booleans(),
)
def test_every_token_leaves_once_in_order_and_in_whole_chunks(
    lengths: list[int], keep: int, chunk: int, masked: bool
) -> None:
    total = sum(lengths)
    inputs = torch.arange(ROWS * total, dtype=torch.float64).view(ROWS, total, 1)
    real = draw(ROWS, total, seed=total) > 0 if masked else torch.ones(ROWS, total) > 0
    gone: list[list[float]] = [[] for _ in range(ROWS)]
    state, start = None, 0
    for length in lengths:
        here = slice(start, start + length)
        state = append(state, inputs[:, here], real[:, here] if masked else None)
        state, left = state.leave(keep, chunk)
        start += length
        if left is None:
            continue
        assert left.tokens.shape[2] == chunk
        for row in range(ROWS):
            own = slice(None) if left.present is None else left.present[row]
            gone[row] += left.tokens[row][own].flatten().tolist()
    assert isinstance(state, LayerInputs)
    for row in range(ROWS):
        visible = slice(None) if state.visible is None else state.visible[row]
        held = state.inputs[row, :, 0][visible].tolist()
        said = inputs[row, :, 0][real[row]].tolist()
        assert gone[row] + held == said
        assert len(held) >= min(keep, len(said))
        assert len(held) < keep + chunk


def compressor(kind: str) -> Compressor:
    config = Compressive.make(vocab=2, width=5, heads=1, rate=4, compression=kind)
    return Compressor(config).double()


def test_chunks_become_one_vector_each() -> None:
    chunks = draw(2, 3, 4, 5)
    assert torch.equal(compressor("mean")(chunks)[1, 2], chunks[1, 2].sum(0) / 4)
    assert torch.equal(compressor("max")(chunks)[0, 1], chunks[0, 1].max(0).values)
    used = draw(2, 3, 4, seed=1).abs()
    chosen = compressor("most-used")(chunks, used)
    assert torch.equal(chosen[1, 0], chunks[1, 0, int(used[1, 0].argmax())])
    convolving = compressor("convolution")
    kernel = convolving.convolution.weight.view(5, 4, 5).transpose(1, 2)
    strided = torch.nn.functional.conv1d(
        chunks.flatten(1, 2).transpose(1, 2), kernel, convolving.convolution.bias, stride=4
    )
    squeezed = convolving(chunks)
    torch.testing.assert_close(squeezed, strided.transpose(1, 2), rtol=0, atol=1e-12)


def test_weights_are_those_of_attention() -> None:
    new, total = 3, 7
    q, k = draw(1, 2, new, 4), draw(1, 2, total, 4, seed=1)
    r, u, v = draw(2, total, 4, seed=2), draw(2, 4, seed=3), draw(2, 4, seed=4)
    # With the identity as values, what attention finds are its weights.
    values = torch.eye(total, dtype=torch.float64).expand(1, 2, total, total)
    found = attend(q, k, values, r, u, v)
    torch.testing.assert_close(weights(q, k, r, u, v, None), found, rtol=0, atol=1e-12)


def test_losses_are_zero_when_nothing_is_lost_and_ignore_what_is_not_there() -> None:
    q, k, v = draw(2, 2, 3, 4), draw(2, 2, 5, 4, seed=1), draw(2, 2, 5, 4, seed=2)
    assert attention_loss(q, (k, v), (k, v), None, None) == 0
    present = torch.tensor([[True, True, True, False, False], [False] * 5])
    other = v.clone()
    other[0, :, 3:] += 9
    other[1] += 9
    assert attention_loss(q, (k, v), (k, other), present, None) == 0
    mask = torch.tensor([[True, True, True], [False] * 3])
    assert attention_loss(q, (k, v), (k, other), None, mask) > 0
    chunks = draw(2, 5, 4, 3)
    restored = chunks + (~present)[:, :, None, None]
    assert autoencoding_loss(restored, chunks, present) == 0
    assert autoencoding_loss(restored, chunks, None) > 0


def small(**options: Any) -> Any:
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab": 9,
        "width": 8,
        "layers": 2,
        "heads": 2,
        "mem_len": 4,
        "compressed_len": 4,
    }
    return ms.build("compressive", **shape, rate=2, **options).double()


@pytest.mark.parametrize("rebuild", ["attention", "autoencoding"])
def test_the_losses_train_the_compressor_and_nothing_else(rebuild: str) -> None:
    model = small(rebuild=rebuild)
    out = model(torch.randint(9, (2, 12)))
    assert len(out.losses) == 1
    sum(out.losses.values()).backward()
    trained = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert trained
    assert all("compressor" in name for name in trained)
    model.eval()
    assert not model(torch.randint(9, (2, 12))).losses


@pytest.mark.parametrize("compression", ["convolution", "mean", "max", "most-used"])
def test_every_parameter_gets_a_gradient_after_the_first_compression(compression: str) -> None:
    model = small(compression=compression)
    state = None
    for _ in range(3):  # again and again: nothing may freeze on the way
        out = model(torch.randint(9, (2, 12)), state)
        model.zero_grad()
        (out.logits.square().sum() + sum(out.losses.values())).backward()
        for name, weight in model.named_parameters():
            assert weight.requires_grad
            assert weight.grad is not None, name
            assert weight.grad.abs().sum() > 0, name
        state = out.state.detach()


def test_compressed_tokens_reach_further_than_the_cache() -> None:
    torch.manual_seed(0)
    model = ms.build(
        "compressive", vocab=9, width=8, layers=1, heads=2, mem_len=4, compressed_len=4, rate=3
    ).double()
    tokens = torch.randint(9, (1, 40))

    def last(read: Tensor) -> Tensor:
        state = None
        for part in read[:, :-1].split(5, 1):
            state = model(part, state).state
        logits: Tensor = model(read[:, -1:], state).logits
        return logits

    def changed(place: int) -> bool:
        other = tokens.clone()
        other[0, place] = (other[0, place] + 1) % 9
        return not torch.equal(last(tokens), last(other))

    # 39 tokens read: at least 4 in the cache, 4 · 3 behind it in the queue.
    assert changed(36)
    assert changed(28)
    assert not changed(10)
    state = model(tokens).state
    assert state.layers[0].compressed.inputs.shape == (1, 4, 8)


def test_a_compressor_without_weights_has_no_loss_to_train_it() -> None:
    with pytest.raises(UserError, match="nothing that rebuild can train"):
        ms.build("compressive", vocab=9, compression="mean", rebuild="attention")
