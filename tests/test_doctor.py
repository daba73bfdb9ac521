from __future__ import annotations

import pytest
import torch

from mnemoscope import doctor
from mnemoscope.memories.state import State

pytestmark = pytest.mark.exact


def test_the_doctor_tries_whether_states_and_runs_go_on_bit_for_bit() -> None:
    found = doctor._exactness()
    assert found.well, found.found
    assert "bit for bit" in found.found
    assert f"{torch.get_num_threads()} threads" in found.found


def test_the_doctor_names_what_goes_on_to_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = State.load

    def rounded(path: str) -> State:
        state = whole(path)
        return state.map(lambda one: one * (1 + 1e-6) if one.is_floating_point() else one)

    monkeypatch.setattr(State, "load", staticmethod(rounded))
    found = doctor._exactness()
    assert not found.well
    assert "only to rounding" in found.found
    assert "gru" in found.found
