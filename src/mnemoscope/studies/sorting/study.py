"""How much of a long stream do Transformer-XL, Compressive Transformer and ∞-former keep?

The sorting task of Martins 2022: read a long stream of symbols whose probabilities drift, then
name them by how often they came. What one has seen last misleads, so whoever answers well has
kept something of the whole stream. All models carry a state of the same size.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.registry import MEMORY_NAMES, find
from mnemoscope.data.sorting import Sorting as Task
from mnemoscope.memories.config import MOST_LAYERS
from mnemoscope.studies.contenders import carrying, check_contenders, known_options
from mnemoscope.studies.sorting.oracles import chance, counting_oracle
from mnemoscope.studies.sorting.page import page as sorting_page
from mnemoscope.studies.sorting.result import (
    Examined,
    SortingModel,
    SortingResult,
    SortingTrial,
)
from mnemoscope.studies.study import Study, label
from mnemoscope.studies.trials import Trial, run_trials, training_of
from mnemoscope.training.config import RunConfig

# Variants of the ∞-former that the study has words for, and what people call them.
VARIANTS = {
    "fixed": "∞-former, τ fixed",
    "sticky": "∞-former, τ fixed, sticky",
    "equal": "∞-former, equal shares",
}
# Streams that exact counting is tested on.
COUNTED = 200


class SortingStudy(Study):
    """How much of a long stream is kept?

    A long stream of symbols is read, whose probabilities drift; then all symbols must be named, the
    most frequent first. How well do Transformer-XL, Compressive Transformer and ∞-former answer,
    with states of the same size, as the stream grows?
    """

    Result = SortingResult
    page = staticmethod(sorting_page)
    presets = {
        "prototype": {
            "trained": (1024,), "tested": (256, 512, 1024, 2048, 4096, 8192), "width": 128,
            "segment": 128, "carried": 128, "steps": 1000, "lr": 1e-3,
        },
        "paper": {
            "trained": (4000, 8000, 16_000), "tested": (4000, 8000, 16_000), "layers": 3,
            "width": 300, "heads": 6, "mlp_ratio": 1, "segment": 1024, "carried": 1536,
            "recent": 1024, "steps": 20_000, "batch": 8, "lr": 2e-4, "episodes": 800,
        },
    }  # fmt: skip

    memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        ("transformer_xl", "compressive", *VARIANTS),
        min_length=1,
        description="who takes part: any memory, or a variant of the ∞-former: "
        + ", ".join(VARIANTS),
    )
    symbols: int = Field(20, ge=2, description="different symbols")
    trained: Annotated[tuple[int, ...], DISTINCT] = Field(
        (512,), min_length=1, description="lengths of stream; each is a training of its own"
    )
    tested: tuple[int, ...] = Field(
        (128, 256, 512, 1024, 2048, 4096), min_length=2, description="lengths in the test"
    )
    layers: int = Field(2, ge=1, le=MOST_LAYERS, description="layers of every model")
    width: int = Field(64, ge=1, description="width of every model")
    heads: int = Field(4, ge=1, description="attention heads")
    mlp_ratio: int = Field(2, ge=1, description="width of the feed-forward layer, in widths")
    segment: int = Field(64, ge=1, description="tokens read at once, and written at once")
    carried: int = Field(64, ge=2, description="vectors a layer carries from segment to segment")
    recent: int = Field(0, ge=0, description="of these, tokens in the ∞-former's cache")
    contraction: float = Field(0.75, gt=0, lt=1, description="τ where it is fixed")
    rate: int = Field(4, ge=1, description="tokens the Compressive Transformer compresses into one")
    steps: int = Field(450, ge=1, description="optimiser steps per model")
    batch: int = Field(16, ge=1, description="streams per step")
    lr: float = Field(3e-3, gt=0, description="highest learning rate")
    seeds: int = Field(3, ge=1, description="trainings per model and length")
    episodes: int = Field(64, ge=1, description="test streams per length")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if list(self.tested) != sorted(set(self.tested)) or self.tested[0] < 1:
            raise ValueError("tested must be increasing lengths of at least 1")
        check_contenders(self.memories, VARIANTS)
        if self.recent >= self.carried:
            raise ValueError(f"recent={self.recent} leaves nothing of carried={self.carried}")
        return self

    @property
    def window(self) -> int:
        """Tokens that attention over the cache takes in at the end of a whole segment."""
        return self.carried + self.segment

    def run(self, folder: Path, jobs: int) -> SortingResult:
        """Train every model × length × seed and ask each after every length."""
        from mnemoscope.studies.sizes import count, state_bytes
        from mnemoscope.studies.sorting.measure import examine

        plan = [
            (name, length, seed)
            for length in self.trained
            for seed in range(self.seeds)
            for name in self.memories
        ]
        trials = [Trial("{}-{}-seed{}".format(*one), self._config(*one)) for one in plan]
        ask = partial(examine, lengths=self.tested, episodes=self.episodes, segment=self.segment)
        found = run_trials(trials, folder / "runs", ask, jobs, "sorting", kind=Examined)
        configs = {name: self._config(name, self.trained[0], 0).model for name in self.memories}
        # States are compared at the end of a segment.
        most = -(-self.tested[-1] // self.segment) * self.segment
        return SortingResult(
            **self.some("trained", "tested", "segment", "window"),
            chance=chance(self.symbols),
            counting_all=self._counting(self.tested[-1]),
            counting_window=self._counting(self.window),
            models={
                name: SortingModel(
                    VARIANTS.get(name) or label(name),
                    count(config),
                    state_bytes(config, most, self.segment),
                )
                for name, config in configs.items()
            },
            trials=tuple(
                SortingTrial(*one, trial.name, outcome)
                for one, trial, outcome in zip(plan, trials, found, strict=True)
            ),
        )

    def _config(self, name: str, length: int, seed: int) -> RunConfig:
        task = Task.make(symbols=self.symbols, length=length)
        memory, options = self._memory(name)
        kind = find("memory", memory)
        shape = self.some("layers", "width", "heads", "mlp_ratio")
        model = kind.make(vocab=task.vocab, **known_options(kind, shape), **options)
        training = training_of(self, seed=seed, **self.some("lr", "segment"))
        return RunConfig("sorting", task, memory, model, training)

    def _memory(self, name: str) -> tuple[str, dict[str, Any]]:
        """A contender's memory, with ``carried`` vectors a layer if it can."""
        memory = "infinite" if name in VARIANTS else name
        kind = find("memory", memory)
        half = 0 if "basis" in kind.model_fields else self.carried // 2
        options = carrying(
            kind,
            self.carried,
            self.recent or half,
            # One write a segment: ``recent`` tokens are left at the end of every segment.
            chunk=self.segment,
            rate=self.rate,
            # Keys and values are of the whole stream: training refuses to cut it.
            context=max(*self.trained, *self.tested) + self.symbols,
        )
        if name in VARIANTS:
            options["contraction"] = "equal" if name == "equal" else self.contraction
            options["sticky"] = name == "sticky"
        return memory, options

    def _counting(self, tokens: int) -> tuple[float, ...]:
        """Accuracy at every length of one who counts so many tokens."""
        tasks = [Task.make(symbols=self.symbols, length=length) for length in self.tested]
        return tuple(counting_oracle(task, tokens, COUNTED) for task in tasks)
