"""Small models of Hugging Face families with random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

FAMILIES = ("gpt2", "gpt_neox", "llama", "bert", "t5")
LAYERS, WIDTH, VOCAB = 3, 16, 50


def tiny(family: str, **options: Any) -> Any:
    """A small Hugging Face model with random weights, built from its config."""
    transformers = pytest.importorskip("transformers")
    shape: dict[str, dict[str, Any]] = {
        "gpt2": {"n_layer": LAYERS, "n_embd": WIDTH, "n_head": 2, "n_positions": 32},
        "gpt_neox": {"num_hidden_layers": LAYERS, "hidden_size": WIDTH, "num_attention_heads": 2},
        "llama": {"num_hidden_layers": LAYERS, "hidden_size": WIDTH, "num_attention_heads": 4},
        "bert": {"num_hidden_layers": LAYERS, "hidden_size": WIDTH, "num_attention_heads": 2},
        "t5": {"num_layers": LAYERS, "d_model": WIDTH, "d_kv": 8, "num_heads": 2, "d_ff": 32},
    }
    values = shape[family] | {"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": 1}
    if family in ("gpt_neox", "llama", "bert"):
        values["intermediate_size"] = 32
    if family == "llama":
        values["num_key_value_heads"] = 2
    config = transformers.AutoConfig.for_model(family, **values, **options)
    torch.manual_seed(0)
    return transformers.AutoModel.from_config(config).eval()


@pytest.fixture(params=FAMILIES)
def theirs(request: pytest.FixtureRequest) -> Any:
    """A tiny model of each family."""
    return tiny(request.param)


@pytest.fixture
def tokens() -> torch.Tensor:
    """A few short texts."""
    return torch.randint(5, VOCAB, (4, 9), generator=torch.Generator().manual_seed(1))
