"""What do compressed caches keep of a text, and in how many bytes?"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mnemoscope.core.config import DISTINCT, Increasing
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.caches.config import PACKED_BITS
from mnemoscope.studies.caches.page import page
from mnemoscope.studies.caches.result import (
    EVICTING,
    FULL,
    LABELS,
    Asked,
    CachesResult,
    Model,
    Task,
    check_capacity,
)
from mnemoscope.studies.study import Precision, Steps, Study
from mnemoscope.studies.trials import measure_all

Tasks = Literal["repeats", "pairs", "facts"]


def _packable(bits: tuple[int, ...]) -> tuple[int, ...]:
    if any(one not in PACKED_BITS for one in bits):
        raise ValueError(f"each must be one of {PACKED_BITS}")
    return bits


Bits = Annotated[tuple[int, ...], AfterValidator(_packable), DISTINCT]


class CachesStudy(Study):
    """What do compressed caches keep?

    A model reads a context with a cache that holds all of it, some of its tokens, or all of them
    in few bits a number. What does it still recall, by age, for the bytes that it carries?
    """

    Result = CachesResult
    page = staticmethod(page)
    presets = {
        "model": {
            "context": 400, "ages": (16, 48, 96, 160, 240, 360), "segment": 80, "episodes": 32,
        },
        "paper": {
            "context": 1040, "ages": (16, 64, 128, 256, 512, 768, 1000), "episodes": 128,
            "steps": 4000, "seeds": 5,
        },
    }  # fmt: skip

    model: str | None = Field(
        None, description="folder of a causal language model of transformers; none = small ones"
    )
    weights: str = Field("", description="what is to be said of its weights, such as: 4-bit")
    dtype: Precision = "float32"
    tasks: Annotated[tuple[Tasks, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="none = repeats and pairs; facts too of a model given"
    )
    bits: Bits = Field((8, 4, 2), min_length=1, description="of a number, in the quantised caches")
    levels: Bits = Field(
        (4, 2), min_length=1, description="bits whose bytes every evicting cache is given"
    )
    context: int = Field(144, ge=64, le=1 << 16, description="tokens that are read before")
    ages: Increasing = Field(
        (8, 24, 48, 72, 96, 128), min_length=2, description="tokens since an answer was read"
    )
    segment: int = Field(16, ge=1, description="tokens read at once")
    group: int = Field(32, ge=8, multiple_of=8, description="numbers that share a scale")
    episodes: int = Field(64, ge=2, description="contexts of every task and model")
    batch: int = Field(
        16, ge=1, description="contexts read side by side; random eviction is drawn for each batch"
    )
    steps: Steps = 1000
    seeds: int = Field(3, ge=1, description="small models that are trained")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        # Cues and lines stand before an answer; behind it, what is asked and ends of sentences.
        oldest = self.context - (16 if self.model is None else 24)
        if self.ages[0] < 8 or self.ages[-1] > oldest:
            raise ValueError(f"ages must lie from 8 to {oldest}, within the context")
        if any(level not in self.bits for level in self.levels):
            raise ValueError(f"levels={self.levels} must be among bits={self.bits}")
        if self.model is None and "facts" in self.asked:
            raise ValueError("facts are told in words: they need a model with a tokenizer")
        if self.model is None and self.dtype != "float32":
            raise ValueError("small models compute in float32: dtype is for a model that is given")
        near = min(b - a for a, b in zip(self.ages, self.ages[1:], strict=False))
        least = 28 if self.model is not None and self.asked != ("repeats",) else 4
        if near < least:
            raise ValueError(
                f"ages must be at least {least} apart, what is asked stands between them: give "
                "others, or --preset model"
            )
        if len(self.ages) > 8:
            raise ValueError("at most 8 ages: no fact and no key is told twice")
        return self

    @property
    def asked(self) -> tuple[Tasks, ...]:
        """The tasks that are asked."""
        if self.tasks is not None:
            return self.tasks
        return ("repeats", "pairs") if self.model is None else ("repeats", "pairs", "facts")

    @property
    def caches(self) -> dict[str, tuple[str, int]]:
        """Names of all caches: what kind, and the bits whose bytes they have."""
        found = {FULL: (FULL, 0)} | {f"{bits} bits": ("quantised", bits) for bits in self.bits}
        return found | {
            f"{LABELS[kind]} (bytes of {level} bits)": (kind, level)
            for level in self.levels
            for kind in EVICTING
        }

    @property
    def trials(self) -> dict[str, tuple[Tasks, str, int]]:
        """What is measured one by one: task, cache and seed of the model."""
        seeds = range(self.seeds if self.model is None else 1)
        return {
            f"{task} {cache} seed {seed}": (task, cache, seed)
            for seed in seeds
            for task in self.asked
            for cache in self.caches
        }

    def run(self, folder: Path, jobs: int) -> CachesResult:
        """Ask every model at every task with every cache."""
        if self.model is not None and not Path(self.model).expanduser().is_dir():
            raise UserError(f"there is no folder {self.model}: give that of a saved model")
        from mnemoscope.studies.caches.measure import POOL, measure, opened
        from mnemoscope.studies.caches.small import WORDS

        seeds = range(self.seeds if self.model is None else 1)
        if self.model is None:
            for seed in seeds:  # trained once, before caches share them
                opened(self, folder, seed)
        each = partial(measure, self, folder)
        found = measure_all([*self.trials], each, folder / "asked", jobs, "caches", kind=Asked)
        words = WORDS if self.model is None else POOL
        sizes = {"repeats": words, "pairs": 12 if self.model else WORDS // 4, "facts": 12}
        tasks: dict[str, Task] = {
            task: Task(self.ages, math.log2(sizes[task]), 4 if task == "repeats" else 1)
            for task in self.asked
        }
        for name, (task, _, _) in self.trials.items():
            check_capacity(found[name], tasks[task], name)
        models = tuple(
            Model(
                Path(self.model).name if self.model else f"seed {seed}",
                {
                    task: {cache: found[f"{task} {cache} seed {seed}"] for cache in self.caches}
                    for task in self.asked
                },
            )
            for seed in seeds
        )
        return CachesResult(
            self.context,
            self.segment,
            self.dtype,
            self.caches,
            tasks,
            models,
            Path(self.model).name if self.model else "",
            self.weights,
        )
