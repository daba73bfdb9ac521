"""What it costs to ask a model for all of its promises about state."""

from __future__ import annotations

import torch

from benchmarks.measure import Row, compared, interleave
from mnemoscope.checks.measure import check
from mnemoscope.memories.transformer.config import Transformer

ROWS, TOKENS = 3, 24
TITLE = "All promises about state, against one forward pass of the same tokens"
SETTING = (
    f"Our Transformer, 4 layers, {ROWS} rows of {TOKENS} tokens. Every promise is asked, among "
    "them one token at a time, copies in double and half precision and a state through a file into "
    "a copy of the model. Ratio = time of the check / time of one forward pass."
)


def run(quick: bool) -> list[Row]:
    """Compare a check with reading once."""
    width, rounds = (32, 3) if quick else (128, 11)
    torch.manual_seed(0)
    model = Transformer.make(vocab=1000, width=width, layers=4, heads=4).build().eval()
    tokens = torch.randint(1000, (ROWS, TOKENS))

    @torch.no_grad()
    def forward() -> torch.Tensor:
        logits: torch.Tensor = model(tokens).logits
        return logits

    def checked() -> None:
        result = check(model, tokens=TOKENS)
        assert result.kept, result.text()

    times = interleave({"check": checked, "forward": forward}, rounds)
    what = f"{ROWS} × {TOKENS} tokens, 4 layers, width {width}"
    return [compared("check_time_vs_forward", what, times, "check", "forward", slower=True)]
