from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_models import outspoken
from torch import Tensor

from mnemoscope.core.registry import find
from mnemoscope.models.seq2seq.source import SourceModel

VOCAB, SOURCE_VOCAB = 11, 13
KINDS: dict[str, dict[str, Any]] = {
    "vector": {},
    "vector lstm": {"cell": "lstm", "layers": 2},
    "vector rnn": {"cell": "rnn", "both_ways": False},
    "bahdanau": {},
    "bahdanau lstm": {"cell": "lstm", "layers": 2},
    "luong": {},
    "luong feeding": {"feeding": True, "layers": 2},
    "luong feeding lstm": {"feeding": True, "cell": "lstm"},
    "encoder_decoder": {"heads": 2},
    "transformer post": {"heads": 2, "norm": "post"},
}


def build(kind: str, dtype: torch.dtype = torch.float64, **options: Any) -> SourceModel:
    torch.manual_seed(8)
    values = {"vocab": VOCAB, "source_vocab": SOURCE_VOCAB, "width": 8, **KINDS[kind], **options}
    model: SourceModel = find("translator", kind.split()[0]).make(**values).build().to(dtype)
    return outspoken(model)


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def make() -> Callable[..., SourceModel]:
    """Build the small model of the kind that is named."""
    return build


@pytest.fixture(scope="session")
def draw() -> Callable[..., Tensor]:
    """Draw ids below ``vocab`` of the given shape."""

    def ids(*shape: int, vocab: int = VOCAB, seed: int = 0) -> Tensor:
        return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))

    return ids


@pytest.fixture(scope="session")
def padded() -> tuple[Tensor, Tensor]:
    """Three sources of 5, 2 and 4 words, and which of them are there."""
    source = torch.randint(SOURCE_VOCAB, (3, 5), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(5) < torch.tensor([[5], [2], [4]])
    return source, mask
