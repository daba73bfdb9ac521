"""Hugging Face models: their weights in our models, our memories in theirs.

Names are fetched when they are first used: configs can be read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory as DocumentMemory
    from mnemoscope.huggingface.gpt2 import from_gpt2 as from_gpt2
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory as InfiniteMemory

_HOME = {
    "DocumentMemory": "documents.memory",
    "InfiniteMemory": "infinite.memory",
    "from_gpt2": "gpt2",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
