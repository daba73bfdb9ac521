"""Files that somebody made: their digest is right, what they say is not."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from complaints import complaint
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mnemoscope.memories.lstm import LSTMState
from mnemoscope.memories.state import (
    MOST_HEADER,
    MOST_TENSORS,
    State,
    StreamState,
    read_tensors,
    write_tensors,
)

LSTM = "mnemoscope.memory.lstm:LSTMState"
STREAM = "mnemoscope.memory.state:StreamState"
TENSOR = {"kind": "tensor"}
CELL: dict[str, Any] = {"kind": LSTM, "fields": {"hidden": TENSOR, "cell": TENSOR}}
NONE = {"kind": "value", "value": None}


def stream(**fields: Any) -> Any:
    whole = {
        "layers": {"kind": "tuple", "items": [CELL]},
        "count": NONE,
        "owner": {"kind": "value", "value": ""},
    }
    return {"kind": STREAM, "fields": {**whole, **fields}}


def deep(levels: int) -> str:
    """Streams in streams, as JSON: Python itself could not write so many."""
    before, after = json.dumps(stream(layers={"kind": "tuple", "items": ["here"]})).split('"here"')
    return before * levels + json.dumps(stream()) + after * levels


def cell_without(name: str) -> Any:
    return {"kind": LSTM, "fields": {k: v for k, v in CELL["fields"].items() if k != name}}


VECTORS = {"layers.0.hidden": torch.zeros(2, 3), "layers.0.cell": torch.zeros(2, 3)}
PAIR = {"hidden": torch.zeros(2, 3), "cell": torch.zeros(2, 3)}

CRAFTED: dict[str, tuple[Any, dict[str, Tensor]]] = {
    "no JSON": ("{", VECTORS),
    "brackets without end": ("[" * 100_000, VECTORS),
    "a number without end": ("9" * 10_000, VECTORS),
    "null": (None, VECTORS),
    "a list": ([], VECTORS),
    "no kind": ({}, VECTORS),
    "a kind that is a list": ({"kind": []}, VECTORS),
    "a kind that is a number": ({"kind": 3}, VECTORS),
    "an unknown kind": ({"kind": "os:system", "fields": {}}, VECTORS),
    "the base": ({"kind": "mnemoscope.memory.state:State", "fields": {}}, {}),
    "a lone tensor": (TENSOR, {"": torch.zeros(2)}),
    "a lone value": ({"kind": "value", "value": 3}, {}),
    "a lone tuple": ({"kind": "tuple", "items": []}, {}),
    "no fields": ({"kind": LSTM}, PAIR),
    "fields that are a list": ({"kind": LSTM, "fields": []}, PAIR),
    "a field too many": ({"kind": LSTM, "fields": {**CELL["fields"], "more": TENSOR}}, PAIR),
    "a field too few": (cell_without("cell"), {"hidden": torch.zeros(2, 3)}),
    "something beside": ({**CELL, "more": 1}, PAIR),
    "a value for a tensor": (
        {"kind": LSTM, "fields": {"hidden": {"kind": "value", "value": 1}, "cell": TENSOR}},
        {"cell": torch.zeros(2, 3)},
    ),
    "a state for a tensor": (
        {"kind": LSTM, "fields": {"hidden": CELL, "cell": TENSOR}},
        {"hidden.hidden": torch.zeros(2, 3), "hidden.cell": torch.zeros(2, 3), **PAIR},
    ),
    "a tensor for a text": (stream(owner=TENSOR), {**VECTORS, "owner": torch.zeros(2)}),
    "a number for a text": (stream(owner={"kind": "value", "value": 1}), VECTORS),
    "a list for a text": (stream(owner={"kind": "value", "value": []}), VECTORS),
    "a value for layers": (stream(layers={"kind": "value", "value": None}), {}),
    "items that are a dict": (stream(layers={"kind": "tuple", "items": {}}), {}),
    "a text among layers": (
        stream(layers={"kind": "tuple", "items": [{"kind": "value", "value": "a"}]}),
        {},
    ),
    "an endless stack": (deep(5000), {}),
    "a high stack": (deep(20), {}),
    "a missing tensor": (stream(), {"layers.0.hidden": torch.zeros(2, 3)}),
    "a tensor left over": (stream(), {**VECTORS, "more": torch.zeros(2, 3)}),
    "two batches": (stream(), {**VECTORS, "layers.0.cell": torch.zeros(3, 3)}),
    "two widths": (stream(), {**VECTORS, "layers.0.cell": torch.zeros(2, 4)}),
    "no rows": (stream(), {**VECTORS, "layers.0.cell": torch.zeros(())}),
    "an axis too many": (stream(), {**VECTORS, "layers.0.cell": torch.zeros(2, 3, 1)}),
    "whole numbers": (stream(), {**VECTORS, "layers.0.cell": torch.zeros(2, 3).long()}),
    "a count below zero": (stream(count=TENSOR), {**VECTORS, "count": torch.tensor([-1, 2])}),
    "a count without end": (stream(count=TENSOR), {**VECTORS, "count": torch.tensor([1, 2**62])}),
    "a count in floats": (stream(count=TENSOR), {**VECTORS, "count": torch.zeros(2)}),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    plan, tensors = CRAFTED[name]
    text = plan if isinstance(plan, str) else json.dumps(plan)
    write_tensors(tmp_path / "it", tensors, {"state": text})
    said = complaint(lambda: State.load(tmp_path / "it"))
    assert said is not None
    assert said.startswith(f"{tmp_path / 'it'} holds no state that can be ")
    assert "\n" not in said
    assert len(said) < 500 + len(str(tmp_path))


def test_what_was_saved_before_a_field_with_a_default_came_still_loads(tmp_path: Path) -> None:
    kind = "mnemoscope.memory.attention:AttentionState"
    plan = {"kind": kind, "fields": {"keys": TENSOR, "values": TENSOR}}
    pair = {"keys": torch.zeros(2, 1, 3, 4), "values": torch.zeros(2, 1, 3, 4)}
    write_tensors(tmp_path / "old", pair, {"state": json.dumps(plan)})
    assert State.load(tmp_path / "old").batch == 2


def framed(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}


def test_a_header_of_very_many_tensors_costs_little(tmp_path: Path) -> None:
    entry = json.dumps(EMPTY)
    header = ",".join(f'"{place}":{entry}' for place in range(200_000))
    (tmp_path / "many").write_bytes(framed(f"{{{header}}}".encode()))
    began = time.process_time()
    said = complaint(lambda: read_tensors(tmp_path / "many"))
    assert said is not None
    assert f"at most {MOST_TENSORS} tensors" in said
    assert time.process_time() - began < 5


def test_a_header_without_end_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.write(struct.pack("<Q", 1 << 35))
        file.truncate(1 << 36)
    said = complaint(lambda: read_tensors(tmp_path / "sparse"))
    assert said is not None
    assert f"more than {MOST_HEADER} bytes" in said


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path) -> None:
    nothing = torch.zeros(0)
    many = {str(place): nothing for place in range(MOST_TENSORS)}
    assert "too many tensors" in str(complaint(lambda: write_tensors(tmp_path / "a", many, {})))
    text = {"about": "x" * MOST_HEADER}
    assert "too much said" in str(complaint(lambda: write_tensors(tmp_path / "a", {}, text)))
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in str(complaint(lambda: State.load(tmp_path / "pipe")))
    assert "there is no file" in str(complaint(lambda: State.load(tmp_path)))
    assert "there is no file" in str(complaint(lambda: State.load(tmp_path / "absent")))
    assert "cannot read" in str(complaint(lambda: State.load(f"{tmp_path}/a\0b")))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crafted")


@given(content=st.binary(max_size=300))
def test_any_bytes_are_refused(content: bytes, home: Path) -> None:
    for bytes_ in (content, framed(content), framed(content[:100], content[100:])):
        (home / "bytes").write_bytes(bytes_)
        said = complaint(lambda: State.load(home / "bytes"))
        assert said is not None
        assert said.startswith(f"{home / 'bytes'} ")


SIZES = st.integers(-2, 9) | st.sampled_from([2**31, 2**62, 2**63, 2**64, 2**100])
PLAIN = st.none() | st.booleans() | SIZES | st.floats() | st.text(max_size=5)
KINDS = st.sampled_from(["F32", "F64", "F16", "BF16", "I64", "BOOL", "F8_E4M3", "F4", "C64", "X"])
ENTRY = st.fixed_dictionaries(
    {
        "dtype": KINDS | PLAIN,
        "shape": st.lists(SIZES, max_size=4) | PLAIN,
        "data_offsets": st.tuples(SIZES, SIZES) | PLAIN,
    }
)
HEADER = st.dictionaries(
    st.sampled_from(["a", "b", "__metadata__", "layers.0.hidden"]) | st.text(max_size=4),
    ENTRY | st.dictionaries(st.text(max_size=4), PLAIN, max_size=3) | PLAIN,
    max_size=4,
)


@given(header=HEADER, data=st.binary(max_size=64))
def test_any_header_is_refused(header: Any, data: bytes, home: Path) -> None:
    (home / "header").write_bytes(framed(json.dumps(header).encode(), data))
    assert complaint(lambda: State.load(home / "header")) is not None


PLANS = st.recursive(
    st.sampled_from([TENSOR, CELL, NONE, {"kind": "value", "value": ""}]) | PLAIN,
    lambda inner: (
        st.builds(
            lambda kind, fields: {"kind": kind, "fields": fields},
            st.sampled_from([LSTM, STREAM, "mnemoscope.memory.gru:GRUState"]) | st.text(max_size=3),
            st.dictionaries(
                st.sampled_from(["hidden", "cell", "layers", "count", "owner"]), inner, max_size=4
            )
            | inner,
        )
        | st.builds(lambda items: {"kind": "tuple", "items": items}, st.lists(inner, max_size=3))
        | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from([*VECTORS, *PAIR, "count", "owner", "layers.0"])
SHAPES = st.lists(st.integers(0, 3), max_size=3)
TENSORS = st.dictionaries(
    NAMES,
    st.builds(torch.zeros, SHAPES, dtype=st.sampled_from([torch.float32, torch.int64, torch.bool])),
    max_size=3,
)


@given(plan=PLANS, tensors=TENSORS)
def test_any_description_is_a_state_or_refused(plan: Any, tensors: Any, home: Path) -> None:
    write_tensors(home / "plan", tensors, {"state": json.dumps(plan)})
    said = complaint(lambda: State.load(home / "plan"))
    if said is None:
        state = State.load(home / "plan")
        assert isinstance(state, StreamState | LSTMState) or type(state).__name__ == "GRUState"
        assert dict(state.tensors()).keys() == tensors.keys()
        # Whatever can be loaded can be picked from, reset, and saved again.
        if tensors and state.batch:
            state.reset([0]).select([0]).detach().save(home / "again")
            State.load(home / "again")
