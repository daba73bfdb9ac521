"""What does a past save that was attached to a model that never had one?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.studies.documents.base import POSITIONS
from mnemoscope.studies.infinite.contestants import LearnerName
from mnemoscope.studies.infinite.page import page
from mnemoscope.studies.infinite.result import Attached, InfiniteResult, Measured, Novels
from mnemoscope.studies.study import Precision, Study
from mnemoscope.studies.trials import measure_all

Text = Literal["made-up", "topics"]


class InfiniteStudy(Study):
    """What does an attached memory save?

    A frozen language model that has only seen single windows gets a memory of all windows before.
    Does the state of its own text help it more than none, and more than that of another text?
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
    lr: float = Field(1e-3, gt=0, description="learning rate of the memory")
    seeds: int = Field(3, ge=1, description="trainings of each kind")

    model: str | None = Field(
        None,
        description="a pretrained model to read novels with, in place of all of this: a folder, "
        "such as `mnemoscope example FOLDER --model smollm2` makes",
    )
    dtype: Precision = "float32"
    source: str | None = Field(None, description="a folder of novels, for model")
    held_out: Annotated[tuple[str, ...], DISTINCT] = Field(
        ("middlemarch", "moby-dick"),
        min_length=2,
        description="novels that are read, by how their names begin; nothing is reported of the "
        "first half of the first",
    )
    windows: Annotated[tuple[int, ...], DISTINCT] = Field(
        (128, 256), min_length=1, description="tokens that the pretrained model sees at once"
    )
    context: int = Field(2048, ge=16, description="tokens of a passage of a novel")
    passages: int = Field(3, ge=1, description="passages of every novel that is read")
    vectors: int = Field(256, ge=2, description="vectors that a memory of novels has in a layer")
    sizes: Annotated[tuple[int, ...], DISTINCT] = Field(
        (128, 512), description="other numbers of vectors to try"
    )
    novel_tokens: int = Field(
        3200, ge=1, description="tokens of each of the other novels that what learns reads"
    )
    novel_steps: int = Field(
        0, ge=0, description="windows that what learns has to learn from; 0 = nothing learns"
    )
    learners: Annotated[tuple[LearnerName, ...], DISTINCT] = Field(
        ("added", "lora"),
        min_length=1,
        description="what learns from novels: densities, added as published, with one thing "
        "changed, or LoRA of as many weights without memory",
    )
    learning_rates: Annotated[tuple[Annotated[float, Field(gt=0)], ...], DISTINCT] = Field(
        (),
        description="tried for everything that learns from novels instead of lr, on passages of "
        "which nothing is reported",
    )

    @model_validator(mode="after")
    def _novels(self) -> Self:
        if (self.model is None) != (self.source is None):
            raise ValueError("model and source go together: the model, and the novels it reads")
        if self.model is None and self.dtype != "float32":
            raise ValueError("small models compute in float32: dtype is for a model that is given")
        largest = max(self.windows)
        if any(one % 2 or one < 4 for one in self.windows) or self.context % (2 * largest):
            raise ValueError(
                f"windows={','.join(map(str, self.windows))} must be even, and context="
                f"{self.context} a multiple of twice the largest"
            )
        if self.vectors < largest // 2 or min(self.sizes, default=largest) < self.windows[0] // 2:
            raise ValueError("vectors and sizes must be at least half a window")
        return self

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
        if self.model is not None:
            return InfiniteResult(
                **self.some("vocab_size", "own", "window", "topic_window"),
                novels=self._run_novels(folder),
            )
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

    def _run_novels(self, folder: Path) -> Novels:
        """Let every contestant read the novels, one after the other: each keeps its answer."""
        from mnemoscope.studies.infinite.novels import measure_novels

        return measure_novels(self, folder)
