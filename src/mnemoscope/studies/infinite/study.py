"""What is a past worth that was attached to a model that never had one?

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from mnemoscope.report.document import Section
from mnemoscope.studies.documents.base import POSITIONS
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import measure_all

KINDS = {
    "signal": "∞-former's signal",
    "transformer_xl": "Transformer-XL's cache",
    "both": "cache and signal",
}
TEXTS = ("made-up", "topics")


class InfiniteStudy(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "What is an attached past worth?"
    question: ClassVar[str] = (
        "A language model that was trained on single windows gets a memory of all windows before, "
        "and only the memory is trained. Does its own past help it more than none, and more than "
        "the past of another text?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {"steps": 3000, "base_steps": 4000, "seeds": 5, "topic_read": 100_000},
    }

    words: int = Field(64, ge=4, description="words of the made-up language")
    own: int = Field(8, ge=2, description="of which each made-up text uses its own few")
    window: int = Field(16, ge=4, description="tokens of a window of made-up text")
    topic_window: int = Field(64, ge=4, description="tokens of a window of help topics")
    basis: int = Field(16, ge=2, description="vectors of the signal, for made-up text")
    topic_basis: int = Field(64, ge=2, description="vectors of the signal, for help topics")
    streams: int = Field(32, ge=2, description="texts read side by side")
    steps: int = Field(300, ge=1, description="windows that the memory learns from")
    base_steps: int = Field(400, ge=1, description="steps that train the models before")
    read: int = Field(20, ge=2, description="windows of made-up text that are read to measure")
    topic_read: int = Field(1000, ge=2, description="most tokens of a topic that are read")
    lr: float = Field(3e-3, gt=0, description="learning rate of the memory")
    seeds: int = Field(3, ge=1, description="trainings of each kind")

    @model_validator(mode="after")
    def _few(self) -> Self:
        if self.own >= self.words:
            raise ValueError(f"own={self.own} must be less than words={self.words}")
        if self.topic_read < 2 * self.topic_window:
            raise ValueError(
                f"topic_read={self.topic_read} is less than two windows of {self.topic_window}"
            )
        if self.topic_window + self.topic_window // 2 > POSITIONS:
            raise ValueError(
                f"topic_window={self.topic_window} and half of it cached are more than the "
                f"{POSITIONS} positions of the small model"
            )
        return self

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train every kind of memory on both texts and measure each."""
        from mnemoscope.studies.documents.base import small_model

        small_model(folder / "small", steps=self.base_steps)
        names = [f"{text} seed {seed}" for text in TEXTS for seed in range(self.seeds)]
        measure = partial(_measure, self, folder)
        found = measure_all(names, measure, folder / "fits", jobs, "past")
        return {
            "fits": {
                f"{text} {kind}": [found[f"{text} seed {s}"][kind] for s in range(self.seeds)]
                for text in TEXTS
                for kind in KINDS
            },
            **{key: getattr(self, key) for key in ("words", "own", "window", "topic_window")},
        }

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.infinite import page as past_page

        return past_page.tell(result)


def _measure(study: InfiniteStudy, folder: Path, name: str) -> dict[str, Any]:
    from mnemoscope.studies.infinite.fits import measure

    text, _, seed = name.split()
    return measure(study, folder, text, int(seed))
