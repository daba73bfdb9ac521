"""A small Llama that learns to continue with what it has read before, for caches to be tried on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from mnemoscope.core.progress import progress
from mnemoscope.core.seeds import derive
from mnemoscope.huggingface.loading import load_causal
from mnemoscope.huggingface.quiet import quiet

WORDS, WIDTH, HEADS, SHARED, HEAD = 64, 64, 4, 2, 32
LR, TOKENS, ROWS = 3e-3, 4000, 64
# Repeats that training begins with; they grow to those that are asked in its first half.
SHORTEST, FIRST = 4, 8


def small_llama(folder: Path, steps: int, longest: int, seed: int) -> Any:
    """Load the model of a seed, or train it and leave it in ``folder``."""
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.partial")
        with quiet():
            train(steps, longest, seed).save_pretrained(partial)
        partial.rename(folder)
    return load_causal(str(folder))


def train(steps: int, longest: int, seed: int) -> Any:
    """Random tokens, twice: every token of the second time can be known."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=SHARED,
        head_dim=HEAD,
        max_position_embeddings=4 * longest,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(derive(seed, "small llama"))
        model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0)
    generator = torch.Generator().manual_seed(derive(seed, "small llama reads"))
    with progress(f"small model, seed {seed}", steps) as show:
        for step in range(steps):
            warm = min(1.0, (step + 1) / 50)
            for group in optimizer.param_groups:
                group["lr"] = LR * warm * (0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2)
            top = FIRST + round((longest - FIRST) * min(1.0, 2 * step / steps))
            period = int(torch.randint(SHORTEST, top + 1, (1,), generator=generator))
            rows = max(8, min(ROWS, TOKENS // (2 * period)))
            once = torch.randint(WORDS, (rows, period), generator=generator)
            tokens = torch.cat([once, once], 1)
            logits = model(input_ids=tokens, use_cache=False).logits[:, period:-1]
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, period + 1 :].flatten())
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            show(step + 1, f"loss {float(loss.detach()):.2f}")
    return model.eval()
