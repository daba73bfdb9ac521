"""Weights from Hugging Face models that have the same shape as ours."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.memories.transformer.config import Transformer
from mnemoscope.models.model import SequenceModel


def from_gpt2(source: Any) -> SequenceModel:
    """Return our Transformer with the weights of a `transformers` GPT2LMHeadModel; same logits."""
    theirs = source.config
    if theirs.model_type != "gpt2" or not hasattr(source, "lm_head"):
        raise UserError(f"from_gpt2 needs a GPT2LMHeadModel, not {type(source).__name__}")
    odd = {
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    }
    for name, expected in odd.items():
        if getattr(theirs, name) != expected:
            raise UserError(f"this GPT-2 has {name}={getattr(theirs, name)!r}, not {expected!r}")
    inner = theirs.n_inner or 4 * theirs.n_embd
    config = Transformer.make(
        vocab=theirs.vocab_size,
        width=theirs.n_embd,
        layers=theirs.n_layer,
        heads=theirs.n_head,
        positions="learned",
        context=theirs.n_positions,
        mlp_ratio=inner / theirs.n_embd,
        tied=True,
    )
    model = config.build().to(source.lm_head.weight.dtype)
    weights = {name.removeprefix("transformer."): w for name, w in source.state_dict().items()}

    ours = {
        "embedding.weight": weights["wte.weight"],
        "positions.table.weight": weights["wpe.weight"],
        "norm.weight": weights["ln_f.weight"],
        "norm.bias": weights["ln_f.bias"],
        "readout.weight": weights["wte.weight"],
        "readout.bias": torch.zeros_like(model.readout.bias),
    }
    pairs = {
        "norm1": "ln_1",
        "attention.qkv": "attn.c_attn",
        "attention.out": "attn.c_proj",
        "norm2": "ln_2",
        "expand": "mlp.c_fc",
        "contract": "mlp.c_proj",
    }
    for index in range(theirs.n_layer):
        for mine, name in pairs.items():
            weight = weights[f"h.{index}.{name}.weight"]
            # GPT-2 stores its linear maps transposed ("Conv1D").
            ours[f"layers.{index}.{mine}.weight"] = weight.t() if weight.dim() == 2 else weight
            ours[f"layers.{index}.{mine}.bias"] = weights[f"h.{index}.{name}.bias"]
    model.load_state_dict(ours)
    return model.train(source.training)
