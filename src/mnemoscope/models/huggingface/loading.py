"""Load a causal language model of `transformers` and its tokenizer; safetensors only."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from mnemoscope.errors import UserError


def load_model(name: str) -> tuple[Any, Any]:
    """A causal language model and its tokenizer, from a folder or by name; safetensors only."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise UserError(
            "transformers is not installed: pip install 'mnemoscope[huggingface]'"
        ) from error
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if os.environ.get("CI") or not sys.stderr.isatty():
        disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            name, use_safetensors=True, trust_remote_code=False
        )
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    # Not there, no network, no weights of this kind, an unknown architecture.
    except (OSError, ValueError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load the model {name}: {first}") from error
    return model.eval(), tokenizer
