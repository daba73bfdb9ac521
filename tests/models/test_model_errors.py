from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.memories.rnn import RNNState
from mnemoscope.models.model import SequenceModel

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([[0, 11]]), r"token id 11 is outside the vocabulary.*ids 0 to 10"),
        (torch.tensor([[3, -2]]), "token id -2 is outside the vocabulary"),
        (torch.zeros(2, 3), r"int64 or int32 .*got torch\.float32 of shape \(2, 3\)"),
        (torch.zeros(2, 3, dtype=torch.uint8), r"int64 or int32 .*got torch\.uint8"),
        (torch.zeros(2, 3, dtype=torch.bool), r"int64 or int32 .*got torch.bool"),
        (torch.zeros(2, 0, dtype=torch.long), r"not empty; got torch.int64 of shape \(2, 0\)"),
        (torch.zeros(0, 3, dtype=torch.long), "not empty"),
        (torch.zeros(3, dtype=torch.long), r"shape \(rows, length\).*got .* shape \(3,\)"),
        (torch.zeros(1, 2, 3, dtype=torch.long), r"shape \(rows, length\)"),
    ],
)
def test_tokens_that_cannot_be_read(make: Make, tokens: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()(tokens)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(2, 3), r"boolean of shape \(2, 3\); got torch\.float32"),
        (torch.ones(2, 3, dtype=torch.long), r"boolean .*got torch.int64"),
        (torch.ones(2, 4, dtype=torch.bool), r"shape \(2, 3\); got torch.bool of shape \(2, 4\)"),
        (torch.ones(3, dtype=torch.bool), r"of shape \(3,\)"),
    ],
)
def test_a_mask_that_does_not_fit(
    make: Make, tokens_of: Tokens, mask: Tensor, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make()(tokens_of(2, 3), None, mask)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 16}, "width is 16 there, 8 here"),
        ({"layers": 1}, "layers is 1 there, 2 here"),
        ({"vocab": 12}, "vocab is 12 there, 11 here"),
    ],
)
def test_a_state_of_another_model(
    make: Make, tokens_of: Tokens, options: dict[str, Any], message: str
) -> None:
    state = make(**options)(tokens_of(2, 3)).state
    with pytest.raises(UserError, match=f"the state belongs to another model: {message}"):
        make()(tokens_of(2, 3), state)


def test_a_state_of_another_memory(make_named: Make, tokens_of: Tokens) -> None:
    state = make_named("rnn")(tokens_of(2, 3)).state
    with pytest.raises(UserError, match="memory is rnn there, gru here"):
        make_named("gru")(tokens_of(2, 3), state)
    state = make_named("transformer none")(tokens_of(2, 3)).state
    with pytest.raises(UserError, match="positions is none there, rotary here"):
        make_named("transformer")(tokens_of(2, 3), state)


def test_a_layer_state_is_no_stream_state(make: Make, tokens_of: Tokens) -> None:
    with pytest.raises(UserError, match=r"must come from out\.state; got RNNState"):
        make()(tokens_of(2, 3), RNNState(torch.zeros(2, 8)))


def test_a_state_of_another_batch(make: Make, tokens_of: Tokens) -> None:
    model = make()
    state = model(tokens_of(3, 4)).state
    with pytest.raises(UserError, match=r"holds 3 rows but the tokens have 2; .*state\.select"):
        model(tokens_of(2, 4), state)
    assert model(tokens_of(2, 4), state.select([0, 2])).logits.shape == (2, 4, 11)


def test_learned_positions_end(make_named: Make, tokens_of: Tokens) -> None:
    model = make_named("transformer learned", context=6)
    state = model(tokens_of(2, 4)).state
    with pytest.raises(UserError, match="stream has 8 tokens but learned positions end at 6"):
        model(tokens_of(2, 4), state)
    # Up to the last place all is well, and padding takes none.
    mask = torch.tensor([[True, True, False, False], [False, True, False, False]])
    state = model(tokens_of(2, 4), state, mask).state
    assert state.count.tolist() == [6, 5]
    with pytest.raises(UserError, match="larger context, or with rotary or sinusoidal"):
        model(tokens_of(2, 1), state)
    assert model(tokens_of(2, 6), state.reset([0, 1])).logits.shape == (2, 6, 11)
