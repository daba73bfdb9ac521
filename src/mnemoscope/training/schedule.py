"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math

from mnemoscope.training.config import Training


def learning_rate(step: int, config: Training) -> float:
    """Learning rate at ``step`` (the first is 0): a linear rise, then the schedule.

    cosine        falls to a tenth of the highest at the last step
    inverse_sqrt  lr · √(warmup / step), as in Vaswani 2017 up to the constant
    """
    warmup = min(config.warmup, config.steps - 1)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    if config.schedule == "cosine":
        done = (step - warmup) / max(1, config.steps - 1 - warmup)
        return config.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))
    if config.schedule == "inverse_sqrt":
        return config.lr * math.sqrt(max(1, warmup) / max(1, step))
    return config.lr
