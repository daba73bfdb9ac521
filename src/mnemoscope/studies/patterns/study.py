"""Does sparse attention read text as well as dense attention, for the same compute?

The study `images` on bytes of text: passages have no rows and columns, so the strided pattern has
nothing to hold on to, while fixed blocks can still pass summaries on (Child 2019, §5).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.data.passages import Passages
from mnemoscope.studies.contest.options import Contest
from mnemoscope.studies.patterns.page import page
from mnemoscope.studies.patterns.result import DRAWN, PatternsResult

# Share of the text by which nothing is chosen: the bits of this part are reported.
TEST = 0.1


class Patterns(Contest):
    """Sparse patterns on text

    A Transformer reads a passage byte by byte and can look back at all bytes before, or at a few of
    them. Does it predict the next byte as well with few, for the same compute?
    """

    Result = PatternsResult
    page = staticmethod(page)
    presets = {
        "paper": {
            "length": 4096, "stride": 128, "summaries": 16, "width": 512, "layers": 12, "heads": 8,
            "dropout": 0.1, "steps": 40_000, "batch": 16, "learning_rates": (2e-4, 5e-4, 1e-3),
            "warmup": 1000, "seeds": 5,
        },
    }  # fmt: skip

    source: str | None = Field(
        None, description="a file, a folder, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    length: int = Field(256, ge=2, description="bytes in a passage")
    stride: int = Field(16, ge=2, description="bytes of a block and of the window")
    summaries: int = Field(4, ge=1, description="last bytes of a block that later ones see (fixed)")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.stride > self.length:
            raise ValueError(f"a stride of {self.stride} is longer than a passage ({self.length})")
        return self

    def run(self, folder: Path, jobs: int) -> PatternsResult:
        """Train every pattern × seed and measure bits per byte."""
        from mnemoscope.studies.contest.measure import attended, short

        task = Passages.make(unit="bytes", test=TEST, **self.some("source", "length"))
        models = self.contestants(task.vocab, self.stride, context=self.length)
        result, firsts = self.compete("passages", task, models, folder, jobs)
        seen = {}
        for name, home in firsts.items():
            one, heads = attended(home, lambda maps: maps[:, :DRAWN, :DRAWN])
            seen[name] = replace(one, maps=short(heads.mean(1)), by_head=short(heads))
        return PatternsResult(replace(result, attended=seen), counted_bits(task))


def counted_bits(task: Passages) -> dict[str, float]:
    """Bits per byte of models that only count: single bytes, and bytes after one other.

    Counted on the text to train on, every byte once more than seen; asked for the test.
    """
    train, test = (task.tokens(split).astype(np.int64) for split in ("train", "test"))
    size = task.vocab
    single = np.bincount(train, minlength=size) + 1
    pairs = np.bincount(train[:-1] * size + train[1:], minlength=size * size) + 1
    after = pairs.reshape(size, size) / pairs.reshape(size, size).sum(1, keepdims=True)
    return {
        "bytes counted": float(-np.log2(single / single.sum())[test].mean()),
        "pairs counted": float(-np.log2(after[test[:-1], test[1:]]).mean()),
    }
