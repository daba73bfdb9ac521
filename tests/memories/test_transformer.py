import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mnemoscope.memories.transformer.attention import attend
from mnemoscope.memories.transformer.state import AttentionState, append

ROWS, HEADS, SIZE = 2, 2, 4
segments = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def slowly(queries: Tensor, keys: Tensor, values: Tensor, seen: list[list[list[int]]]) -> Tensor:
    """Softmax attention in loops; ``seen[row][query]`` lists the places it may look at."""
    found = torch.zeros_like(queries)
    for row in range(queries.shape[0]):
        for head in range(queries.shape[1]):
            for query in range(queries.shape[2]):
                places = seen[row][query]
                scores = [queries[row, head, query] @ keys[row, head, s] for s in places]
                chances = [torch.exp(score / math.sqrt(SIZE)) for score in scores]
                whole = sum(chances)
                found[row, head, query] = sum(
                    chance / whole * values[row, head, s]
                    for chance, s in zip(chances, places, strict=True)
                )
    return found


def read(
    lengths: list[int],
    projected: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None = None,
    resets: dict[int, list[int]] | None = None,
) -> tuple[Tensor, AttentionState]:
    """Append and attend segment by segment; ``resets`` names rows that start anew before one."""
    state, found, at = None, [], 0
    for index, length in enumerate(lengths):
        queries, keys, values = (tensor[:, :, at : at + length] for tensor in projected)
        if state is not None and resets is not None:
            state = state.reset(resets.get(index, []))
        part = None if mask is None else mask[:, at : at + length]
        state = append(state, keys, values, part)
        found.append(attend(queries, state))
        at += length
    assert state is not None
    return torch.cat(found, 2), state


def gradients(found: Tensor, real: Tensor, of: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    weighed = found * draw(*found.shape, seed=5) * real[:, None, :, None]
    return torch.autograd.grad(weighed.sum(), of)


@settings(max_examples=20)
@given(lengths=segments, grad=st.booleans())
def test_attention_is_softmax_over_all_that_was_read(lengths: list[int], grad: bool) -> None:
    total = sum(lengths)
    q, k, v = (draw(ROWS, HEADS, total, SIZE, seed=seed).requires_grad_(grad) for seed in range(3))
    seen = [[list(range(query + 1)) for query in range(total)] for _ in range(ROWS)]
    with torch.set_grad_enabled(grad):
        found, state = read(lengths, (q, k, v))
        expected = slowly(q, k, v, seen)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert state.length == total
    assert state.visible is None
    if grad:
        real = torch.ones(ROWS, total)
        torch.testing.assert_close(
            gradients(found, real, (q, k, v)),
            gradients(expected, real, (q, k, v)),
            rtol=1e-10,
            atol=1e-12,
        )


@settings(max_examples=30)
@given(lengths=segments, grad=st.booleans(), data=st.data())
def test_padding_and_forgotten_tokens_are_not_looked_at(
    lengths: list[int], grad: bool, data: st.DataObject
) -> None:
    total = sum(lengths)
    row = st.lists(st.booleans(), min_size=total, max_size=total)
    mask = data.draw(st.lists(row, min_size=ROWS, max_size=ROWS), "mask")
    anew = st.lists(st.integers(0, ROWS - 1), unique=True)
    resets = data.draw(st.dictionaries(st.integers(1, 3), anew), "rows that start anew")

    seen: list[list[list[int]]] = [[[] for _ in range(total)] for _ in range(ROWS)]
    for r in range(ROWS):
        known: list[int] = []
        starts = {sum(lengths[:index]) for index, rows in resets.items() if r in rows}
        for place in range(total):
            known = [] if place in starts else known
            known = [*known, place] if mask[r][place] else known
            seen[r][place] = known

    q, k, v = (draw(ROWS, HEADS, total, SIZE, seed=seed).requires_grad_(grad) for seed in range(3))
    real = torch.tensor(mask)
    with torch.set_grad_enabled(grad):
        found, state = read(lengths, (q, k, v), real, resets)
        expected = slowly(q, k, v, seen)
    torch.testing.assert_close(
        found * real[:, None, :, None], expected * real[:, None, :, None], rtol=0, atol=1e-12
    )
    assert found.isfinite().all()
    assert state.visible is not None
    if grad and real.any():
        torch.testing.assert_close(
            gradients(found, real, (q, k, v)),
            gradients(expected, real, (q, k, v)),
            rtol=1e-10,
            atol=1e-12,
        )


def test_a_mask_that_hides_nothing_changes_no_attention() -> None:
    q, k, v = (draw(ROWS, HEADS, 9, SIZE, seed=seed) for seed in range(3))
    plain, _ = read([4, 1, 4], (q, k, v))
    masked, _ = read([4, 1, 4], (q, k, v), torch.ones(ROWS, 9, dtype=torch.bool))
    torch.testing.assert_close(plain, masked, rtol=0, atol=1e-12)


def test_the_first_mask_may_come_late() -> None:
    keys = draw(ROWS, HEADS, 5, SIZE, seed=1)
    state = append(None, keys[:, :, :3], keys[:, :, :3])
    mask = torch.tensor([[True, False], [True, True]])
    state = append(state, keys[:, :, 3:], keys[:, :, 3:], mask)
    assert state.visible is not None
    assert state.visible.tolist() == [[True] * 4 + [False], [True] * 5]
    state = append(state, keys[:, :, :1], keys[:, :, :1])
    assert state.visible is not None
    assert state.visible.tolist() == [[True] * 4 + [False, True], [True] * 6]


@pytest.mark.parametrize("dropout", [0.0, 0.9])
def test_dropout_drops_only_when_asked(dropout: float) -> None:
    q, k, v = (draw(ROWS, HEADS, 9, SIZE, seed=seed) for seed in range(3))
    torch.manual_seed(0)
    found = attend(q, append(None, k, v), dropout=dropout)
    assert torch.equal(found, attend(q, append(None, k, v))) == (dropout == 0)


def test_padding_sees_itself_instead_of_nothing() -> None:
    q, k, v = (draw(ROWS, HEADS, 3, SIZE, seed=seed) for seed in range(3))
    mask = torch.tensor([[False, False, True], [True, True, True]])
    found = attend(q, append(None, k, v, mask))
    # Softmax over nothing is 0 / 0; which backend says NaN and which says 0 must not matter.
    torch.testing.assert_close(found[0, :, :2], v[0, :, :2], rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_bounded_context_looks_back_so_far_and_no_further(data: st.DataObject) -> None:
    context = data.draw(st.integers(1, 6), "context")
    pieces = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5), "pieces")
    total = sum(pieces)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99), "seed"))
    queries, keys, values = torch.randn(3, 2, 2, total, 4, generator=generator, dtype=torch.float64)

    expected = torch.empty_like(queries)
    for t in range(total):
        first = max(0, t - context + 1)
        scores = (queries[:, :, t, None] * keys[:, :, first : t + 1]).sum(-1) / 2
        weights = scores.softmax(-1)[..., None]
        expected[:, :, t] = (weights * values[:, :, first : t + 1]).sum(2)

    with torch.set_grad_enabled(data.draw(st.booleans(), "gradients")):
        state, start, found = None, 0, []
        for length in pieces:
            here = slice(start, start + length)
            state = append(state, keys[:, :, here], values[:, :, here])
            found.append(attend(queries[:, :, here], state, context))
            state = state.last(context - 1)
            assert state.length == min(start + length, context - 1)
            start += length
    torch.testing.assert_close(torch.cat(found, 2), expected, atol=1e-12, rtol=0)
