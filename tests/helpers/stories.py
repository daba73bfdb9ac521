"""Karpathy's stories260K as a Llama of transformers, from the shared data if it is there."""

from __future__ import annotations

import gzip
import re
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_families import transformers

SHARED = "shared/data"


def shared_data() -> Path:
    """Beside the project or beside the clone it is a worktree of; skips where there is none."""
    root = Path(__file__).resolve().parents[2]
    places = [root.parent / SHARED]
    mark = root / ".git"
    if mark.is_file():
        # A worktree names the clone it belongs to: "gitdir: CLONE/.git/worktrees/NAME".
        clone = Path(mark.read_text().split(":", 1)[1].strip()).parents[2]
        places.append(clone.parent / SHARED)
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        pytest.skip("the shared data is not there: ../shared/data")
    return found


def load_model() -> Any:
    raw = (shared_data() / "weights/stories260K/stories260K.bin").read_bytes()
    width, hidden, layers, heads, kv, words, length = struct.unpack("7i", raw[:28])
    numbers = torch.from_numpy(np.frombuffer(raw, "<f4", offset=28).copy())
    size, place = width // heads, 0

    def take(*shape: int) -> torch.Tensor:
        nonlocal place
        count = int(np.prod(shape))
        place += count
        return numbers[place - count : place].view(*shape)

    def halved(weight: torch.Tensor, count: int) -> torch.Tensor:
        # From interleaved pairs to halves, as transformers turns them.
        return weight.view(-1, count, size // 2, 2, width).transpose(2, 3).reshape(weight.shape)

    embedding, norm1 = take(words, width), take(layers, width)
    wq = halved(take(layers, width, width), heads)
    wk = halved(take(layers, kv * size, width), kv)
    wv, wo = take(layers, kv * size, width), take(layers, width, width)
    norm2 = take(layers, width)
    w1, w2, w3 = (
        take(layers, hidden, width),
        take(layers, width, hidden),
        take(layers, hidden, width),
    )
    final = take(width)
    config = transformers.LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        max_position_embeddings=length,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config)
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": final}
    weights["lm_head.weight"] = embedding
    names = {
        "input_layernorm": norm1,
        "self_attn.q_proj": wq,
        "self_attn.k_proj": wk,
        "self_attn.v_proj": wv,
        "self_attn.o_proj": wo,
        "post_attention_layernorm": norm2,
        "mlp.gate_proj": w1,
        "mlp.down_proj": w2,
        "mlp.up_proj": w3,
    }
    for layer in range(layers):
        for name, stack in names.items():
            weights[f"model.layers.{layer}.{name}.weight"] = stack[layer]
    model.load_state_dict(weights)
    return model.eval()


class Tokenizer:
    """Joins the adjacent pair with the best score until none is left."""

    def __init__(self) -> None:
        raw = (shared_data() / "weights/stories260K/tok512.bin").read_bytes()
        place, self.words, self.scores = 4, [], []
        while place < len(raw):
            score, length = struct.unpack("fi", raw[place : place + 8])
            self.words.append(raw[place + 8 : place + 8 + length])
            self.scores.append(score)
            place += 8 + length
        self.ids = {word: place for place, word in enumerate(self.words)}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for letter in " " + text:
            code = letter.encode()
            ids += [self.ids[code]] if code in self.ids else [byte + 3 for byte in code]
        while True:
            joins = [self.ids.get(self.words[a] + self.words[b]) for a, b in pairwise(ids)]
            known = [(self.scores[one], -i) for i, one in enumerate(joins) if one is not None]
            if not known:
                return [1, *ids]
            at = -max(known)[1]
            ids[at : at + 2] = [joins[at]]  # type: ignore[list-item]

    def decode(self, ids: list[int]) -> str:
        said = b"".join(bytes([i - 3]) if 3 <= i < 259 else self.words[i] for i in ids if i > 2)
        return said.decode(errors="replace")


def articles(count: int, characters: int) -> dict[str, str]:
    """Openings of WikiText-2 articles by their headings, in plain letters.

    Signs such as < and @ are left out: the model never met them, its frozen unembedding has no
    direction that says them, and nothing added to a hidden state can change that.
    """
    with gzip.open(shared_data() / "wikitext-2/valid.txt.gz", "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        text = re.sub(r"<unk> ?|[^A-Za-z ,.]+ ?", "", line.strip())
        if line.startswith(" = ") and not line.startswith(" = = "):
            name = line.strip("= ")
        elif name and len(text) > characters and name not in found and len(found) < count:
            found[name] = text[:characters]
    return found
