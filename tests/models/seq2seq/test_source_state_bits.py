"""What an encoder remembers continues bit for bit from a file, whatever addresses it had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.memories.state import State
from mnemoscope.models.seq2seq.source import SourceModel

pytestmark = pytest.mark.exact
SOURCES = 13


@pytest.mark.parametrize("grad", [False, True], ids=["no grad", "grad"])
def test_a_translation_goes_on_bit_for_bit_from_a_saved_state(
    kind: str,
    make: Callable[..., SourceModel],
    draw: Callable[..., Tensor],
    tmp_path: Path,
    grad: bool,
) -> None:
    for seed, width in enumerate((10, 22, 30)):
        model = make(
            kind, dtype=torch.float32, width=2 * width if "encoder_decoder" in kind else width
        )
        rows = 1 if seed % 2 else 3
        with torch.set_grad_enabled(grad):
            live: Any = model.encode(draw(rows, 9, vocab=SOURCES, seed=seed))
            kept: Any = live
            for number, length in enumerate((1, 5, 1, 3)):
                kept.save(tmp_path / "state")
                kept = State.load(tmp_path / "state")
                words = draw(rows, length, seed=number)
                one, other = model(words, live), model(words, kept)
                assert torch.equal(one.logits, other.logits), (width, number)
                live, kept = one.state, other.state
