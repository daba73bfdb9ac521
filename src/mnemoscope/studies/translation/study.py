"""One vector, attention, Transformer: who still translates long sentences?

Models of equal size learn to translate; BLEU is shown against the length of the source, beside
the bytes that each carries from the source to the target. The learning rate is chosen for every
model on validation data.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from mnemoscope.core.config import DISTINCT, TRANSLATOR_NAMES, Increasing
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.data.translation import Translation
from mnemoscope.memories.config import ModelConfig
from mnemoscope.studies.pairs import PairsStudy
from mnemoscope.studies.study import Diverged, Sized, Steps
from mnemoscope.studies.translation.page import page
from mnemoscope.studies.translation.result import Scored, Trained, TranslationResult
from mnemoscope.studies.trials import Trial, home_of, run_trials, sweep_then_seeds
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

    steps: Steps = 1500
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
    batch: int = Field(24, ge=1, description="sentences of mean length per step")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability spread over all")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    seeds: int = Field(3, ge=1, description="trainings per model at its best learning rate")
    ends: Increasing = Field(
        (6, 9, 12, 15, 18, 22), description="words at which groups of source lengths end"
    )
    tested: int = Field(600, ge=1, description="most source sentences of the test part")
    beam: int = Field(1, ge=1, description="hypotheses kept in decoding")
    shown: str | None = Field(
        None,
        description="pairs of your own that the page shows, given as corpus is; none = some of the "
        "test part",
    )
    tokenize: Literal["13a", "intl", "char", "zh", "none"] = Field(
        "13a", description="how sacreBLEU parts words"
    )

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

        def trial(*one: Any) -> Trial:
            return Trial("{}-lr{:g}-seed{}".format(*one), self._run(task, configs, *one))

        def train(trials: list[Trial], later: list[Trial] | None) -> list[Scored | Diverged]:
            return run_trials(trials, runs, examine, jobs, "translation", kind=Scored, later=later)

        def valid_loss(one: Scored | Diverged) -> float:
            return math.inf if isinstance(one, Diverged) else one.valid_loss

        tried = self.learning_rates, self.seeds
        found, best = sweep_then_seeds(self.models, *tried, trial, train, valid_loss)
        rows = [Trained(*key, trial(*key).name, outcome) for key, outcome in found.items()]
        # The first seed of every model that has one that did not diverge.
        first = {
            one.model: home_of(runs, one.run)
            for one in reversed(rows)
            if one.lr == best[one.model] and isinstance(one.outcome, Scored)
        }
        if not first:
            raise UserError("every training diverged: try lower learning_rates")
        shown = measure.examples(task, self.tested, self.shown)
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
            said={name: measure.say(home, shown) for name, home in first.items()},
            cross_attention={name: one for name, one in maps.items() if one is not None},
            dependence=measure.dependence(first[masked[0]], shown) if masked else None,
            overlap=task.overlap,
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
