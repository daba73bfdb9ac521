"""The fresh-process check: the proof that a saved state is all that a model needs.

The state after some tokens is saved, a process that knows nothing but the model's name and that
file is started, and the logits of what follows are compared, bit for bit.

Shapes: B rows, T tokens before and T' after.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.core.trust import trusted, trusting
from mnemoscope.memories.state import State, StreamState, read_tensors, write_tensors
from mnemoscope.open import open_stream


@dataclass(frozen=True)
class Case:
    """A model that `open_stream` can open by name, tokens (B, T), and what follows (B, T')."""

    source: str
    tokens: Tensor
    more: Tensor
    segment: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


def check_in_fresh_process(cases: Sequence[Case]) -> list[tuple[StreamState, bool]]:
    """Return the state of each case after ``tokens``, and whether a fresh process continues from it
    to the same logits, bit for bit. All of them share one process.
    """
    with tempfile.TemporaryDirectory() as folder:
        states, here = [], []
        for number, case in enumerate(cases):
            stream = open_stream(case.source, **case.options)
            state = stream.read(case.tokens, segment=case.segment).state
            home = Path(folder) / str(number)
            home.mkdir()
            state.save(home / "state.safetensors")
            about = {"source": case.source, "segment": case.segment, "options": case.options}
            write_tensors(
                home / "more.safetensors", {"tokens": case.more}, {"case": json.dumps(about)}
            )
            here.append(stream.read(case.more, state, case.segment).logits.cpu())
            states.append(state)
        done = subprocess.run(
            # -P: the working folder is nobody's to import from.
            [sys.executable, "-P", "-m", __name__, folder, *trusted()],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise UserError(f"a fresh process could not continue: {done.stderr[-800:]}")
        there = [
            read_tensors(Path(folder) / str(number) / "logits.safetensors")[0]["logits"]
            for number in range(len(cases))
        ]
    same = [a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(here, there, strict=True)]
    return list(zip(states, same, strict=True))


def _continue(home: Path) -> None:
    tokens, metadata = read_tensors(home / "more.safetensors")
    try:
        case = json.loads(metadata["case"])
        source, segment, options = case["source"], case["segment"], dict(case["options"])
        more = tokens["tokens"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{home} holds no case that was written here") from error
    # First, because it brings along the kinds of states that it knows.
    stream = open_stream(source, **options)
    state = State.load(home / "state.safetensors")
    if not isinstance(state, StreamState):
        raise UserError(f"{home} holds a {type(state).__name__}, not the state of a stream")
    logits = stream.read(more, state.to(stream.device), segment).logits
    write_tensors(home / "logits.safetensors", {"logits": logits}, {})


def _main(folder: str) -> None:
    try:
        for home in sorted(Path(folder).iterdir()):
            _continue(home)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    with trusting(sys.argv[2:]):
        _main(sys.argv[1])
