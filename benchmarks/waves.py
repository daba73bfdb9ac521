"""A whole analysis of position waves: how long it takes beside reading, and how much memory."""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.measure import Row, in_child
from mnemoscope.core.statistics import Interval
from mnemoscope.lenses.waves.lens import Waves
from mnemoscope.open import open_reader

TITLE = "Position waves of 12 layers × 12 heads, 256 positions × 200 texts"
SETTING = (
    "A BERT of width 384 with random weights, 12 layers of 12 heads, reads 200 texts of 256 "
    "tokens: spectra, heads, singular vectors, PCA and FastICA, what survives, and 18 filters on "
    "10 texts each. Time is CPU time on one thread; the goal is 60 s on two cores. Ratios: "
    "analysis over reading the same texts once without any lens; peak memory for 200 texts over "
    "that for 100, each in a process of its own."
)
LENGTH, TEXTS = 256, 200


def run(quick: bool) -> list[Row]:
    """Time the analysis against reading, and measure memory at two sizes."""
    layers, heads, texts, length = (1, 2, 4, 32) if quick else (12, 12, TEXTS, LENGTH)
    analyse(1, 1, 2, 32)  # a warm-up, or importing would count
    analysed = analyse(layers, heads, texts, length)
    reader, tokens = open_reader(model(layers, heads)), words(texts, length)
    start = time.process_time()
    with torch.no_grad():
        for part in torch.split(tokens, 8):
            reader.read(part)
    read = time.process_time() - start
    share = analysed / read
    half, whole = (_peak(layers, heads, count, length) for count in (texts // 2, texts))
    growth = whole / half
    what = f"{layers} layers × {heads} heads, {texts} × {length} tokens"
    return [
        Row(
            "waves_time_vs_reading", f"{what}: {analysed / 2:.0f} s if two cores share it evenly",
            f"{analysed:.0f} s", f"{read:.0f} s", Interval(share, share, share),
        ),
        Row(
            "waves_memory_200_vs_100_texts", f"{what}, peak memory against half as many texts",
            f"{whole / 1024:.0f} MiB", f"{half / 1024:.0f} MiB",
            Interval(growth, growth, growth), "≤ 1.05",
        ),
    ]  # fmt: skip


def model(layers: int, heads: int) -> Any:
    """A BERT with random weights and 32 columns a head."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=32 * heads, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=128 * heads, max_position_embeddings=512,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.BertModel(config).eval()


def words(texts: int, length: int) -> torch.Tensor:
    """Random tokens (N, T)."""
    return torch.randint(1000, (texts, length), generator=torch.Generator().manual_seed(0))


def analyse(layers: int, heads: int, texts: int, length: int) -> float:
    """CPU seconds of a whole analysis."""
    given, tokens = model(layers, heads), words(texts, length)
    start = time.process_time()
    lens = Waves(length=length, texts=texts, window=min(64, length // 2))
    lens.observe(given, tokens, silent=True)
    lens.result()
    return time.process_time() - start


MEASURE = """
import sys
import torch
torch.set_num_threads(1)
from benchmarks.measure import peak_memory
from benchmarks.waves import analyse
analyse(*map(int, sys.argv[1:]))
print(peak_memory())
"""


def _peak(*shape: int) -> int:
    """Kilobytes of a process that does nothing else: a second analysis would find room taken."""
    return int(in_child(MEASURE, *map(str, shape)).split()[-1])
