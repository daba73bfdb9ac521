"""Greedy generation with our memory against Hugging Face's `generate`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpt2 import HEADS, LAYERS, VOCAB, pair
from benchmarks.measure import Row, compared, interleave
from mnemoscope.models.generation import generate
from mnemoscope.models.model import SequenceModel

TITLE = "Greedy generation against Hugging Face generate: tokens per second"
PROMPT, NEW, ROUNDS = 16, 256, 11
SETTING = (
    f"Same weights (random GPT-2, {LAYERS} layers, {HEADS} heads, vocabulary {VOCAB}), one row, a "
    f"prompt of {PROMPT} tokens, {NEW} new ones, checked to be the same. Both keep keys and "
    "values; *uncached* is our model reading the whole text again for every token. Ratio = our "
    "tokens per second / theirs."
)


def run(quick: bool) -> list[Row]:
    """Compare a small and a larger model."""
    new, rounds = (16, 3) if quick else (NEW, ROUNDS)
    return [row for width in (128, 256) for row in _compare(width, new, rounds)]


def _compare(width: int, new: int, rounds: int) -> list[Row]:
    ours, theirs = (model.eval() for model in pair(width))
    prompt = torch.randint(VOCAB, (1, PROMPT), generator=torch.Generator().manual_seed(0))

    def cached() -> Tensor:
        return generate(ours, prompt, new, temperature=0).tokens

    ways: dict[str, Callable[[], Tensor]] = {
        "ours": cached,
        "theirs": partial(_theirs, theirs, prompt, new),
        "uncached": partial(_uncached, ours, prompt, new),
    }
    said = {name: work() for name, work in ways.items()}
    for name, tokens in said.items():
        assert torch.equal(tokens, said["ours"]), f"{name} says other tokens at width {width}"

    times = interleave(ways, rounds)
    end, goal = ("", "≥ 2") if width == 128 else (f"_w{width}", "")
    return [
        compared(
            f"{key}{end}",
            f"width {width}: ours / {label}",
            times,
            theirs=name,
            tokens=new,
            goal=wanted,
        )
        for key, label, name, wanted in (
            ("tokens_per_s_vs_hf_generate", "Hugging Face", "theirs", goal),
            ("cached_vs_uncached", "ours uncached", "uncached", ""),
        )
    ]


def _theirs(model: Any, prompt: Tensor, new: int) -> Tensor:
    seen = torch.ones_like(prompt)
    whole: Tensor = model.generate(
        prompt, attention_mask=seen, max_new_tokens=new, do_sample=False, pad_token_id=0
    )
    return whole[:, prompt.shape[1] :]


def _uncached(model: SequenceModel, prompt: Tensor, new: int) -> Tensor:
    tokens = prompt
    with torch.inference_mode():
        for _ in range(new):
            choice = model(tokens).logits[:, -1].argmax(-1)
            tokens = torch.cat((tokens, choice[:, None]), 1)
    return tokens[:, prompt.shape[1] :]
