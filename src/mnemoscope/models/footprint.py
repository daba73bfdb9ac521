"""About how many parameters a model has, read off its config. Imports no torch.

Biases and norms are left out: what counts is whether a model fits into a machine at all.
"""

from __future__ import annotations

from mnemoscope.core.capacity import require
from mnemoscope.models.config import (
    GRU,
    LSTM,
    Infinite,
    ModelConfig,
    Recurrent,
    Relative,
    Sparse,
    Squeezing,
    Transformer,
    TransformerBase,
)
from mnemoscope.models.encoder_config import Encoder
from mnemoscope.models.translation_config import EncoderDecoder, RecurrentPair, Sourced

_NUMBER = 4  # bytes of a float32
_CELLS = {"rnn": 1, "gru": 3, "lstm": 4}


def parameters(config: ModelConfig) -> int:
    """About how many numbers a model learns."""
    return config.layers * _in_a_layer(config) + config.width * _table_rows(config)


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


def _in_a_layer(config: ModelConfig) -> int:
    """Numbers in the matrices of a layer; none are known of a model from elsewhere."""
    square = config.width**2
    match config:
        case LSTM() | GRU():
            return 2 * _CELLS[config.memory] * square
        case Recurrent():
            return 2 * square
        case RecurrentPair():
            return 4 * _CELLS[config.cell] * square
        case EncoderDecoder():
            return (12 + 4 * config.mlp_ratio) * square
        case Encoder():
            return (4 + 2 * config.mlp_ratio) * square
        case TransformerBase():
            return 4 * square + 2 * config.width * config.inner + _memory(config)
    return 0


def _memory(config: TransformerBase) -> int:
    """What a memory adds to the matrices of attention."""
    square = config.width**2
    count = square if isinstance(config, Relative) else 0
    if (
        isinstance(config, Squeezing)
        and config.compressed_len
        and config.compression == "convolution"
    ):
        count += config.rate * square
    if isinstance(config, Infinite):
        # Beside its matrices, those that fit the signal, which nobody learns.
        count += 3 * square + config.basis * ((config.samples or config.basis) + config.chunk)
    return count


def _table_rows(config: ModelConfig) -> int:
    """Vectors of one width each: tokens read, tokens said, learned positions."""
    said = config.outputs or config.vocab
    match config:
        case Sourced():
            shared = {"shared": 0, "tied": config.source_vocab}
            return config.vocab + shared.get(config.embeddings, config.source_vocab + said)
        case Encoder():
            return config.vocab + (config.limit or 0)
        case Transformer():
            return config.vocab + (0 if config.tied else said) + (config.limit or 0)
        case Sparse():
            places = sum(config.grid) if config.positions == "axes" else 0
            return config.vocab + (0 if config.tied else said) + places
        case TransformerBase():
            return config.vocab + (0 if config.tied else said)
    return config.vocab + said
