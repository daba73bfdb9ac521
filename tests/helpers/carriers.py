"""Every memory in a small size, such that what they carry has left each of its stores at least
once; and tiny causal models of `transformers` with every kind of cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mnemoscope as ms

HEADS = {"width": 8, "heads": 2, "layers": 2}
MEMORIES: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("rnn", {"width": 8, "layers": 2}),
    "lstm": ("lstm", {"width": 8, "layers": 2}),
    "gru": ("gru", {"width": 8, "layers": 2}),
    "transformer": ("transformer", HEADS),
    "attention window": ("transformer", HEADS | {"context": 9}),
    "attention learned": ("transformer", HEADS | {"positions": "learned", "context": 64}),
    "sparse strided": ("sparse", HEADS | {"stride": 4, "summaries": 1}),
    "sparse fixed": ("sparse", HEADS | {"pattern": "fixed", "stride": 4, "summaries": 2}),
    "transformer_xl": ("transformer_xl", HEADS | {"mem_len": 6}),
    "compressive": ("compressive", HEADS | {"mem_len": 4, "compressed_len": 3, "rate": 2}),
    "infinite": ("infinite", HEADS | {"mem_len": 4, "chunk": 4, "basis": 6}),
    "infinite sticky": (
        "infinite",
        HEADS | {"mem_len": 4, "chunk": 4, "basis": 6, "sticky": True, "bins": 5},
    ),
    "all in a row": (
        "infinite",
        HEADS | {"mem_len": 4, "compressed_len": 4, "rate": 2, "chunk": 2, "basis": 6},
    ),
}
VOCAB = 60
ATTACHED: dict[str, dict[str, Any]] = {
    "infinite": {"window": 4, "mem_len": 2, "basis": 6},
    "transformer_xl": {"window": 4, "mem_len": 3},
}
CAUSAL = ("gpt2", "llama", "mistral", "gemma3", "mamba", "mamba2", "rwkv", "jamba")


def causal(family: str) -> Any:
    """A tiny causal language model whose weights are large enough for every token to matter."""
    tf = pytest.importorskip("transformers")
    plain = {"vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 2}
    plain |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    heads = plain | {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32}
    own: dict[str, dict[str, Any]] = {
        "gpt2": {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
        | {"bos_token_id": 1, "eos_token_id": 2},
        "llama": heads,
        "mistral": heads | {"sliding_window": 5},
        "gemma3": heads
        | {"head_dim": 8, "sliding_window": 6}
        | {"layer_types": ["sliding_attention", "full_attention"]},
        "mamba": plain | {"state_size": 4, "intermediate_size": 32, "time_step_rank": 4},
        "mamba2": plain
        | {"state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
        "rwkv": plain
        | {"attention_hidden_size": 16, "intermediate_size": 32, "context_length": 64},
        "jamba": heads
        | {"num_experts": 2, "mamba_d_state": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
    }
    kind = "gemma3_text" if family == "gemma3" else family
    torch.manual_seed(0)
    config = tf.AutoConfig.for_model(kind, **own[family])
    model = tf.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(6)
    return model.eval()


def words(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def document_memory() -> Any:
    """A document memory with documents one and two, and large weights."""
    memory = ms.attach(causal("llama"), "documents", entries=6, key_dim=4)
    memory.start(memory.read({"one": [5, 6, 7], "two": [8, 9, 10]}))
    torch.manual_seed(0)
    for weight in memory.store.parameters():
        weight.data.normal_(std=2.0)
    return memory


def infinite_memory(kind: str = "infinite") -> Any:
    """An attached memory of all windows read before, with large weights where it has any."""
    memory = ms.attach(causal("gpt2"), kind, **ATTACHED[kind])
    torch.manual_seed(1)
    for weight in memory.readers.parameters():
        weight.data.normal_(std=0.5)
    return memory
