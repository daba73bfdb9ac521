"""A stream continues bit for bit from a saved state, whatever the addresses its tensors had.

On some processors a matrix product rounds differently when its inputs begin at another address.
A live state may look into the middle of a larger tensor; a loaded one never does.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.memories.state import State
from mnemoscope.models.model import SequenceModel

pytestmark = pytest.mark.exact
Make = Callable[..., SequenceModel]


@pytest.mark.parametrize("grad", [False, True], ids=["no grad", "grad"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_a_state_that_went_through_a_file_goes_on_bit_for_bit(
    make: Make, tokens_of: Callable[..., Tensor], tmp_path: Path, padded: bool, grad: bool
) -> None:
    for seed in range(4):
        draw = random.Random(seed)
        dtype = [torch.float32, torch.float32, torch.float64, torch.bfloat16][seed]
        model = make(dtype=dtype, outputs=30, **_awkward(make, seed))
        rows = 1 if seed % 2 else 3
        live: Any = None
        kept: Any = None
        for number in range(5):
            # One token is a product with a vector; forty fill the blocks of an attention kernel.
            length = draw.choice([1, 1, 2, 7, 40])
            tokens = tokens_of(rows, length, seed=10 * seed + number)
            mask = tokens_of(rows, length, seed=number) > 2 if padded else None
            with torch.set_grad_enabled(grad):
                one, other = model(tokens, live, mask), model(tokens, kept, mask)
            assert torch.equal(one.logits, other.logits), (seed, number, length)
            live = one.state
            other.state.save(tmp_path / "state")
            kept = State.load(tmp_path / "state")


def _awkward(make: Make, seed: int) -> dict[str, Any]:
    """A width whose rows, or those of its heads, begin at addresses of all kinds."""
    config = make().config
    longer: dict[str, Any] = {"context": 512} if config.limit is not None else {}
    if getattr(config, "positions", "none") == "axes":
        longer = {"axes": (128, 4)}
    if not hasattr(config, "heads"):
        return {"width": [5, 13, 30, 27][seed]}
    if getattr(config, "positions", "none") == "rotary":
        return {"width": [12, 20, 28, 44][seed]}
    # Short queues, so that tokens leave them, are squeezed and written to the signal.
    short = {"mem_len": 5, "compressed_len": 3, "rate": 2, "chunk": 7, "basis": 9}
    chosen = {name: value for name, value in short.items() if hasattr(config, name)}
    return {"width": [10, 22, 14, 26][seed], **longer, **chosen}


def test_where_a_tensor_lies_in_its_file_changes_no_bit(
    make: Make, tokens_of: Callable[..., Tensor], tmp_path: Path
) -> None:
    model = make(dtype=torch.float32, outputs=30, **_awkward(make, 1))
    with torch.no_grad():
        model(tokens_of(1, 40), None).state.save(tmp_path / "state")
        found = []
        for moved in range(0, 64, 4):
            _move(tmp_path / "state", tmp_path / "moved", moved)
            state = State.load(tmp_path / "moved")
            assert all(one.data_ptr() % 64 == 0 for _, one in state.tensors() if one.numel())
            found.append(model(tokens_of(1, 1, seed=1), state).logits)
    assert all(torch.equal(found[0], one) for one in found)


def _move(path: Path, to: Path, places: int) -> None:
    """Write a safetensors file whose numbers begin so many bytes later."""
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header, data = whole[8 : 8 + length], whole[8 + length :]
    to.write_bytes(struct.pack("<Q", length + places) + header + b" " * places + data)
