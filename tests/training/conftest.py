from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mnemoscope.training.config import RunConfig
from mnemoscope.training.run import Run

SMALL = {
    "width": 8,
    "batch": 4,
    "warmup": 2,
    "lr": 1e-2,
    "device": "cpu",
    "evaluate_batches": 1,
}


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A text of some 2 700 characters."""
    path = tmp_path_factory.mktemp("story") / "story.txt"
    path.write_text(" ".join(f"{n * n} sheep" for n in range(250)))
    return str(path)


@pytest.fixture
def small(story: str) -> Callable[..., RunConfig]:
    """Return a config of a tiny run; ``text`` stands for a text by characters."""

    def make(task: str = "copy", memory: str = "gru", **options: Any) -> RunConfig:
        own: dict[str, Any] = {"lag": 4} if task == "copy" else {}
        if task == "text":
            own = {"source": story, "unit": "characters", "segment": 8}
        if memory == "transformer":
            own["heads"] = 2
        return RunConfig.of(task, memory, {**SMALL, **own, **options})

    return make


@pytest.fixture
def weights() -> Callable[[Path], dict[str, torch.Tensor]]:
    def read(folder: Path) -> dict[str, torch.Tensor]:
        return dict(Run.open(folder).model().state_dict())

    return read


@pytest.fixture
def measured() -> Callable[[Path], list[dict[str, Any]]]:
    """Return a run's metrics without the only thing in them that may differ, the time."""

    def read(folder: Path) -> list[dict[str, Any]]:
        entries = Run.open(folder).metrics()
        return [{k: v for k, v in entry.items() if k != "seconds"} for entry in entries]

    return read
