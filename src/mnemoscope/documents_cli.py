"""What ``mnemoscope documents …`` does; the options are read in `cli`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope.errors import UserError

if TYPE_CHECKING:
    from mnemoscope.models.huggingface.documents import DocumentMemory


def load_model(name: str) -> tuple[Any, Any]:
    """A causal language model and its tokenizer, from a folder or by name; safetensors only."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise UserError(
            "document memories need transformers: pip install 'mnemoscope[huggingface]'"
        ) from error
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        model = AutoModelForCausalLM.from_pretrained(name, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(name)
    # Not there, no network, no weights of this kind, an unknown architecture.
    except (OSError, ValueError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load the model {name}: {first}") from error
    return model.eval(), tokenizer


def open_memory(folder: Path, model: str | None) -> DocumentMemory:
    """The memory in a folder, on the model it was learnt on or on the one that is named."""
    from mnemoscope.models.huggingface.documents import DocumentMemory, read_saved

    name = model or read_saved(folder)[1]["model"]
    if not name:
        raise UserError(f"the memory in {folder} does not say which model it is for: --model NAME")
    return DocumentMemory.load(folder, *load_model(name))


def recite(memory: DocumentMemory, document: str | None, prompt: str, length: int) -> str:
    """What the model says after a prompt under a document, the likeliest word at every place."""
    import torch

    ids = torch.tensor([memory.tokenizer.encode(prompt)])
    if not ids.numel():
        raise UserError("the prompt is empty: give at least one word")
    with memory.document(document):
        said = memory.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            do_sample=False,
            pad_token_id=memory.tokenizer.pad_token_id or 0,
        )
    return str(memory.tokenizer.decode(said[0].tolist(), skip_special_tokens=True))
