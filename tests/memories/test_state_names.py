"""Files name a state by a short word that outlives the place of its class."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

import mnemoscope
from mnemoscope.core.errors import UserError
from mnemoscope.core.stored import FORMAT, OLD_STATES, STATES, state_kind, state_name
from mnemoscope.memories.lstm import LSTMState
from mnemoscope.memories.rnn import RNNState
from mnemoscope.memories.state import State, StreamState, read_tensors, write_tensors


@dataclass(frozen=True)
class Foreign(State):
    kept: Tensor


def states_of(kind: type[State]) -> Iterator[type[State]]:
    for inner in kind.__subclasses__():
        yield inner
        yield from states_of(inner)


def test_every_state_of_ours_has_a_name_and_every_name_a_state() -> None:
    walked = pkgutil.walk_packages(mnemoscope.__path__, "mnemoscope.")
    modules = {one.name for one in walked if "__main__" not in one.name}
    for name in modules:
        importlib.import_module(name)
    ours = {kind for kind in states_of(State) if kind.__module__ in modules}
    assert {state_name(kind) for kind in ours} == set(STATES)
    assert all(":" not in name and state_kind(name) in ours for name in STATES)


def test_what_version_0_1_called_them_is_still_understood() -> None:
    later = {"cache-layer", "slots"}
    assert sorted(OLD_STATES.values()) == sorted(STATES.keys() - later)
    assert state_kind("mnemoscope.memory.lstm:LSTMState") is LSTMState


def test_no_path_of_a_class_is_written(tmp_path: Path) -> None:
    state = StreamState((RNNState(torch.zeros(2, 3)),), None, "{}")
    state.save(tmp_path / "state")
    _, about = read_tensors(tmp_path / "state")
    assert json.loads(about["state"])["kind"] == "stream"
    assert "mnemoscope" not in about["state"]
    assert about["format"] == str(FORMAT)


def test_a_state_of_somebody_else_goes_by_its_path(tmp_path: Path) -> None:
    Foreign(torch.ones(2, 1)).save(tmp_path / "state")
    _, about = read_tensors(tmp_path / "state")
    assert json.loads(about["state"])["kind"] == f"{__name__}:Foreign"
    assert isinstance(State.load(tmp_path / "state"), Foreign)


def test_a_state_loads_where_its_class_was_not_imported_yet(tmp_path: Path) -> None:
    LSTMState(torch.ones(2, 3), torch.ones(2, 3)).save(tmp_path / "state")
    code = "from mnemoscope.memories.state import State; print(State.load('state').nbytes)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "48"


@pytest.mark.parametrize("found", [str(FORMAT + 1), "99999999999999999999", "new", "-1", ""])
def test_what_a_later_version_wrote_is_told(tmp_path: Path, found: str) -> None:
    about = {"state": '{"kind": "rnn", "fields": {"hidden": {"kind": "tensor"}}}', "format": found}
    write_tensors(tmp_path / "state", {"hidden": torch.zeros(2, 3)}, about)
    with pytest.raises(UserError, match="install a newer mnemoscope"):
        State.load(tmp_path / "state")


def test_an_owner_that_lacks_a_later_option_is_the_same_model() -> None:
    model = mnemoscope.build("gru", vocab=5, width=4)
    state = model(torch.zeros(1, 2, dtype=torch.long)).state
    owner = json.loads(state.owner)
    usual = model.config.defaults()
    unsaid = next(name for name in owner if name in usual and owner[name] == usual[name])
    del owner[unsaid]
    older = StreamState(state.layers, state.count, json.dumps(owner))
    assert model(torch.zeros(1, 1, dtype=torch.long), older).logits.shape == (1, 1, 5)
    other = StreamState(state.layers, state.count, json.dumps({**owner, "layers": 7}))
    with pytest.raises(UserError, match="layers is 7 there"):
        model(torch.zeros(1, 1, dtype=torch.long), other)
