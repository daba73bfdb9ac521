"""How much of a long stream do Transformer-XL, Compressive Transformer and ∞-former keep?

The sorting task of Martins 2022: read a long stream of symbols whose probabilities drift, then
name them by how often they came. What one has seen last misleads, so whoever answers well has
kept something of the whole stream. All models carry a state of the same size.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT, MEMORY_NAMES, Increasing
from mnemoscope.core.registry import find
from mnemoscope.data.sorting import Sorting as Task
from mnemoscope.memories.config import ModelConfig
from mnemoscope.studies.contenders import carrying, check_contenders, known_options
from mnemoscope.studies.rates import Tried, TriedRate, best_rate
from mnemoscope.studies.sorting.contestants import ABLATION, VARIANTS
from mnemoscope.studies.sorting.oracles import chance, counting_oracle, in_sight
from mnemoscope.studies.sorting.page import page as sorting_page
from mnemoscope.studies.sorting.result import (
    Examined,
    SortingModel,
    SortingResult,
    SortingTrial,
)
from mnemoscope.studies.study import Device, ShapedStudy, Steps, TrainPrecision, label
from mnemoscope.studies.trials import Trial, run_trials, training_of
from mnemoscope.training.config import RunConfig

# Streams that exact counting is tested on.
COUNTED = 200
# The sweep's own seed: its streams and its weights are none of those that are reported.
SWEEP_SEED = 1000
# Not by the steps of the study: what tried a rate serves trainings of any number of steps.
CHECKPOINT_EVERY = 220


PROTOTYPE: dict[str, Any] = {
    "trained": (1056,), "tested": (64, 160, 288, 544, 1056, 2080, 4128, 8224),
    "memories": ("equal", "fixed", "transformer_xl", "compressive"), "curriculum": (64, 288),
    "steps": 3000, "episodes": 128,
}  # fmt: skip


class SortingStudy(ShapedStudy):
    """How much of a long stream is kept?

    A long stream of symbols is read, whose probabilities drift; then all symbols must be listed,
    the most frequent first. How well do Transformer-XL, Compressive Transformer and ∞-former
    answer, with states of the same size, as the stream grows?
    """

    Result = SortingResult
    page = staticmethod(sorting_page)
    presets = {
        "prototype": PROTOTYPE,
        # The rate is what the sweep of the prototype found for equal shares.
        "ablation": {
            "memories": ABLATION, "tested": (288, 544, 1056, 2080), "learning_rates": (6e-3,),
            "episodes": 128,
            # A gate learns through segments that follow what it let in: here all there are.
            "tbptt": 3,
        },
        "paper": {
            "trained": (4000, 8000, 16_000), "tested": (4000, 8000, 16_000), "layers": 3,
            "width": 300, "heads": 6, "mlp_ratio": 1, "segment": 1024, "carried": 1536,
            "recent": 1024, "curriculum": (), "steps": 20_000, "batch": 8,
            "learning_rates": (1e-4, 2e-4, 4e-4), "sweep_steps": 2000, "episodes": 800,
        },
    }  # fmt: skip

    device: Device = "auto"
    precision: TrainPrecision = "auto"
    memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        ("transformer_xl", "compressive", "fixed", "sticky", "equal"),
        min_length=1,
        description="who takes part: any memory, or a variant of the ∞-former: "
        + ", ".join(VARIANTS),
    )
    symbols: int = Field(20, ge=2, description="different symbols")
    trained: Annotated[tuple[int, ...], DISTINCT] = Field(
        (288,), min_length=1, description="lengths of stream; each is a training of its own"
    )
    tested: Increasing = Field(
        (64, 160, 288, 544, 1056, 2080), min_length=2, description="lengths in the test"
    )
    curriculum: Annotated[tuple[int, ...], DISTINCT] = Field(
        (64,), description="lengths that trainings of longer ones begin with, in this order"
    )
    curriculum_steps: int = Field(250, ge=1, description="steps on each of these")
    mlp_ratio: int = Field(2, ge=1, description="width of the feed-forward layer, in widths")
    segment: int = Field(128, ge=1, description="tokens read at once, and written at once")
    tbptt: int = Field(1, ge=1, description="segments back through which gradients flow")
    carried: int = Field(64, ge=2, description="vectors a layer carries from segment to segment")
    recent: int = Field(0, ge=0, description="of these, tokens in the ∞-former's cache")
    contraction: float = Field(0.75, gt=0, lt=1, description="τ where it is fixed")
    rate: int = Field(4, ge=1, description="tokens the Compressive Transformer compresses into one")
    steps: Steps = 600
    batch: int = Field(32, ge=1, description="streams per step")
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (3e-3, 6e-3, 1.2e-2), min_length=1, description="tried for every contestant"
    )
    sweep_steps: int = Field(400, ge=1, description="steps of a training that tries a rate")
    seeds: int = Field(3, ge=1, description="trainings per model and length")
    episodes: int = Field(64, ge=1, description="test streams per length")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_contenders(self.memories, VARIANTS)
        if self.recent >= self.carried:
            raise ValueError(f"recent={self.recent} leaves nothing of carried={self.carried}")
        gated = any(
            VARIANTS[name].options.get("gate") for name in self.memories if name in VARIANTS
        )
        if gated and self._learnt_through < 2:
            raise ValueError(
                f"with tbptt={self.tbptt} answers are learnt in the last segment alone, and a gate "
                f"only through segments before it: set tbptt={max(self._segments)}"
            )
        return self

    @property
    def _learnt_through(self) -> int:
        """Segments through which gradients flow back from the answers, at the length with least."""
        return min((count - 1) % self.tbptt + 1 for count in self._segments)

    @property
    def _segments(self) -> list[int]:
        """Segments of a stream and its answers, at every length that is trained."""
        tokens = [Task.make(symbols=self.symbols, length=one).longest for one in self.trained]
        return [-(-one // self.segment) for one in tokens]

    def run(self, folder: Path, jobs: int) -> SortingResult:
        """Choose every contestant's rate, train it × length × seed, and ask after every length."""
        from mnemoscope.studies.sorting.measure import examine, examine_sweep

        plan = [
            (name, length, seed)
            for length in self.trained
            for seed in range(self.seeds)
            for name in self.memories
        ]
        rates = self.learning_rates
        finals = [self._trial(*one, rates[0]) for one in plan]
        swept: tuple[TriedRate, ...] = ()
        if len(rates) > 1:
            tries = [(name, rate) for name in self.memories for rate in rates]
            found = run_trials(
                [self._sweep_trial(*one) for one in tries], folder / "runs", examine_sweep, jobs,
                "sorting, choosing rates", kind=Tried, later=finals,
            )  # fmt: skip
            swept = tuple(TriedRate(*one, seen) for one, seen in zip(tries, found, strict=True))
        result = self._begun(swept)
        finals = [self._trial(*one, result.models[one[0]].lr or rates[0]) for one in plan]
        ask = partial(examine, lengths=self.tested, episodes=self.episodes, segment=self.segment)
        later = None if swept else ()
        seen = run_trials(finals, folder / "runs", ask, jobs, "sorting", kind=Examined, later=later)
        trials = (
            SortingTrial(*one, trial.name, outcome)
            for one, trial, outcome in zip(plan, finals, seen, strict=True)
        )
        return replace(result, trials=tuple(trials))

    def _begun(self, swept: tuple[TriedRate, ...]) -> SortingResult:
        """The result before any training that is reported."""
        from mnemoscope.studies.sizes import count, state_bytes

        # States are compared at the end of a segment.
        most = -(-self.tested[-1] // self.segment) * self.segment
        configs = {name: self._model(name) for name in self.memories}
        return SortingResult(
            **self.some("trained", "tested", "segment", "curriculum", "curriculum_steps"),
            **self.some("steps", "sweep_steps"),
            window=self.carried,
            windows=tuple(in_sight(task, self.carried, self.segment)[0] for task in self._tasks),
            chance=chance(self.symbols),
            counting_all=self._counting(self.tested[-1]),
            counting_window=self._counting(self.carried),
            models={
                name: SortingModel(
                    VARIANTS[name].label if name in VARIANTS else label(name),
                    count(config),
                    state_bytes(config, most, self.segment),
                    self._own_counting(config),
                    best_rate(swept, name, self.learning_rates[0]),
                    VARIANTS[name].knob if name in VARIANTS else "",
                )
                for name, config in configs.items()
            },
            trials=(),
            swept=swept,
        )

    def _trial(self, name: str, length: int, seed: int, rate: float) -> Trial:
        config = self._config(name, length, seed, rate, self.steps)
        return Trial(f"{_home(name)}-{length}-lr{rate:g}-seed{seed}", config)

    def _sweep_trial(self, name: str, rate: float) -> Trial:
        """A training that tries a rate: shorter, on the curriculum's last length if any.

        Of a stream within one segment nothing is carried, and it says nothing of a memory.
        """
        longer = [one for one in self.curriculum if one > self.segment]
        length = longer[-1] if longer else self.trained[0]
        config = self._config(name, length, SWEEP_SEED, rate, self.sweep_steps)
        return Trial(f"sweep-{_home(name)}-{length}-lr{rate:g}", config)

    def _config(self, name: str, length: int, seed: int, rate: float, steps: int) -> RunConfig:
        task = Task.make(
            symbols=self.symbols,
            length=length,
            curriculum=tuple(one for one in self.curriculum if one < length),
            curriculum_steps=self.curriculum_steps,
        )
        training = training_of(
            self, seed=seed, lr=rate, steps=steps, evaluate_every=steps, evaluate_batches=8,
            checkpoint_every=CHECKPOINT_EVERY,
            **self.some("segment", "tbptt"),
        )  # fmt: skip
        return RunConfig("sorting", task, self._memory(name)[0], self._model(name), training)

    def _model(self, name: str) -> ModelConfig:
        memory, options = self._memory(name)
        kind = find("memory", memory)
        shape = self.some("layers", "width", "heads", "mlp_ratio")
        vocab = Task.make(symbols=self.symbols).vocab
        model: ModelConfig = kind.make(vocab=vocab, **known_options(kind, shape), **options)
        return model

    def _memory(self, name: str) -> tuple[str, dict[str, Any]]:
        """A contender's memory, with ``carried`` vectors a layer if it can."""
        variant = VARIANTS.get(name)
        memory = name if variant is None else "infinite"
        kind = find("memory", memory)
        parted = variant.recent if variant else "basis" not in kind.model_fields
        recent = self.recent or (self.carried // 2 if parted else 0)
        older = round((self.carried - recent) * (variant.vectors if variant else 1))
        options = carrying(
            kind,
            recent + older,
            recent,
            # One write a segment: ``recent`` tokens are left at the end of every segment.
            chunk=self.segment,
            rate=self.rate,
            # Keys and values are of the whole stream: training refuses to cut it.
            context=max(*self.trained, *self.tested) + self.symbols,
        )
        if variant is not None:
            options["contraction"] = self.contraction if variant.fixed else "equal"
            options |= variant.options
        return memory, options

    @property
    def _tasks(self) -> list[Task]:
        """The task at every length tested."""
        return [Task.make(symbols=self.symbols, length=length) for length in self.tested]

    def _counting(self, mem_len: int) -> tuple[float, ...]:
        """Accuracy at every length of one who counts what a cache of so many tokens takes in."""
        sights = [(task, in_sight(task, mem_len, self.segment)) for task in self._tasks]
        return tuple(counting_oracle(task, tokens, COUNTED) for task, tokens in sights)

    def _own_counting(self, config: ModelConfig) -> tuple[float, ...]:
        """The same for a model's own cache; nothing for one that has none."""
        mem_len = getattr(config, "mem_len", None)
        return () if mem_len is None else self._counting(mem_len)


def _home(name: str) -> str:
    """What the folders of a contestant are called; a memory of somebody else has a path."""
    return name.replace(":", ".")
