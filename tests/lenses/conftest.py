from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, VOCAB, tiny


@pytest.fixture(params=FAMILIES)
def theirs(request: pytest.FixtureRequest) -> Any:
    return tiny(request.param)


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(5, VOCAB, (4, 9), generator=torch.Generator().manual_seed(1))
