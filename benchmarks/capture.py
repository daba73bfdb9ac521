"""What it costs to watch a model while it reads."""

from __future__ import annotations

import torch

from benchmarks.measure import Row, compared, interleave
from mnemoscope.activations.hooks import watch
from mnemoscope.memories.transformer.config import Transformer

TITLE = "Four captured places, against the same forward pass without any"
SETTING = (
    "Our Transformer, 6 layers, 8 rows of 128 tokens; the outputs of four layers are captured. "
    "Logits are checked to be bit-equal. Ratio = time with capture / time without."
)
SITES = ["layer.1.out", "layer.2.out", "layer.3.out", "layer.4.out"]


def run(quick: bool) -> list[Row]:
    """Compare reading with and without capture."""
    width, rounds = (64, 3) if quick else (256, 15)
    torch.manual_seed(0)
    config = Transformer.make(vocab=1000, width=width, layers=6, heads=8)
    model = config.build().eval()
    tokens = torch.randint(1000, (8, 128))

    @torch.no_grad()
    def plain() -> torch.Tensor:
        logits: torch.Tensor = model(tokens).logits
        return logits

    def captured() -> torch.Tensor:
        with watch(model, SITES):
            return plain()

    assert torch.equal(plain(), captured())
    times = interleave({"captured": captured, "plain": plain}, rounds)
    return [
        compared(
            "capture_time_vs_plain",
            f"4 of 6 layers, 8 × 128 tokens, width {width}",
            times,
            "captured",
            "plain",
            goal="≤ 1.05",
            slower=True,
        )
    ]
