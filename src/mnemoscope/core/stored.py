"""What files call things: short names of states and a format, the same wherever a class moves."""

from __future__ import annotations

from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import load

# Of states, checkpoints and memories on disk; raised when an older version could not read them.
FORMAT = 1


def check_format(found: Any, what: str = "it") -> None:
    """Raise `UserError` for what a later version wrote; what came before has format 0."""
    if str(found) not in map(str, range(FORMAT + 1)):
        raise UserError(
            f"{what} has format {str(found)[:20]}, this version knows up to {FORMAT}: install a "
            "newer mnemoscope"
        )


# States by the names under which files know them: short, and the same wherever the class moves.
STATES = {
    "stream": "mnemoscope.memories.state:StreamState",
    "rnn": "mnemoscope.memories.rnn:RNNState",
    "lstm": "mnemoscope.memories.lstm:LSTMState",
    "gru": "mnemoscope.memories.gru:GRUState",
    "keys-values": "mnemoscope.memories.transformer.state:AttentionState",
    "layer-inputs": "mnemoscope.memories.transformer_xl.state:LayerInputs",
    "signal": "mnemoscope.memories.infinite.signal:ContinuousState",
    "relative": "mnemoscope.memories.transformer_xl.state:LayerState",
    "sparse": "mnemoscope.memories.sparse.state:SparseState",
    "sparse-keys-values": "mnemoscope.memories.sparse.state:SparseKV",
    "source-vectors": "mnemoscope.models.seq2seq.cross_attention:SourceState",
    "recurrent-decoder": "mnemoscope.models.seq2seq.cross_attention:AttentiveState",
    "cross-attention": "mnemoscope.models.seq2seq.cross_attention:CrossState",
    "transformers": "mnemoscope.huggingface.stream:HuggingFaceState",
    "document": "mnemoscope.huggingface.stream:DocumentState",
    "cache-layer": "mnemoscope.huggingface.caches.stream:CompressedState",
    "window": "mnemoscope.huggingface.infinite.windows:WindowState",
    "window-layer": "mnemoscope.huggingface.infinite.windows:WindowLayerState",
    "slots": "mnemoscope.huggingface.infinite.slots:SlotState",
}

# What version 0.1 wrote into files instead of the names above: the paths that classes had then.
OLD_STATES = {
    "mnemoscope.memory.state:StreamState": "stream",
    "mnemoscope.memory.rnn:RNNState": "rnn",
    "mnemoscope.memory.lstm:LSTMState": "lstm",
    "mnemoscope.memory.gru:GRUState": "gru",
    "mnemoscope.memory.attention:AttentionState": "keys-values",
    "mnemoscope.memory.cache:CacheState": "layer-inputs",
    "mnemoscope.memory.continuous:ContinuousState": "signal",
    "mnemoscope.models.relative:LayerState": "relative",
    "mnemoscope.memory.kept:SparseState": "sparse",
    "mnemoscope.memory.kept:Kept": "sparse-keys-values",
    "mnemoscope.memory.words:WordsState": "source-vectors",
    "mnemoscope.memory.words:AttentiveState": "recurrent-decoder",
    "mnemoscope.memory.words:CrossState": "cross-attention",
    "mnemoscope.models.huggingface.stream:HuggingFaceState": "transformers",
    "mnemoscope.models.huggingface.stream:DocumentState": "document",
    "mnemoscope.models.huggingface.windows:WindowState": "window",
    "mnemoscope.models.huggingface.windows:LayerPast": "window-layer",
}


def state_name(kind: type) -> str:
    """What files call a class of states: its name here, or its path if it is somebody else's."""
    path = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, ours in STATES.items() if ours == path), path)


def state_kind(name: str) -> type | None:
    """The class of states that a file means, if it is one of ours."""
    path = STATES.get(OLD_STATES.get(name, name))
    if path is None:
        return None
    found: type = load(path)
    return found
