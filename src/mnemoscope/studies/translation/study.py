"""One vector, attention, Transformer: who still translates long sentences?

Models of equal size learn to translate; BLEU is shown against the length of the source, beside
the bytes that each carries from the source to the target. The learning rate is chosen for every
model on validation data.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES, TRANSLATOR_NAMES, find
from mnemoscope.data.translation import Translation
from mnemoscope.memories.config import ModelConfig
from mnemoscope.studies.pairs import PairsStudy
from mnemoscope.studies.study import Sized
from mnemoscope.studies.translation.page import page
from mnemoscope.studies.translation.result import (
    Scored,
    Trained,
    TranslationResult,
    best_rate,
)
from mnemoscope.studies.trials import Trial, home_of, run_trials
from mnemoscope.training.config import RunConfig


class TranslationStudy(PairsStudy):
    """How a decoder came to look back

    An encoder reads a sentence, a decoder says it in another language. What lies between them is
    one vector, or one vector per word, or all layers of a Transformer. Which of these, at equal
    size, still translates when sentences get long?
    """

    Result = TranslationResult
    page = staticmethod(page)
    presets = {
        "paper": {
            "models": ("vector", "bahdanau", "luong", "encoder_decoder"), "parameters": 10_000_000,
            "sentences": 200_000, "vocabulary_size": 8000, "steps": 50_000, "batch": 128,
            "warmup": 1000, "learning_rates": (3e-4, 1e-3, 3e-3), "dropout": 0.1, "tested": 3000,
            "beam": 4,
        },
    }  # fmt: skip

    models: Annotated[tuple[str, ...], TRANSLATOR_NAMES, DISTINCT] = Field(
        ("vector", "bahdanau", "encoder_decoder"),
        min_length=1,
        description="which models to compare",
    )
    parameters: int = Field(300_000, ge=1, description="size of every model")
    vocabulary: Literal["joint", "separate"] = Field(
        "joint", description="one BPE for both sides, or one each"
    )
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (3e-3, 6e-3), min_length=1, description="tried with the first seed of every model"
    )
    steps: int = Field(1500, ge=1, description="optimiser steps per model")
    batch: int = Field(24, ge=1, description="sentences of mean length per step")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability spread over all")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    seeds: int = Field(3, ge=1, description="trainings per model at its best learning rate")
    ends: Annotated[tuple[int, ...], DISTINCT] = Field(
        (6, 9, 12, 15, 18, 22), description="words at which groups of source lengths end"
    )
    tested: int = Field(600, ge=1, description="most source sentences of the test part")
    beam: int = Field(1, ge=1, description="hypotheses kept in decoding")
    tokenize: Literal["13a", "intl", "char", "zh", "none"] = Field(
        "13a", description="how sacreBLEU parts words"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if list(self.ends) != sorted(set(self.ends)) or (self.ends and self.ends[0] < 1):
            raise ValueError("ends must be increasing numbers of words, at least 1")
        return self

    def run(self, folder: Path, jobs: int) -> TranslationResult:
        """Train each model at every rate, then at its best one with the other seeds; score all."""
        from mnemoscope.studies.sizes import count, sized
        from mnemoscope.studies.translation import measure

        shapes = {name: self._shape(name) for name in self.models}
        task = Translation.make(vocabulary=self.vocabulary, **self.corpus_options())
        runs = folder / "runs"
        vocab = {"vocab": task.vocab, "source_vocab": task.source_vocab}
        configs = {
            name: sized(name, self.parameters, **vocab, dropout=self.dropout, **shapes[name])
            for name in self.models
        }
        examine = partial(measure.score, **self.some("ends", "tested", "beam", "tokenize"))

        def train(wanted: Iterable[tuple[str, float, int]]) -> list[Trained]:
            trials = {
                one: Trial("{}-lr{:g}-seed{}".format(*one), self._run(task, configs, *one))
                for one in wanted
            }
            found = run_trials(
                list(trials.values()), runs, examine, jobs, "translation", kind=Scored
            )
            return [
                Trained(*one, trial.name, outcome)
                for (one, trial), outcome in zip(trials.items(), found, strict=True)
            ]

        rows = train((name, rate, 0) for name in self.models for rate in self.learning_rates)
        best = {name: best_rate(rows, name) for name in self.models}
        rows += train((name, best[name], s) for name in self.models for s in range(1, self.seeds))
        # The first seed of every model that has one that did not diverge.
        first = {
            one.model: home_of(runs, one.run)
            for one in reversed(rows)
            if one.lr == best[one.model] and isinstance(one.outcome, Scored)
        }
        if not first:
            raise UserError("every training diverged: try lower learning_rates")
        shown = measure.examples(task, self.tested)
        maps = {
            name: measure.cross_attention(first[name], shown)
            for name in self.models
            if name in first
        }
        masked = [name for name in maps if "heads" in type(configs[name]).model_fields]
        return TranslationResult(
            corpus=self.corpus,
            pairs={part: len(task.pairs(part)) for part in ("train", "valid", "test")},
            models={
                name: Sized(count(config), config.width, config.layers, best[name])
                for name, config in configs.items()
            },
            trials=tuple(rows),
            examples=shown,
            cross_attention={name: one for name, one in maps.items() if one is not None},
            dependence=measure.dependence(first[masked[0]], shown) if masked else None,
        )

    def _shape(self, name: str) -> dict[str, Any]:
        kind = find("memory" if name in MEMORIES else "translator", name)
        if not getattr(kind, "reads_source", False):
            raise UserError(
                f"{name} reads one stream and no source, so it cannot translate; choose models "
                "that `mnemoscope list translators` shows"
            )
        shape: dict[str, Any] = {"layers": 2} if "heads" in kind.model_fields else {}
        if self.vocabulary == "joint":
            shape["embeddings"] = "shared"
        return shape

    def _run(
        self, task: Translation, configs: dict[str, ModelConfig], name: str, rate: float, seed: int
    ) -> RunConfig:
        training = self.training(rate, seed, self.label_smoothing)
        return RunConfig("translation", task, name, configs[name], training)
