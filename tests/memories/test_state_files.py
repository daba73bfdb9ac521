from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.memories.gru import GRUState
from mnemoscope.memories.lstm import LSTMState
from mnemoscope.memories.rnn import RNNState
from mnemoscope.memories.state import State, write_tensors
from mnemoscope.memories.transformer.state import AttentionState, append


@dataclass(frozen=True)
class Stack(State):
    layers: tuple[State, ...]
    count: Tensor | None
    owner: str


def vectors(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 10
    return drawn.to(dtype)


def same(left: State, right: State) -> bool:
    ours, theirs = dict(left.tensors()), dict(right.tensors())
    return (
        type(left) is type(right)
        and list(ours) == list(theirs)
        and all(ours[name].dtype == theirs[name].dtype for name in ours)
        and all(torch.equal(ours[name], theirs[name]) for name in ours)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("states")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru", "transformer", "padded", "stack"])
def test_what_is_saved_comes_back(kind: str, dtype: torch.dtype, folder: Path) -> None:
    flat, deep = vectors(3, 4, dtype=dtype), vectors(3, 2, 5, 4, dtype=dtype)
    states: dict[str, State] = {
        "rnn": RNNState(flat),
        "lstm": LSTMState(flat, flat + 1),
        "gru": GRUState(flat),
        "transformer": AttentionState(deep, deep + 1),
        "padded": AttentionState(deep, deep + 1, vectors(3, 5) > 0),
    }
    states["stack"] = Stack(tuple(states.values()), torch.arange(3), '{"memory": "ü"}')
    state, path = states[kind], folder / f"{kind}-{dtype}"
    state.save(path)
    loaded = State.load(path)
    assert same(loaded, state)
    if isinstance(loaded, AttentionState):
        assert (loaded.visible is None) == (kind == "transformer")
    if isinstance(loaded, Stack):
        assert loaded.owner == '{"memory": "ü"}'


def test_none_and_shared_tensors_come_back(folder: Path) -> None:
    zeros = torch.zeros(2, 3)
    state = Stack((LSTMState(zeros, zeros), RNNState(zeros.t()[:2])), None, "")
    state.save(folder / "shared")
    loaded = State.load(folder / "shared")
    assert same(loaded, state)
    assert isinstance(loaded, Stack)
    assert loaded.count is None


def test_a_view_into_a_larger_buffer_is_saved_without_the_buffer(folder: Path) -> None:
    with torch.no_grad():
        state = append(None, vectors(1, 2, 3, 8), vectors(1, 2, 3, 8))
        state = append(state, vectors(1, 2, 500, 8), vectors(1, 2, 500, 8))
    state = AttentionState(state.keys[:, :, :4], state.values[:, :, :4])
    state.save(folder / "view")
    assert (folder / "view").stat().st_size < state.nbytes + 1000
    assert same(State.load(folder / "view"), state)


def test_saving_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    RNNState(vectors(2, 3)).save(tmp_path / "state")
    GRUState(vectors(4, 5)).save(tmp_path / "state")
    assert same(State.load(tmp_path / "state"), GRUState(vectors(4, 5)))
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_saving_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        RNNState(vectors(2, 3)).save(tmp_path / "no such folder" / "state")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        RNNState(vectors(2, 3)).save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.fixture(scope="module")
def written(folder: Path) -> bytes:
    state = AttentionState(vectors(2, 1, 3, 2), vectors(2, 1, 3, 2), torch.ones(2, 3).bool())
    Stack((state,), torch.arange(2), "owner").save(folder / "whole")
    return (folder / "whole").read_bytes()


@given(data=st.data())
def test_one_flipped_bit_anywhere_is_noticed(
    data: st.DataObject, written: bytes, folder: Path
) -> None:
    place = data.draw(st.integers(0, len(written) - 1))
    damaged = bytearray(written)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    (folder / "flipped").write_bytes(damaged)
    with pytest.raises(UserError, match="damaged"):
        State.load(folder / "flipped")


@pytest.mark.parametrize(
    ("true", "false"),
    [(b"[2,1,3,2]", b"[1,2,3,2]"), (b"F32", b"I32"), (b"owner", b"other"), (b"null", b"1234")],
)
def test_a_header_that_still_makes_sense_is_noticed_too(
    true: bytes, false: bytes, folder: Path
) -> None:
    state = AttentionState(vectors(2, 1, 3, 2), vectors(2, 1, 3, 2))
    Stack((state,), None, "owner").save(folder / "true")
    written = (folder / "true").read_bytes()
    assert true in written
    (folder / "false").write_bytes(written.replace(true, false))
    with pytest.raises(UserError, match="damaged"):
        State.load(folder / "false")


@given(data=st.data())
def test_a_truncated_file_is_noticed(data: st.DataObject, written: bytes, folder: Path) -> None:
    (folder / "cut").write_bytes(written[: data.draw(st.integers(0, len(written) - 1))])
    with pytest.raises(UserError, match="damaged or not a safetensors file"):
        State.load(folder / "cut")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .*absent"):
        State.load(tmp_path / "absent")
    with pytest.raises(UserError, match="there is no file"):
        State.load(tmp_path)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Once upon a time there was a file that was no state. " * 9)
    with pytest.raises(UserError, match="not a safetensors file"):
        State.load(tmp_path / "text")
    save_file({"weight": torch.ones(2)}, tmp_path / "foreign")
    with pytest.raises(UserError, match="foreign"):
        State.load(tmp_path / "foreign")
    write_tensors(tmp_path / "weights", {"weight": torch.ones(2)}, {})
    with pytest.raises(UserError, match=r"no state; write one with state\.save"):
        State.load(tmp_path / "weights")


def test_a_state_nobody_here_knows(tmp_path: Path) -> None:
    write_tensors(tmp_path / "odd", {}, {"state": '{"kind": "their.memory:Odd", "fields": {}}'})
    with pytest.raises(UserError, match=r"import their\.memory before loading"):
        State.load(tmp_path / "odd")
