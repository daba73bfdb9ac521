from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mnemoscope.memories.transformer.state import AttentionState, append

ROWS, HEADS, SIZE = 2, 1, 2


@pytest.fixture(autouse=True, scope="module")
def poison() -> Iterator[None]:
    """Fill fresh memory with NaN, so that reading beyond what was written shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def draw(length: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    both = torch.randn(2, ROWS, HEADS, length, SIZE, generator=generator)
    return both[0], both[1]


# (which state is continued, by how many tokens, in which mode)
steps = st.lists(
    st.tuples(
        st.integers(0, 100),
        st.integers(0, 45),
        st.sampled_from(["grad", "no_grad", "inference"]),
        st.sampled_from(["append", "append", "append", "select", "detach"]),
    ),
    max_size=14,
)


@settings(max_examples=150)
@given(steps=steps)
def test_a_state_once_returned_never_changes(steps: list[tuple[int, int, str, str]]) -> None:
    first = draw(3, 0)
    states = [append(None, *first)]
    plain = [(first[0].clone(), first[1].clone())]
    modes = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}
    for seed, (which, length, mode, action) in enumerate(steps, start=1):
        index = which % len(states)
        state, (keys, values) = states[index], plain[index]
        with modes[mode]():
            if action == "select":
                states.append(state.select([1, 0]))
                plain.append((keys[[1, 0]], values[[1, 0]]))
            elif action == "detach":
                states.append(state.detach())
                plain.append((keys, values))
            else:
                new = draw(length, seed)
                states.append(append(state, *new))
                plain.append((torch.cat((keys, new[0]), 2), torch.cat((values, new[1]), 2)))
    for state, (keys, values) in zip(states, plain, strict=True):
        assert torch.equal(state.keys, keys)
        assert torch.equal(state.values, values)


def test_a_second_continuation_leaves_the_first_alone() -> None:
    with torch.no_grad():
        trunk = append(append(None, *draw(3, 0)), *draw(2, 1))
        one = append(trunk, *draw(4, 2))
        before = one.keys.clone(), one.values.clone()
        two = append(trunk, *draw(4, 3))
    assert torch.equal(one.keys, before[0])
    assert torch.equal(one.values, before[1])
    assert torch.equal(two.keys[:, :, 5:], draw(4, 3)[0])
    assert one.keys.data_ptr() == trunk.keys.data_ptr()
    assert two.keys.data_ptr() != trunk.keys.data_ptr()


def test_a_long_stream_is_copied_only_when_its_room_doubles() -> None:
    buffers = set()
    with torch.no_grad():
        state = append(None, *draw(1, 0))
        whole = [draw(1, 0)]
        for seed in range(1, 1000):
            whole.append(draw(1, seed))
            state = append(state, *whole[-1])
            buffers.add(state.keys.data_ptr())
    assert torch.equal(state.keys, torch.cat([keys for keys, _ in whole], 2))
    assert torch.equal(state.values, torch.cat([values for _, values in whole], 2))
    # Rooms of 64, 130, 262, 526 and 1054 tokens.
    assert len(buffers) <= 5
    assert state.nbytes == 2 * ROWS * HEADS * 1000 * SIZE * 4


def test_one_segment_may_be_longer_than_any_room() -> None:
    with torch.no_grad():
        state = append(append(None, *draw(1, 0)), *draw(300, 1))
        state = append(state, *draw(301, 2))
    expected = torch.cat([draw(length, seed)[0] for seed, length in enumerate((1, 300, 301))], 2)
    assert torch.equal(state.keys, expected)


def test_gradients_reach_every_segment() -> None:
    parts = [tuple(t.requires_grad_() for t in draw(2, seed)) for seed in range(3)]
    state: AttentionState | None = None
    for keys, values in parts:
        state = append(state, keys, values)
    assert state is not None
    weights = torch.arange(6.0).view(1, 1, 6, 1)
    (weights * (state.keys + 2 * state.values)).sum().backward()
    for index, (keys, values) in enumerate(parts):
        assert keys.grad is not None
        assert values.grad is not None
        expected = weights[:, :, 2 * index : 2 * index + 2].expand_as(keys)
        assert torch.equal(keys.grad, expected)
        assert torch.equal(values.grad, 2 * expected)


def test_a_state_from_inference_mode_goes_on_outside_it() -> None:
    with torch.inference_mode():
        state = append(append(None, *draw(2, 0)), *draw(2, 1))
    with torch.no_grad():
        after = append(state, *draw(2, 2))
    assert torch.equal(after.keys, torch.cat([draw(2, seed)[0] for seed in range(3)], 2))
    assert not after.keys.is_inference()
