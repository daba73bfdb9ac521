"""Hugging Face models: their weights in our models, our memories in theirs.

Names are fetched when they are first used: configs can be read without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mnemoscope.huggingface.gpt2 import from_gpt2 as from_gpt2


def __getattr__(name: str) -> Any:
    if name == "from_gpt2":
        from mnemoscope.huggingface.gpt2 import from_gpt2

        return from_gpt2
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
