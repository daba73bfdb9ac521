from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mnemoscope.models.model import SequenceModel

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]
Read = Callable[..., tuple[Tensor, Any]]
lengths = st.lists(st.integers(1, 7), min_size=2, max_size=6)


@settings(max_examples=20)
@given(lengths=lengths, rows=st.integers(1, 3), grad=st.booleans())
def test_segment_by_segment_is_at_once(
    make: Make, tokens_of: Tokens, read_in: Read, lengths: list[int], rows: int, grad: bool
) -> None:
    model, tokens = make(), tokens_of(rows, sum(lengths))
    with torch.set_grad_enabled(grad):
        whole = model(tokens)
        logits, state = read_in(model, tokens, lengths)
    torch.testing.assert_close(logits, whole.logits, rtol=0, atol=1e-10)
    torch.testing.assert_close(
        dict(state.tensors()), dict(whole.state.tensors()), rtol=0, atol=1e-10
    )


@settings(max_examples=8)
@given(lengths=lengths)
def test_gradients_through_the_state_are_those_of_reading_at_once(
    make: Make, tokens_of: Tokens, read_in: Read, lengths: list[int]
) -> None:
    model, tokens = make(), tokens_of(2, sum(lengths))
    weights = torch.randn(2, sum(lengths), 11, dtype=torch.float64)

    def gradients(logits: Tensor) -> dict[str, Tensor]:
        model.zero_grad()
        (logits * weights).sum().backward()
        return {name: w.grad.clone() for name, w in model.named_parameters() if w.grad is not None}

    whole = gradients(model(tokens).logits)
    assert len(whole) == len(list(model.parameters()))
    parts = gradients(read_in(model, tokens, lengths)[0])
    torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-10)


def test_detach_cuts_the_gradient_and_nothing_else(make: Make) -> None:
    model = make()
    # Ids 1 to 4 are read in the first segment only, so a gradient there came through the state.
    first, second = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[5, 6, 7]])
    state = model(first).state

    def gradient(logits: Tensor) -> Tensor:
        model.zero_grad()
        logits.square().sum().backward(retain_graph=True)
        assert model.embedding.weight.grad is not None
        return model.embedding.weight.grad.clone()

    carried, cut = model(second, state).logits, model(second, state.detach()).logits
    assert torch.equal(carried, cut)
    assert (gradient(carried)[1:8].abs().sum(1) > 0).all()
    assert (gradient(cut)[5:8].abs().sum(1) > 0).all()
    assert not gradient(cut)[1:5].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_precision_works(
    make: Make, tokens_of: Tokens, read_in: Read, dtype: torch.dtype
) -> None:
    model, tokens = make(dtype=dtype), tokens_of(2, 9)
    mask = tokens_of(2, 9, seed=1) > 2
    for logits, state in (
        read_in(model, tokens, [9]),
        read_in(model, tokens, [4, 1, 4]),
        read_in(model, tokens, [4, 1, 4], mask),
    ):
        assert logits.dtype == dtype
        assert logits.isfinite().all()
        kinds = {tensor.dtype for _, tensor in state.tensors()}
        # Attention is counted in at least float32.
        assert kinds <= {dtype, torch.bool, torch.int64, torch.float32}
        model.zero_grad()
        logits.float().logsumexp(-1).sum().backward()
        assert all(w.grad is not None and w.grad.isfinite().all() for w in model.parameters())


def test_float32_is_near_float64(make: Make, tokens_of: Tokens, read_in: Read) -> None:
    exact, single, tokens = make(), make(dtype=torch.float32), tokens_of(2, 9)
    single.load_state_dict(exact.state_dict())
    torch.testing.assert_close(
        read_in(single, tokens, [4, 1, 4])[0].double(), exact(tokens).logits, rtol=1e-3, atol=1e-3
    )


def test_reading_does_not_change_the_state_it_starts_from(make: Make, tokens_of: Tokens) -> None:
    model = make()
    with torch.no_grad():
        state = model(tokens_of(2, 2), model(tokens_of(2, 3)).state).state
        before = {name: tensor.clone() for name, tensor in state.tensors()}
        one = model(tokens_of(2, 4, seed=1), state)
        kept = {name: tensor.clone() for name, tensor in one.state.tensors()}
        model(tokens_of(2, 5, seed=2), state)
        again = model(tokens_of(2, 4, seed=1), state)
    assert all(torch.equal(before[name], tensor) for name, tensor in state.tensors())
    assert all(torch.equal(kept[name], tensor) for name, tensor in one.state.tensors())
    assert torch.equal(one.logits, again.logits)


def test_dropout_acts_in_training_only(make: Make, tokens_of: Tokens) -> None:
    model, plain, tokens = make(dropout=0.5), make(), tokens_of(2, 6)
    assert torch.equal(model(tokens).logits, plain(tokens).logits)
    model.train()
    assert not torch.equal(model(tokens).logits, model(tokens).logits)


def test_tokens_may_be_int32(make: Make, tokens_of: Tokens) -> None:
    model, tokens = make(), tokens_of(2, 6)
    assert torch.equal(model(tokens.int()).logits, model(tokens).logits)
