"""Load a causal language model of `transformers` and its tokenizer; safetensors only."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnemoscope.errors import UserError


def load_causal(name: str) -> Any:
    """A causal language model from a folder or by name; a folder asks nothing of a network."""
    _quiet()
    from transformers import AutoModelForCausalLM

    with _explained(name):
        return AutoModelForCausalLM.from_pretrained(
            name, use_safetensors=True, **_options(name)
        ).eval()


def architecture(name: str) -> str:
    """What the config of a model says that its weights are, such as "LlamaForCausalLM"."""
    _quiet()
    from transformers import AutoConfig

    with _explained(name):
        config = AutoConfig.from_pretrained(name, **_options(name))
        return " ".join(getattr(config, "architectures", None) or [])


def load_model(name: str) -> tuple[Any, Any]:
    """The same with its tokenizer."""
    model = load_causal(name)
    from transformers import AutoTokenizer

    with _explained(name):
        return model, AutoTokenizer.from_pretrained(name, **_options(name))


def _options(name: str) -> dict[str, bool]:
    return {"local_files_only": Path(name).is_dir(), "trust_remote_code": False}


def _quiet() -> None:
    try:
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise UserError(
            "Hugging Face models need the extra: pip install 'mnemoscope[huggingface]'"
        ) from error
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if os.environ.get("CI") or not sys.stderr.isatty():
        disable_progress_bar()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    # Not there, no network, damaged weights, an unknown architecture, a package that is missing.
    except (OSError, ValueError, KeyError, ImportError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"cannot load {name!r} as a causal language model: {first}") from error
