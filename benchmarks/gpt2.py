"""The same weights twice: a random GPT-2 of Hugging Face, and ours that was read from it."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.huggingface import from_gpt2
from mnemoscope.models.model import SequenceModel

LAYERS, HEADS, VOCAB, CONTEXT = 4, 4, 512, 512
# Wider than usual, or a random model says the same token for ever and equality proves little.
SPREAD = 0.2


def pair(width: int) -> tuple[SequenceModel, Any]:
    """Return (ours, theirs), without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=CONTEXT,
        n_embd=width,
        n_layer=LAYERS,
        n_head=HEADS,
        initializer_range=SPREAD,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        # No token ends a text, so that nobody stops early.
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(config)
    return from_gpt2(theirs), theirs
