from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.horizon.lens import Horizon, waves
from mnemoscope.lenses.horizon.result import HorizonResult

WINDOW, AGES = 8, 6


def seen(memory: str, rows: int = 160, **options: Any) -> HorizonResult:
    torch.manual_seed(0)
    model = ms.build(memory, vocab=12, width=12, **options)
    lens = Horizon(WINDOW, channels=2, features=256)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        lens.observe(model, torch.randint(12, (rows, AGES * WINDOW), generator=generator))
    return lens.result()


def test_a_cache_keeps_all_of_what_it_holds_and_nothing_else() -> None:
    found = seen("transformer_xl", heads=2, mem_len=2 * WINDOW)
    assert found.ages.tolist() == [0, 8, 16, 24, 32, 40]
    assert (found.kept[:2] > 0.95).all()
    assert (found.kept[2:] < 0.1).all()
    assert found.directions[1].tolist() == [8, 8, 0, 0, 0, 0]
    assert (found.null < 0.1).all()
    assert (found.low <= found.kept).all()
    assert (found.kept <= found.high).all()


@pytest.mark.parametrize("contraction", [0.75, "equal"])
def test_a_signal_keeps_what_algebra_says_slow_waves_first(contraction: float | str) -> None:
    found = seen("infinite", heads=2, mem_len=0, chunk=WINDOW, basis=16, contraction=contraction)
    assert found.expected.shape == (AGES,)
    low, mean, high = found.directions
    assert (np.abs(mean - found.expected) <= 1.5).all()
    assert (low <= high).all()
    assert (found.kept[:, 0] > found.kept[:, -1] + 0.2).all()


def test_a_recurrent_state_fades() -> None:
    found = seen("rnn")
    assert found.kept[0].mean() > found.kept[-1].mean() + 0.05
    assert found.expected.size == 0


def test_what_was_seen_becomes_figures_and_rows() -> None:
    found = seen("infinite", heads=2, mem_len=0, chunk=WINDOW, basis=16)
    assert len(found.table()) == AGES * WINDOW
    assert {trace.name for trace in found.figure().data if trace.showlegend is not False} == {
        "read off the state",
        "by algebra",
        "null: states of other streams",
    }
    assert np.shape(found.frequencies().data[0].z) == (WINDOW, AGES)


@pytest.mark.parametrize("length", [2, 5, 8])
def test_waves_are_an_orthonormal_basis(length: int) -> None:
    table = waves(length)
    torch.testing.assert_close(table @ table.T, torch.eye(length).double(), rtol=0, atol=1e-12)


def test_too_little_text_for_a_horizon_is_refused() -> None:
    model = ms.build("gru", vocab=12, width=12)
    lens = Horizon(WINDOW)
    with pytest.raises(UserError, match="whole windows of 8"):
        lens.observe(model, torch.zeros(4, 12, dtype=torch.long))
    lens.observe(model, torch.randint(12, (4, 16)))
    with pytest.raises(UserError, match="one lens per length"):
        lens.observe(model, torch.randint(12, (4, 24)))
    with pytest.raises(UserError, match="4 batches or more"):
        lens.result()
    for _ in range(3):
        lens.observe(model, torch.randint(12, (4, 16)))
    with pytest.raises(UserError, match="rows are too few"):
        lens.result()
    with pytest.raises(UserError, match="at least 2"):
        Horizon(1)
