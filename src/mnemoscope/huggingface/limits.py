"""What the config of a model allows a memory to be, asked before any weight is read."""

from __future__ import annotations

from typing import Any

from mnemoscope.core.capacity import require
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.blocks import block_index
from mnemoscope.huggingface.config import DocumentOptions, InfiniteOptions
from mnemoscope.memories.infinite.config import Infinite


def check_options(config: Any, options: DocumentOptions | InfiniteOptions) -> None:
    """Refuse layers, windows and heads that the model of this config cannot have."""
    text = config.get_text_config(decoder=True)
    count = getattr(text, "num_hidden_layers", None)
    layers = (options.layer,) if isinstance(options, DocumentOptions) else options.layers
    for layer in layers or ():
        if count is not None:
            block_index(count, layer)
    if isinstance(options, InfiniteOptions):
        check_window(config, options, 0)
        # What has no such sizes has no blocks of the known kinds, which is told when it is loaded.
        if hasattr(text, "hidden_size") and hasattr(text, "num_attention_heads"):
            signal_config(config, options)


def check_window(config: Any, options: InfiniteOptions, mem_len: int) -> None:
    """Refuse windows, with ``mem_len`` keys before them, that are longer than the model reads."""
    longest = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    needed = options.window + mem_len
    if longest and needed > longest:
        raise UserError(
            f"window={options.window} and mem_len={options.mem_len} need {needed} positions, but "
            f"the model has {longest}: make them smaller"
        )


def signal_config(config: Any, options: InfiniteOptions) -> Infinite:
    """The ∞-former whose signal such a model reads."""
    text = config.get_text_config(decoder=True)
    signal = Infinite.make(
        vocab=2,
        width=text.hidden_size,
        heads=options.heads or text.num_attention_heads,
        chunk=options.window,
        **options.of_signal,
    )
    require(4 * signal.layer_weights, f"a signal of {signal.basis} basis functions")
    return signal
