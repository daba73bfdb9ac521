"""Whatever comes out of a file lies where torch's own tensors do, not where it lay in the file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mnemoscope.memories.state import own, read_tensors, write_tensors
from mnemoscope.training import checkpoint
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import train

pytestmark = pytest.mark.exact


def test_weights_moments_and_memories_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("how now brown cow " * 40)
    options = {"source": str(tmp_path / "text.txt"), "unit": "characters", "steps": 3, "batch": 2}
    options |= {"checkpoint_every": 2, "segment": 5, "width": 7, "held_out": 0.3}
    run = train(RunConfig.of("text", "gru", options), tmp_path / "run", silent=True)
    found = checkpoint.newest(run.checkpoints)
    assert found is not None
    memory = found.states[0]
    assert memory is not None
    read = [*found.model.values(), *found.optimizer.values(), *(one for _, one in memory.tensors())]
    assert len(read) > 10
    assert all(tensor.data_ptr() % 64 == 0 for tensor in read)
    assert all(weight.data_ptr() % 64 == 0 for weight in run.model().parameters())


def test_a_file_full_of_odd_sizes(tmp_path: Path) -> None:
    written = {f"t{size}": torch.randn(size) for size in range(1, 40)}
    write_tensors(tmp_path / "it", written, {})
    read, _ = read_tensors(tmp_path / "it")
    assert all(torch.equal(read[name], tensor) for name, tensor in written.items())
    assert all(tensor.data_ptr() % 64 == 0 for tensor in read.values())


def test_own_is_contiguous_and_shares_nothing() -> None:
    large = torch.arange(60.0).view(3, 4, 5)
    view = large[:, 1:3].transpose(0, 1)
    copy = own(view)
    assert torch.equal(copy, view)
    assert copy.is_contiguous()
    assert copy.untyped_storage().nbytes() == copy.nbytes
