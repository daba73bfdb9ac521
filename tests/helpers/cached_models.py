"""Small causal models with rotary positions, and streams whose caches are plainly masked.

Shapes: B rows, H key-value heads, T new tokens, S tokens read so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mnemoscope.huggingface.attention_interface import intercept_attention

FAMILIES = ("llama", "gpt_neox", "qwen2")
VOCAB = 40

# layer, row, head, attention of the new tokens (T, S), held so far, tokens read -> held now
Policy = Callable[[int, int, int, Tensor, list[int], int], list[int]]


def causal(family: str, layers: int = 2, width: int = 32, **options: Any) -> Any:
    """A model of four heads, of which two share keys where the family can."""
    transformers = pytest.importorskip("transformers")
    shape = {
        "vocab_size": VOCAB,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "bos_token_id": None,
        "eos_token_id": None,
        # Large enough for attention to be anything but even.
        "initializer_range": 0.4,
    }
    if family != "gpt_neox":
        shape["num_key_value_heads"] = 2
    config = transformers.AutoConfig.for_model(family, **(shape | options))
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def some_tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCAB, (rows, length), generator=generator)


@torch.no_grad()
def masked_reading(model: Any, segments: list[Tensor], policy: Policy) -> list[Tensor]:
    """Logits of segments (B, T) read one after the other with all keys there.

    Every head attends to itself and to what the policy lets it hold, the rest is masked.
    """
    held: dict[tuple[int, int, int], list[int]] = {}

    def listener(
        module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> Tensor:
        layer = int(module.layer_idx)  # type: ignore[arg-type]
        rows, heads, new, width = query.shape
        length, shared = key.shape[2], heads // key.shape[1]
        seen = torch.zeros(rows, heads, new, length, dtype=torch.bool)
        for row in range(rows):
            for head in range(heads):
                before = held.get((layer, row, head // shared), [])
                for step in range(new):
                    seen[row, head, step, before] = True
                    seen[row, head, step, length - new : length - new + step + 1] = True
        keys = key.repeat_interleave(shared, 1)
        scale = options.get("scaling") or width**-0.5
        scores = (query @ keys.transpose(2, 3) * scale).masked_fill(~seen, -torch.inf)
        weights = scores.softmax(-1).unflatten(1, (-1, shared)).mean(2)  # (B, H, T, S)
        for row in range(rows):
            for head in range(heads // shared):
                before = held.get((layer, row, head), [])
                now = before + list(range(length - new, length))
                got = weights[row, head]
                held[layer, row, head] = policy(layer, row, head, got, now, length)
        return torch.zeros_like(scores).masked_fill(~seen, torch.finfo(scores.dtype).min)

    from transformers import DynamicCache

    cache, logits = DynamicCache(config=model.config), []
    for tokens in segments:
        with intercept_attention(model, listener):
            logits.append(model(input_ids=tokens, past_key_values=cache).logits)
    return logits
