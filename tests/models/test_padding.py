from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mnemoscope.models.model import SequenceModel

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]
Read = Callable[..., tuple[Tensor, Any]]
LENGTH, ROWS = 5, 3


@st.composite
def masks(draw: st.DrawFn) -> Tensor:
    """True where a token is real: rows padded on the right, on the left, or anywhere."""
    side = draw(st.sampled_from(["right", "left", "anywhere"]))
    if side == "anywhere":
        row = st.lists(st.booleans(), min_size=LENGTH, max_size=LENGTH)
        return torch.tensor(draw(st.lists(row, min_size=ROWS, max_size=ROWS)))
    real = torch.tensor(draw(st.lists(st.integers(0, LENGTH), min_size=ROWS, max_size=ROWS)))
    right = torch.arange(LENGTH) < real[:, None]
    return right if side == "right" else right.flip(1)


@settings(max_examples=25)
@given(masks=st.lists(masks(), min_size=1, max_size=3), grad=st.booleans())
def test_a_padded_row_is_read_as_if_alone(
    make: Make, tokens_of: Tokens, read_in: Read, masks: list[Tensor], grad: bool
) -> None:
    model, tokens = make(), tokens_of(ROWS, LENGTH * (len(masks) + 1))
    # The last segment is whole: it shows what the padded ones left in the state.
    mask = torch.cat([*masks, torch.ones(ROWS, LENGTH, dtype=torch.bool)], 1)
    with torch.set_grad_enabled(grad):
        logits, state = read_in(model, tokens, [LENGTH] * (len(masks) + 1), mask)
        for row in range(ROWS):
            alone = model(tokens[row : row + 1, mask[row]])
            torch.testing.assert_close(logits[row, mask[row]], alone.logits[0], rtol=0, atol=1e-10)
            if state.count is not None:
                assert int(state.count[row]) == int(mask[row].sum())


@settings(max_examples=10)
@given(mask=masks())
def test_a_row_goes_on_after_padding_without_a_mask(
    make: Make, tokens_of: Tokens, mask: Tensor
) -> None:
    model, tokens, more = make(), tokens_of(ROWS, LENGTH), tokens_of(ROWS, 4, seed=1)
    logits = model(more, model(tokens, None, mask).state).logits
    for row in range(ROWS):
        joined = torch.cat((tokens[row, mask[row]], more[row]))[None]
        torch.testing.assert_close(logits[row], model(joined).logits[0, -4:], rtol=0, atol=1e-10)


def test_what_stands_in_padding_does_not_matter(make: Make, tokens_of: Tokens) -> None:
    model, one, two = make(), tokens_of(2, 6, seed=1), tokens_of(2, 6, seed=2)
    mask = torch.tensor([[True, True, True, False, False, False], [False, True] * 3])
    two = torch.where(mask, one, two)
    assert not torch.equal(one, two)
    logits, others = model(one, None, mask).logits, model(two, None, mask).logits
    torch.testing.assert_close(logits[mask], others[mask], rtol=0, atol=1e-12)


def test_a_mask_that_hides_nothing_changes_nothing(make: Make, tokens_of: Tokens) -> None:
    model, tokens = make(), tokens_of(2, 6)
    masked = model(tokens, None, torch.ones(2, 6, dtype=torch.bool)).logits
    torch.testing.assert_close(masked, model(tokens).logits, rtol=0, atol=1e-12)
