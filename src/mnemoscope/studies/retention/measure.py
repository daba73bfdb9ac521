"""What of the study `retention` runs models: what a trained one retains, what continuing costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from mnemoscope.data.recall import Recall
from mnemoscope.lenses.retention.cost import cost
from mnemoscope.lenses.retention.episodes import RetentionOptions
from mnemoscope.lenses.retention.lens import Retention
from mnemoscope.lenses.retention.result import Points
from mnemoscope.memories.config import ModelConfig
from mnemoscope.open import open_stream
from mnemoscope.studies.retention.result import Examined, Size
from mnemoscope.studies.sizes import count
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run


def examine(folder: Path, asked: RetentionOptions) -> Examined:
    """Ask a trained model everything."""
    run = Run.open(folder)
    model = run.model().to(join(run.config.training.device).device)
    assert isinstance(run.config.task, Recall)
    found = Retention(open_stream(model), run.config.task, asked).ask()
    return Examined(
        curves={
            curve.along: Points(**{one.name: getattr(curve, one.name) for one in fields(Points)})
            for curve in found.curves
        },
        half_life=found.half_life.value,
        horizon=found.horizon.value,
        capacity=found.capacity,
        bytes=found.bytes,
        flops=found.flops,
        choosing=run.valid_loss,
        seconds=run.seconds,
    )


def measure_size(value: int, model: ModelConfig, lengths: Sequence[int], segment: int) -> Size:
    """Parameters of a model, and what it costs to continue, by how much was read."""
    measured = cost(open_stream(model.build()), lengths, segment)
    return Size(value, count(model), measured)
