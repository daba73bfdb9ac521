from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find
from mnemoscope.models.generation import unroll
from mnemoscope.models.model import SequenceModel

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]


@pytest.mark.parametrize("lengths", [None, [5, 1, 3]])
@pytest.mark.parametrize("side", ["right", "left"])
def test_many_to_one_answers_after_the_last_real_token(
    make: Make, tokens_of: Tokens, lengths: list[int] | None, side: str
) -> None:
    every, last, tokens = make(), make(readout="last"), tokens_of(3, 5)
    mask, places = None, [4, 4, 4]
    if lengths is not None:
        mask = torch.arange(5) < torch.tensor(lengths)[:, None]
        mask = mask.flip(1) if side == "left" else mask
        places = [length - 1 for length in lengths] if side == "right" else [4, 4, 4]
    whole, end = every(tokens, None, mask), last(tokens, None, mask)
    assert end.logits.shape == (3, 1, 11)
    for row, place in enumerate(places):
        torch.testing.assert_close(end.logits[row, 0], whole.logits[row, place], rtol=0, atol=1e-12)
    torch.testing.assert_close(
        dict(end.state.tensors()), dict(whole.state.tensors()), rtol=0, atol=0
    )


def test_a_state_may_pass_between_readouts(make: Make, tokens_of: Tokens) -> None:
    every, last = make(), make(readout="last")
    state = every(tokens_of(2, 4)).state
    expected = every(tokens_of(2, 3, seed=1), state).logits[:, -1:]
    found = last(tokens_of(2, 3, seed=1), state).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_model_may_say_other_things_than_it_reads(make: Make, tokens_of: Tokens) -> None:
    assert make(outputs=3)(tokens_of(2, 4)).logits.shape == (2, 4, 3)


def test_one_to_many_is_feeding_blanks_by_hand(make: Make) -> None:
    model, first = make(), torch.tensor([[3], [8]])
    out = model(first)
    logits, blank = [out.logits], torch.tensor([[10], [10]])
    for _ in range(5):
        out = model(blank, out.state)
        logits.append(out.logits)
    found = unroll(model, first, 6, blank=10)
    torch.testing.assert_close(found, torch.cat(logits, 1), rtol=0, atol=1e-10)
    torch.testing.assert_close(unroll(model, first, 1, blank=10), logits[0], rtol=0, atol=1e-10)
    with pytest.raises(UserError, match="token id 11 is outside the vocabulary"):
        unroll(model, first, 6, blank=11)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru", "transformer"])
def test_one_to_many_learns_to_spell(kind: str) -> None:
    # From one id each, two words: the answer is in the first token, all others are blanks.
    words = torch.tensor([[1, 2, 3, 2, 1, 4], [5, 1, 1, 6, 2, 7]])
    torch.manual_seed(0)
    model = find("memory", kind).make(vocab=10, width=16, layers=2).build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = torch.tensor([[8], [9]])
    for _ in range(250):
        logits = unroll(model, first, 6, blank=0)
        if torch.equal(logits.argmax(-1), words):
            break
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), words.flatten()).backward()
        optimizer.step()
    assert torch.equal(logits.argmax(-1), words)


def test_tied_weights_are_one_tensor(make_named: Make, tokens_of: Tokens) -> None:
    model = make_named("transformer", tied=True)
    assert model.readout.weight is model.embedding.weight
    loose = make_named("transformer")
    assert loose.readout.weight is not loose.embedding.weight
    assert model(tokens_of(2, 3)).logits.shape == (2, 3, 11)
