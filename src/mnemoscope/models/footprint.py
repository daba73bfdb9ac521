"""About how many parameters a model has, read off its config. Imports no torch.

Biases and norms are left out: what counts is whether a model fits into a machine at all.
"""

from __future__ import annotations

from mnemoscope.core.capacity import require
from mnemoscope.memories.config import ModelConfig

_NUMBER = 4  # bytes of a float32


def parameters(config: ModelConfig) -> int:
    """About how many numbers a model learns."""
    return config.layers * config.layer_weights + config.width * config.table_rows


def check(config: ModelConfig) -> None:
    """Raise `UserError` when the weights alone are more than the machine holds."""
    require(_NUMBER * parameters(config), describe(config))


def training_bytes(config: ModelConfig, rows: int, tokens: int) -> int:
    """About what training holds: weights, gradients, two moments, and activations."""
    kept = rows * tokens * (config.layers * config.width + (config.outputs or config.vocab))
    return _NUMBER * (4 * parameters(config) + kept)


def describe(config: ModelConfig) -> str:
    """The model by what makes it large."""
    layers = f"{config.layers} layer{'s' if config.layers > 1 else ''}"
    return f"a model of width {config.width}, {layers} and {config.vocab} token ids"
