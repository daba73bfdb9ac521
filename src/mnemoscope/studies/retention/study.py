"""How many bits does each memory keep for the bytes it carries, and for how long?

All memories learn to say the value last stored under a key, in several state sizes each; then the
lens `retention` asks them, by age, by items stored and by overwrites. The learning rate is swept
for every memory at its middle size with one seed; all sizes and seeds are trained at the best one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT, MEMORY_NAMES, Increasing
from mnemoscope.core.errors import UserError
from mnemoscope.data.recall import Keys, Recall, Values
from mnemoscope.lenses.retention.episodes import RetentionOptions, curve_points
from mnemoscope.studies.contenders import check_contenders
from mnemoscope.studies.results import load
from mnemoscope.studies.retention.contestants import VARIANTS, Contestant
from mnemoscope.studies.retention.page import page
from mnemoscope.studies.retention.result import (
    Examined,
    Memory,
    RetentionResult,
    Trained,
)
from mnemoscope.studies.study import Device, Diverged, Share, Steps, Study, TrainPrecision, label
from mnemoscope.studies.trials import Trial, run_trials, training_of
from mnemoscope.training.config import RunConfig

if TYPE_CHECKING:
    from mnemoscope.memories.config import ModelConfig

# Memory, size, learning rate and seed of one training.
Setting = tuple[str, int, float, int]


class RetentionStudy(Study):
    """What is kept, for how long, in how many bytes?

    Values are stored under keys, some of them twice; noise follows, and then a key asks for its
    value. How many bits of all that does each memory still know, by age, and how many bytes does it
    carry for that?
    """

    Result = RetentionResult
    page = staticmethod(page)
    live = True
    presets = {
        "smoke": {
            "widths": (8, 16), "token_widths": (4, 8), "mem_lens": (8, 16), "steps": 2, "batch": 4,
            "seeds": 2, "pairs": 3, "overwrites": 1, "length": 24, "ages": (1, 4, 16),
            "learning_rates": (1e-3, 1e-2), "episodes": 8, "lengths": (8, 32),
        },
        "demo": {
            "memories": ("gru", "transformer", "transformer_xl", "compressive", "infinite"),
            "widths": (32,), "token_widths": (32,), "mem_lens": (16,), "beside_shipped": True,
        },
        "paper": {
            "widths": (16, 32, 64, 128, 256, 512), "token_widths": (16, 32, 64, 128),
            "mem_lens": (8, 16, 32, 64, 128, 256),
            "keys": 64, "values": 64, "pairs": 64, "overwrites": 32, "length": 1024, "stride": 32,
            "segment": 64, "steps": 30_000, "batch": 64, "learning_rates":
            (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), "seeds": 5, "episodes": 1024,
            "ages": tuple(2**power + 1 for power in range(14)),
            "lengths": tuple(2**power for power in range(4, 15)),
        },
    }  # fmt: skip

    device: Device = "auto"
    precision: TrainPrecision = "auto"
    memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        ("rnn", "lstm", "gru", "transformer", "strided", "fixed", "transformer_xl", "compressive",
         "infinite", "sticky"),
        min_length=1,
        description="which memories to compare: any by name, and strided, fixed, sticky",
    )  # fmt: skip
    widths: Annotated[tuple[int, ...], DISTINCT] = Field(
        (16, 32, 64),
        min_length=1,
        description="sizes of RNN, LSTM and GRU, and of others without heads",
    )
    token_widths: Annotated[tuple[int, ...], DISTINCT] = Field(
        (8, 16, 32),
        min_length=1,
        description="sizes of the Transformer, the sparse ones and others with heads; the last is "
        "the width of all that have a cache",
    )
    mem_lens: Annotated[tuple[int, ...], DISTINCT] = Field(
        (8, 16, 32),
        min_length=1,
        description="sizes of those that have a cache: its tokens, and vectors of what is older",
    )
    keys: Keys = 8
    values: Values = 8
    pairs: int = Field(8, ge=1, description="most pairs stored in an episode")
    overwrites: int = Field(4, ge=0, description="most of them written twice")
    length: int = Field(48, ge=8, description="tokens of an episode in training")
    segment: int = Field(16, ge=1, description="tokens read at once")
    stride: int = Field(8, ge=2, description="of the sparse patterns")
    steps: Steps = 700
    batch: int = Field(32, ge=1, description="episodes per step")
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (3e-3, 1e-2, 3e-2), min_length=1, description="the sweep, for every memory"
    )
    seeds: int = Field(3, ge=1, description="trainings per memory and size")
    ages: Annotated[tuple[int, ...], DISTINCT] = Field(
        # Odd, because at multiples of a stride sparse attention sees what it sees nowhere else.
        (1, 3, 7, 13, 23, 41, 83, 167),
        min_length=2,
        description="ages in the test",
    )
    episodes: int = Field(128, ge=2, description="test episodes per question")
    lengths: Increasing = Field(
        (16, 64, 256, 1024), min_length=2, description="lengths at which the cost is measured"
    )
    beside_shipped: bool = Field(
        False, description="show the result that comes with the package, and draw beside its curves"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check_contenders(self.memories, VARIANTS)
        if self.ages[0] >= self.length:
            raise ValueError(
                f"ages must begin below length={self.length}: none is seen in training"
            )
        try:
            longest = max(one.task.length for one in curve_points(self.task(), self.asked()))
            limits = {
                name: self.model(name, size).limit
                for name in self.memories
                for size in self.sizes(name)
            }
        except UserError as error:
            raise ValueError(str(error)) from error
        for name, limit in limits.items():
            if limit is not None and limit < longest:
                raise ValueError(
                    f"{name} cannot take part: it can read {limit} tokens in one stream, and the "
                    f"longest episode has {longest}"
                )
        return self

    def task(self) -> Recall:
        """What is learnt: up to so many pairs, up to so many of them overwritten."""
        return Recall.make(
            **self.some("keys", "values", "pairs", "overwrites", "length"),
            queries=self.pairs,
            joined=True,
            fewest=1,
        )

    def asked(self) -> RetentionOptions:
        """What the lens asks: within the trained numbers of items, beyond the trained ages."""
        items = tuple(2**power for power in range(20) if 2**power <= self.pairs)
        twice = (0, *(count for count in items if count <= self.overwrites))
        return RetentionOptions.make(
            **self.some("ages", "episodes", "segment"),
            items=items,
            overwrites=twice,
            pairs=max(1, self.pairs // 2, self.overwrites),
            rest=self.length - self.pairs - self.overwrites,
            batch=self.episodes,
            resamples=200,
            seed=2,
        )

    def sizes(self, name: str) -> tuple[int, ...]:
        """The sizes of a memory."""
        one = Contestant(name)
        if one.has_cache:
            return self.mem_lens
        return self.token_widths if "heads" in one.fields else self.widths

    def model(self, name: str, size: int) -> ModelConfig:
        """The config of a memory in one size."""
        return Contestant(name).model(
            size,
            vocab=self.task().vocab,
            width=self.token_widths[-1],
            stride=self.stride,
            context=max(1024, self.length, 2 * self.ages[-1]),
        )

    def trial(self, name: str, size: int, rate: float, seed: int) -> Trial:
        """One training."""
        one = Contestant(name)
        # What has a cache sees a whole segment at once: only segments make it use its memory.
        cut: dict[str, int] = {}
        if one.has_cache:
            cut = {"segment": self.segment, "tbptt": -(-self.length // self.segment)}
        warmup = min(20, self.steps)
        training = training_of(self, lr=rate, warmup=warmup, seed=seed, evaluate_batches=4, **cut)
        config = RunConfig("recall", self.task(), one.memory, self.model(name, size), training)
        home = name.replace(":", ".")  # a path of somebody else's memory
        return Trial(f"{home}-{one.sized_by}{size}-lr{rate:g}-seed{seed}", config)

    def run(self, folder: Path, jobs: int) -> RetentionResult:
        """Sweep the learning rate, then train every size and seed, and ask them all."""
        return self.run_live(folder, jobs, lambda result: None)

    def run_live(self, folder: Path, jobs: int, share: Share) -> RetentionResult:
        """The same, handing out what there is after every training."""
        from mnemoscope.studies.retention.measure import examine

        result = self._begun()
        if result.shipped is not None:
            share(result)
        result = replace(result, memories=tuple(map(self._memory, self.memories)))
        done: dict[str, Trained] = {}

        def train(settings: list[Setting], later: list[Trial] | None = None) -> None:
            trials = [self.trial(*setting) for setting in settings]
            setting_of = dict(zip((trial.name for trial in trials), settings, strict=True))

            def keep(run: str, found: Examined | Diverged) -> None:
                nonlocal result
                done[run] = Trained(*setting_of[run], run, found)
                result = replace(result, trials=tuple(done.values()))
                share(result)

            asked, runs = partial(examine, asked=self.asked()), folder / "runs"
            run_trials(trials, runs, asked, jobs, "retention", keep, kind=Examined, later=later)

        # Seed after seed, so that a page half-way shows every memory.
        rest = [
            (memory, size.value, seed)
            for seed in range(self.seeds)
            for memory in result.memories
            for size in memory.sizes
            if (seed, size) != (0, memory.middle)
        ]
        rates = self.learning_rates
        train(
            [(one.name, one.middle.value, rate, 0) for rate in rates for one in result.memories],
            [self.trial(memory.name, size, rates[0], seed) for memory, size, seed in rest],
        )
        train([(memory.name, size, result.lr(memory), seed) for memory, size, seed in rest])
        return replace(result, trials=tuple(sorted(result.trials, key=self._order)))

    def _order(self, one: Trained) -> tuple[int, ...]:
        """The place of a training in the result, whenever it was finished."""
        size = self.sizes(one.memory).index(one.size)
        rate = self.learning_rates.index(one.lr)
        return self.memories.index(one.memory), size, one.seed, rate

    def _memory(self, name: str) -> Memory:
        """Who takes part, and what continuing costs it."""
        from mnemoscope.studies.retention.measure import measure_size

        one = Contestant(name)
        sizes = (
            measure_size(size, self.model(name, size), self.lengths, self.segment)
            for size in self.sizes(name)
        )
        return Memory(name, label(name), one.family, one.sized_by, tuple(sizes))

    def _begun(self) -> RetentionResult:
        """The result before anything is known, with the shipped one if it is asked for."""
        sizes = sum(len(self.sizes(name)) for name in self.memories)
        swept = len(self.memories) * (len(self.learning_rates) - 1)
        beside: dict[str, Any] = {}
        if self.beside_shipped:
            found = load("retention")
            beside = {"shipped": found.result, "shipped_on": f"{found.made.date:%Y-%m-%d}"}
        return RetentionResult(
            **self.some("values", "pairs", "length", "episodes"),
            age_pairs=self.asked().pairs,
            planned=sizes * self.seeds + swept,
            memories=(),
            trials=(),
            **beside,
        )
