"""A model that is looked at does not train: dropout off, and everything as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
