"""What is a past worth that was attached to a model that never had one?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from mnemoscope.studies.documents.base import POSITIONS
from mnemoscope.studies.infinite.page import page
from mnemoscope.studies.infinite.result import Attached, InfiniteResult, Measured
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import measure_all

Text = Literal["made-up", "topics"]


class InfiniteStudy(Study):
    """What is an attached past worth?

    A language model that was trained on single windows gets a memory of all windows before, and
    only the memory is trained. Does its own past help it more than none, and more than the past of
    another text?
    """

    Result = InfiniteResult
    page = staticmethod(page)
    presets = {"paper": {"steps": 3000, "base_steps": 4000, "seeds": 5, "topic_read": 100_000}}

    vocab_size: int = Field(64, ge=4, description="words of the made-up language")
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
        if self.own >= self.vocab_size:
            raise ValueError(f"own={self.own} must be less than vocab_size={self.vocab_size}")
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

    @property
    def models(self) -> dict[str, tuple[Text, int]]:
        """The models that memories are attached to: what they read, and their seed."""
        texts: tuple[Text, ...] = ("made-up", "topics")
        return {f"{text} seed {s}": (text, s) for text in texts for s in range(self.seeds)}

    def run(self, folder: Path, jobs: int) -> InfiniteResult:
        """Train every kind of memory on both texts and measure each."""
        from mnemoscope.studies.documents.base import small_model
        from mnemoscope.studies.infinite.measure import measure

        small_model(folder / "small", steps=self.base_steps)
        each = partial(measure, self, folder)
        found = measure_all([*self.models], each, folder / "fits", jobs, "infinite", kind=Measured)

        def attached(text: Text) -> Attached:
            return Attached(tuple(found[n] for n, (read, _) in self.models.items() if read == text))

        return InfiniteResult(
            **self.some("vocab_size", "own", "window", "topic_window"),
            made_up=attached("made-up"),
            topics=attached("topics"),
        )
