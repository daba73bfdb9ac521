"""After how long do RNN, LSTM, GRU and Transformer forget?

Models of equal size learn to repeat a few symbols after a noisy wait of at most ``trained``
tokens, then wait up to sixteen times longer. The learning rate is swept for every memory, since
it decides the ranking of recurrent models (arXiv 2508.19029).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT, MEMORY_NAMES, Increasing
from mnemoscope.core.registry import find
from mnemoscope.data.copy import Copy
from mnemoscope.memories.config import ModelConfig
from mnemoscope.studies.contenders import check_contenders
from mnemoscope.studies.lag.page import page
from mnemoscope.studies.lag.result import Asked, LagResult, Model, Training
from mnemoscope.studies.study import Device, Diverged, Steps, Study, TrainPrecision
from mnemoscope.studies.trials import Trial, finished, home_of, run_trials, training_of
from mnemoscope.training.config import RunConfig


class Lag(Study):
    """How long do they remember?

    A few symbols are shown, then comes a wait full of noise, then the symbols must be repeated.
    After how long a wait do RNN, LSTM, GRU and Transformer of equal size forget?
    """

    Result = LagResult
    page = staticmethod(page)
    presets = {
        "paper": {
            "parameters": 1_000_000, "trained": 512,
            "tested": tuple(2**power for power in range(14)), "steps": 20_000, "batch": 64,
            "learning_rates": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2), "seeds": 5,
        },
    }  # fmt: skip

    device: Device = "auto"
    precision: TrainPrecision = "auto"
    memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        ("rnn", "lstm", "gru", "transformer"), min_length=1, description="which memories to compare"
    )
    parameters: int = Field(41_000, ge=1, description="size of every model")
    symbols: int = Field(8, ge=2, description="different symbols")
    items: int = Field(3, ge=1, description="symbols to remember")
    fillers: int = Field(4, ge=1, description="kinds of noise during the wait")
    trained: int = Field(64, ge=1, description="longest wait in training")
    tested: Increasing = Field(
        tuple(2**power for power in range(11)), min_length=2, description="waits in the test"
    )
    steps: Steps = 1000
    batch: int = Field(32, ge=1, description="episodes per step")
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (1e-3, 3e-3, 1e-2, 3e-2), min_length=1, description="the sweep, for every memory"
    )
    seeds: int = Field(3, ge=1, description="trainings per memory and learning rate")
    episodes: int = Field(128, ge=1, description="test episodes per wait")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        check_contenders(self.memories, ())
        if self.tested[0] > self.trained:
            raise ValueError(f"none of the waits tested is within trained={self.trained}")
        return self

    def run(self, folder: Path, jobs: int) -> LagResult:
        """Train every memory × learning rate × seed and ask each after every wait."""
        from mnemoscope.studies.lag.measure import KEEPING, ask, spell, watch_gates
        from mnemoscope.studies.sizes import count, sized, state_bytes

        shown = self.some("symbols", "items", "fillers")
        task = Copy.make(**shown, lag=self.trained, shortest=1)
        models = {
            memory: sized(memory, self.parameters, vocab=task.vocab, **self._shape(memory))
            for memory in self.memories
        }
        trials = {
            (memory, rate, seed): self._trial(task, memory, model, rate, seed)
            for memory, model in models.items()
            for rate in self.learning_rates
            for seed in range(self.seeds)
        }
        examine = partial(ask, waits=self.tested, trained=self.trained, episodes=self.episodes)
        runs = folder / "runs"
        found = run_trials([*trials.values()], runs, examine, jobs, "lag", kind=Asked)
        trainings = tuple(
            Training(*key, None, one.diverged) if isinstance(one, Diverged) else Training(*key, one)
            for key, one in zip(trials, found, strict=True)
        )
        chosen = {memory: choose_rate(trainings, memory) for memory in self.memories}
        gated = {m: home_of(runs, trials[m, chosen[m], 0].name) for m in models if m in KEEPING}
        return LagResult(
            self.tested,
            self.trained,
            self.items,
            self.symbols,
            {
                memory: Model(
                    count(config),
                    config.width,
                    config.layers,
                    chosen[memory],
                    tuple(state_bytes(config, self.items + wait) for wait in self.tested),
                )
                for memory, config in models.items()
            },
            trainings,
            {m: watch_gates(home) for m, home in gated.items() if finished(home)},
            {
                memory: tuple(spell(memory, s, **self._shape(memory)) for s in range(self.seeds))
                for memory in self.memories
            },
        )

    def _trial(self, task: Copy, memory: str, model: ModelConfig, lr: float, seed: int) -> Trial:
        config = RunConfig("copy", task, memory, model, training_of(self, lr=lr, seed=seed))
        return Trial(f"{memory}-lr{lr:g}-seed{seed}", config)

    def _shape(self, memory: str) -> dict[str, Any]:
        """What a memory needs to have a chance at the task, by the options it has."""
        fields = find("memory", memory).model_fields
        longest = max(*self.tested, self.trained) + 2 * self.items
        options = {name: longest for name in ("context", "mem_len") if name in fields}
        # One layer of attention cannot tell "the second symbol" from "a symbol".
        return {**options, "layers": 2} if "heads" in fields else options


def choose_rate(trainings: Sequence[Training], memory: str) -> float:
    """The learning rate with the most bits within the trained waits, mean over seeds."""
    scores: dict[float, list[float]] = {}
    for one in trainings:
        if one.memory == memory:
            scores.setdefault(one.lr, []).append(one.asked.choosing_bits if one.asked else 0.0)
    return max(scores, key=lambda rate: float(np.mean(scores[rate])))
