"""Memory by document, against the formula written out."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.memories.documents.entries import (
    answer,
    ask,
    choose,
    control_masks,
    project,
    starting_keys,
)
from mnemoscope.memories.documents.guidance import guided_losses
from mnemoscope.memories.documents.tfidf import Frequencies, tfidf


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_answer_is_the_formula_one_entry_after_the_other() -> None:
    torch.manual_seed(0)
    vectors, weight, bias = drawn(2, 3, 5), drawn(4, 5), drawn(4)
    keys, values, last = drawn(2, 6), drawn(5, 4), drawn(5)
    mapping = [(drawn(4, 6), drawn(4))]
    found = answer(ask(vectors, weight, bias), choose(keys, mapping, "tanh"), values, last)
    for row in range(2):
        for token in range(3):
            slow = last.clone()
            for entry in range(4):
                x = float(vectors[row, token] @ weight[entry] + bias[entry])
                asked = x * (1 + math.erf(x / math.sqrt(2))) / 2
                g = float(keys[row] @ mapping[0][0][entry] + mapping[0][1][entry])
                slow += values[:, entry] * asked * math.tanh(g)
            torch.testing.assert_close(found[row, token], slow)


def test_deeper_maps_have_a_relu_between_layers() -> None:
    torch.manual_seed(1)
    keys, first, second = drawn(3, 2), (drawn(4, 2), drawn(4)), (drawn(4, 4), drawn(4))
    inner = torch.relu(keys @ first[0].T + first[1])
    expected = torch.relu(inner @ second[0].T + second[1])
    torch.testing.assert_close(choose(keys, [first, second], "relu"), expected)


def test_gradients_of_document_entries_are_right() -> None:
    torch.manual_seed(2)
    inputs = [
        drawn(2, 3, 4),
        drawn(3, 4),
        drawn(3),
        drawn(2, 2),
        drawn(3, 2),
        drawn(3),
        drawn(4, 3),
    ]
    for tensor in inputs:
        tensor.requires_grad_()

    def whole(x, w, b, keys, g, c, values):
        return answer(ask(x, w, b), choose(keys, [(g, c)], "tanh"), values, values[:, 0])

    assert torch.autograd.gradcheck(whole, inputs)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 3))
def test_orthogonal_starts_are_as_long_whatever_the_size(count: int, size: int, seed: int) -> None:
    keys = starting_keys(count, size, "orthogonal", seeded(seed))
    assert keys.shape == (count, size)
    torch.testing.assert_close(keys.norm(dim=1), torch.full((count,), math.sqrt(2)))
    first = keys[: min(count, size)]
    torch.testing.assert_close(first @ first.T, 2 * torch.eye(len(first)), atol=1e-5, rtol=0)


def test_starts_that_are_drawn() -> None:
    keys = starting_keys(500, 8, "random", seeded())
    assert abs(float(keys.std()) - 1) < 0.05
    torch.testing.assert_close(starting_keys(500, 8, "small", seeded()), 0.01 * keys)
    with pytest.raises(UserError, match="needs the text"):
        starting_keys(3, 8, "tfidf", seeded())


@given(st.integers(1, 6), st.integers(6, 20))
def test_masks_nobody_learns(count: int, entries: int) -> None:
    assert bool((control_masks(count, entries, "all", seeded()) == 1).all())
    halves = control_masks(count, entries, "random", seeded())
    assert halves.sum(1).tolist() == [(entries + 1) // 2] * count
    own = control_masks(count, entries, "disjoint", seeded())
    assert own.shape == (count, entries)
    assert own.sum(0).max() <= 1
    assert own.sum(1).tolist() == [entries // count] * count
    one = control_masks(count, entries, "bias", seeded())
    assert torch.equal(one, torch.eye(count, entries))


def test_more_documents_than_entries_cannot_have_their_own() -> None:
    with pytest.raises(UserError, match="at least 5"):
        control_masks(5, 4, "disjoint", seeded())


def placed(texts: list[list[int]], size: int = 64, run: int = 1) -> torch.Tensor:
    return tfidf(texts, Frequencies(run).plus(texts), size)


def test_texts_that_share_words_are_represented_alike() -> None:
    texts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7], [11, 12, 13, 14, 15, 16]]
    keys = placed(texts)
    torch.testing.assert_close(keys.norm(dim=1), torch.full((3,), math.sqrt(2)))
    near, far = float(keys[0] @ keys[1]), float(keys[0] @ keys[2])
    assert near > 1
    assert abs(far) < 0.7
    torch.testing.assert_close(placed(texts), keys)
    # The same words in another order share no shingle; a text shorter than one is one.
    turned = placed([texts[0], texts[0][::-1], [1]], run=3)
    assert abs(float(turned[0] @ turned[1])) < 0.7 < float(placed([[1, 2], [2, 1]])[0].norm())


TEXT = st.lists(st.integers(0, 12), min_size=2, max_size=30)


@given(st.lists(TEXT, min_size=2, max_size=6), st.sampled_from([1, 3]))
def test_a_newcomer_is_where_it_would_be_among_the_first(texts: list[list[int]], run: int) -> None:
    """Counts of the others and its own make the counts of all: the same numbers, exactly."""
    counted = Frequencies(run).plus(texts[:-1])
    # Saved and loaded before the newcomer comes.
    again = Frequencies.from_tensor(counted.tensor(), counted.documents)
    assert again == counted
    late = tfidf(texts[-1:], again.plus(texts[-1:]), 16)
    assert torch.equal(late[0], placed(texts, 16, run)[-1])


def test_projections_depend_on_shape_and_seed_only() -> None:
    vectors = torch.randn(3, 20)
    torch.testing.assert_close(project(vectors, 5, 1), project(vectors, 5, 1))
    torch.testing.assert_close(project(vectors[:1], 5), project(vectors, 5)[:1])


def test_guidance_is_the_loss_of_the_paper() -> None:
    right, wrong = torch.tensor([1.0, 3.0]), torch.tensor([4.0, 8.0])
    own, pushed = guided_losses(right, wrong, alpha=0.5, tau=5.0)
    assert float(own) == 2
    assert float(pushed) == 0.5 * (1 + 3) / 2


def test_the_clamped_form_guides_nothing_while_it_is_clamped() -> None:
    right = torch.tensor([1.0], requires_grad=True)
    far = torch.tensor([1.0], requires_grad=True)
    _, pushed = guided_losses(right, far, alpha=0.5, tau=5.0, form="clamped")
    gradients = torch.autograd.grad(pushed, (right, far), allow_unused=True)
    assert float(gradients[0]) == 0.5
    assert float(gradients[1]) == 0
    near = torch.tensor([4.5], requires_grad=True)
    _, pushed = guided_losses(right, near, alpha=0.5, tau=5.0, form="clamped")
    assert float(torch.autograd.grad(pushed, near)[0]) == pytest.approx(-0.5)


def test_losses_of_guidance_must_belong_together() -> None:
    with pytest.raises(UserError, match="right document"):
        guided_losses(torch.zeros(2), torch.zeros(3), 1.0, 1.0)
