from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.memories.state import State, tensor_bytes
from mnemoscope.memories.transformer.state import AttentionState

ROWS = 4


@dataclass(frozen=True)
class Shelf(State):
    books: Tensor
    lent: Tensor | None = None


@dataclass(frozen=True)
class Library(State):
    shelves: tuple[Shelf, ...]
    visitors: Tensor
    name: str


def library() -> Library:
    shelves = (
        Shelf(torch.arange(1.0, 1 + 6 * ROWS).view(ROWS, 2, 3)),
        Shelf(torch.full((ROWS, 5), 7.0, dtype=torch.bfloat16), torch.ones(ROWS, dtype=torch.bool)),
    )
    return Library(shelves, torch.arange(1, 1 + ROWS), "Alexandria")


def test_nbytes_counts_every_tensor_and_nothing_else() -> None:
    assert library().nbytes == ROWS * (6 * 4 + 5 * 2 + 1 + 8)
    assert Shelf(torch.zeros(3, 0)).nbytes == 0


def test_tensors_have_dotted_names() -> None:
    names = [name for name, _ in library().tensors()]
    assert names == ["shelves.0.books", "shelves.1.books", "shelves.1.lent", "visitors"]


def test_map_reaches_every_tensor_and_keeps_the_rest() -> None:
    before = library()
    after = before.map(torch.zeros_like)
    assert all(not tensor.any() for _, tensor in after.tensors())
    assert (after.name, after.shelves[0].lent) == ("Alexandria", None)
    assert type(after) is Library
    assert all(tensor.any() for _, tensor in before.tensors())


def test_a_state_is_frozen() -> None:
    frozen: Any = library()
    with pytest.raises(FrozenInstanceError):
        frozen.name = "Pergamon"


def test_detach_cuts_the_gradient_and_shares_the_numbers() -> None:
    books = torch.ones(2, 3, requires_grad=True)
    before = Shelf(books * 2)
    after = before.detach()
    assert before.books.requires_grad
    assert not after.books.requires_grad
    assert after.books.data_ptr() == before.books.data_ptr()


def test_to_moves_every_tensor() -> None:
    moved = library().to("meta")
    assert {tensor.device.type for _, tensor in moved.tensors()} == {"meta"}
    assert moved.nbytes == library().nbytes


@given(rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=7), as_tensor=st.booleans())
def test_select_picks_rows_in_order_and_repeats_them(rows: list[int], as_tensor: bool) -> None:
    before = library()
    after = before.select(torch.tensor(rows) if as_tensor else rows)
    assert after.batch == len(rows)
    for (_, old), (_, new) in zip(before.tensors(), after.tensors(), strict=True):
        for place, row in enumerate(rows):
            assert torch.equal(new[place], old[row])


@given(fresh=st.lists(st.booleans(), min_size=ROWS, max_size=ROWS))
def test_reset_clears_the_named_rows_only(fresh: list[bool]) -> None:
    before = library()
    rows = [row for row, chosen in enumerate(fresh) if chosen]
    forms = (rows, torch.tensor(rows, dtype=torch.long), fresh, torch.tensor(fresh))
    for form in forms:
        after = before.reset(form)
        for (_, old), (_, new) in zip(before.tensors(), after.tensors(), strict=True):
            for row in range(ROWS):
                expected = torch.zeros_like(old[row]) if fresh[row] else old[row]
                assert torch.equal(new[row], expected)
    assert before.shelves[0].books.all()


@pytest.mark.parametrize("rows", [[ROWS], [-1], [0, 99]])
def test_reset_of_a_row_that_does_not_exist(rows: list[int]) -> None:
    with pytest.raises(UserError, match=rf"row {rows[-1]} does not exist in a batch of {ROWS}"):
        library().reset(rows)


def test_reset_with_a_mask_of_another_length() -> None:
    with pytest.raises(UserError, match=rf"shape \(2,\) for a batch of {ROWS}"):
        library().reset([True, False])


def test_reset_hides_attention_tokens_instead_of_attending_to_zeros() -> None:
    state = AttentionState(torch.ones(3, 2, 5, 4), torch.ones(3, 2, 5, 4))
    after = state.reset([1])
    assert after.visible is not None
    assert after.visible.all(1).tolist() == [True, False, True]
    assert after.visible.any(1).tolist() == [True, False, True]
    assert after.keys.flatten(1).any(1).tolist() == [True, False, True]
    assert state.visible is None


def test_a_tensor_cannot_hide_in_a_list() -> None:
    @dataclass(frozen=True)
    class Sloppy(State):
        parts: list[Tensor]

    with pytest.raises(TypeError, match="parts is a list"):
        _ = Sloppy([torch.zeros(2)]).nbytes


class _Halved(torch.Tensor):
    """Says that it is numbers of four bytes, and holds bytes and a scale."""

    codes: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, codes: Tensor, scale: Tensor):
        made = Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)
        made.codes, made.scale = codes, scale
        return made

    def __tensor_flatten__(self):
        return ["codes", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_bytes_of_a_tensor_that_wraps_others_are_those_inside():
    wrapped = _Halved(torch.zeros(3, 8, dtype=torch.uint8), torch.zeros(3, 1, dtype=torch.half))
    assert wrapped.numel() * wrapped.element_size() == 96
    assert tensor_bytes(wrapped) == 24 + 6
