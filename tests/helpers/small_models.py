from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from mnemoscope.core.registry import find
from mnemoscope.models.model import SequenceModel, StreamState

M = TypeVar("M", bound=SequenceModel)
KINDS: dict[str, dict[str, Any]] = {
    "rnn": {},
    "lstm": {},
    "gru": {},
    "transformer": {"heads": 2, "positions": "rotary"},
    "transformer sinusoidal": {"heads": 2, "positions": "sinusoidal"},
    "transformer learned": {"heads": 2, "positions": "learned", "context": 64},
    "transformer none": {"heads": 2, "positions": "none"},
    "transformer short": {"heads": 2, "positions": "rotary", "context": 5},
    "transformer_xl": {"heads": 2},
    # Caches as long as the streams of these tests: what leaves them is tested on its own.
    "compressive": {"heads": 2, "compression": "mean"},
    "infinite": {"heads": 2, "basis": 6, "sticky": True},
    "sparse strided": {"heads": 2, "stride": 3, "summaries": 1},
    "sparse fixed": {"heads": 2, "pattern": "fixed", "stride": 4, "summaries": 2},
    "sparse heads": {"heads": 2, "pattern": "local|column,block|summary", "stride": 3}
    | {"summaries": 1, "context": 11},
    "sparse subblocks": {"heads": 2, "pattern": "fixed,local+summary", "stride": 4}
    | {"summaries": 1, "subblocks": 2, "context": 14},
    "sparse axes": {"heads": 2, "positions": "axes", "stride": 4, "summaries": 1, "axes": (16, 4)}
    | {"recompute": True},
}
# With these seeds every one of the models says at least three different things, greedily.
SEEDS = {
    "transformer_xl": 2,
    "compressive": 19,
    "infinite": 16,
    "sparse heads": 1,
    "sparse axes": 4,
}


def outspoken(model: M) -> M:
    """Weights this large make every token matter, so that a slip anywhere shows in the logits."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
        # Without a favourite token, greedy speech wanders.
        model.embedding.weight.mul_(3)
        model.readout.bias.zero_()
    return model.eval()


def build(kind: str, dtype: torch.dtype = torch.float64, **options: Any) -> SequenceModel:
    torch.manual_seed(SEEDS.get(kind, 33))
    values = {"vocab": 11, "width": 8, "layers": 2, **KINDS[kind], **options}
    model: SequenceModel = find("memory", kind.split()[0]).make(**values).build().to(dtype)
    return outspoken(model)


def read(
    model: SequenceModel,
    tokens: Tensor,
    lengths: list[int],
    mask: Tensor | None = None,
    state: StreamState | None = None,
) -> tuple[Tensor, StreamState]:
    logits, at = [], 0
    for length in lengths:
        part = None if mask is None else mask[:, at : at + length]
        out = model(tokens[:, at : at + length], state, part)
        logits.append(out.logits)
        state, at = out.state, at + length
    assert at == tokens.shape[1]
    assert state is not None
    return torch.cat(logits, 1), state


@pytest.fixture(scope="session", params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[..., SequenceModel]:
    """Build a small model: once for every memory, and for attention with every positions."""
    return lambda **options: build(request.param, **options)


@pytest.fixture(scope="session")
def make_named() -> Callable[..., SequenceModel]:
    """Build the small model of the memory that is named first."""
    return build


@pytest.fixture(scope="session")
def tokens_of() -> Callable[..., Tensor]:
    """Draw token ids of the given shape."""

    def draw(*shape: int, seed: int = 0) -> Tensor:
        return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))

    return draw


@pytest.fixture(scope="session")
def read_in() -> Callable[..., tuple[Tensor, StreamState]]:
    """Read tokens in segments of the given lengths; all logits, and the state at the end."""
    return read
