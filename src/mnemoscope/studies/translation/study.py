"""One vector, attention, Transformer: who still translates long sentences?

Models of equal size learn to translate; BLEU is shown against the length of the source, beside
the bytes that each carries from the source to the target. The learning rate is chosen for every
model on validation data.

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.registry import TRANSLATOR_NAMES, find, model_kind
from mnemoscope.data.grammar import MOST_CLAUSES, MOST_SENTENCES
from mnemoscope.data.translation import Translation
from mnemoscope.data.vocabulary import SMALLEST_BPE
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training

# Sentences whose translations are shown as they are.
SHOWN = 12


class TranslationStudy(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "How a decoder came to look back"
    question: ClassVar[str] = (
        "An encoder reads a sentence, a decoder says it in another language. What lies between "
        "them is one vector, or one vector per word, or all layers of a Transformer. Which of "
        "these, at equal size, still translates when sentences get long?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {
            "models": ("vector", "bahdanau", "luong", "encoder_decoder"),
            "parameters": 10_000_000,
            "sentences": 200_000,
            "vocabulary_size": 8000,
            "steps": 50_000,
            "batch": 128,
            "warmup": 1000,
            "learning_rates": (3e-4, 1e-3, 3e-3),
            "dropout": 0.1,
            "tested": 3000,
            "beam": 4,
        },
    }

    models: Annotated[tuple[str, ...], TRANSLATOR_NAMES, DISTINCT] = Field(
        ("vector", "bahdanau", "encoder_decoder"),
        min_length=1,
        description="which models to compare",
    )
    parameters: int = Field(300_000, ge=1, description="size of every model")
    corpus: str | None = Field(
        None, description="sentence pairs, as for the task translation; none = from a grammar"
    )
    columns: tuple[str, ...] | None = Field(None, description="source and target in the corpus")
    vocabulary: Literal["joint", "separate"] = Field(
        "joint", description="one BPE for both sides, or one each"
    )
    vocabulary_size: int = Field(512, ge=SMALLEST_BPE, description="most tokens BPE may learn")
    held_out: float = Field(
        0.05, gt=0, lt=0.5, description="share of sentences for validation, and for the test"
    )
    sentences: int = Field(
        20_000, ge=100, le=MOST_SENTENCES, description="sentences of the grammar"
    )
    clauses: int = Field(
        2, ge=1, le=MOST_CLAUSES, description="most clauses in a sentence of the grammar"
    )
    steps: int = Field(1500, ge=1, description="optimiser steps per model")
    batch: int = Field(24, ge=1, description="sentences of mean length per step")
    warmup: int = Field(100, ge=0, description="steps over which the learning rate rises")
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (3e-3, 6e-3), min_length=1, description="tried with the first seed of every model"
    )
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
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if list(self.ends) != sorted(set(self.ends)) or (self.ends and self.ends[0] < 1):
            raise ValueError("ends must be increasing numbers of words, at least 1")
        return self

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train each model at every rate, then at its best one with the other seeds; score all."""
        from mnemoscope.studies.sizes import count, sized

        task = self._task()
        configs = {
            name: sized(
                name,
                self.parameters,
                vocab=task.vocab,
                source_vocab=task.source_vocab,
                dropout=self.dropout,
                **self._shape(name),
            )
            for name in self.models
        }
        examine = partial(
            ask, ends=self.ends, tested=self.tested, beam=self.beam, tokenize=self.tokenize
        )

        def train(wanted: Sequence[tuple[str, float, int]]) -> list[dict[str, Any]]:
            trials = [
                Trial(f"{name}-lr{rate:g}-seed{seed}", self._run(task, name, configs, rate, seed))
                for name, rate, seed in wanted
            ]
            found = run_trials(trials, folder / "runs", examine, jobs, "translation")
            return [
                {"model": name, "lr": rate, "seed": seed, "run": trial.name, **values}
                for (name, rate, seed), trial, values in zip(wanted, trials, found, strict=True)
            ]

        rows = train([(name, rate, 0) for name in self.models for rate in self.learning_rates])
        best = {name: choose_rate(rows, name) for name in self.models}
        rows += train([(name, best[name], s) for name in self.models for s in range(1, self.seeds)])
        return {
            "corpus": self.corpus,
            "pairs": {part: len(task.pairs(part)) for part in ("train", "valid", "test")},
            "seeds": self.seeds,
            "models": {
                name: {
                    "parameters": count(config),
                    "width": config.width,
                    "layers": config.layers,
                    "lr": best[name],
                }
                for name, config in configs.items()
            },
            "trials": rows,
            "shown": [
                {"source": one.source, "reference": one.references[0]}
                for one in shown(task, self.tested)
            ],
        }

    def _task(self) -> Translation:
        names = ("corpus", "columns", "vocabulary", "vocabulary_size", "held_out")
        values = {name: getattr(self, name) for name in (*names, "sentences", "clauses")}
        return Translation.make(**values)

    def _shape(self, name: str) -> dict[str, Any]:
        fields = find(model_kind(name), name).model_fields
        shape: dict[str, Any] = {"layers": 2} if "heads" in fields else {}
        if self.vocabulary == "joint":
            shape["embeddings"] = "shared"
        return shape

    def _run(
        self, task: Translation, name: str, configs: dict[str, Any], rate: float, seed: int
    ) -> RunConfig:
        training = Training.make(
            steps=self.steps,
            batch=self.batch,
            lr=rate,
            warmup=self.warmup,
            label_smoothing=self.label_smoothing,
            seed=seed,
            evaluate_every=self.steps,
            evaluate_batches=16,
            checkpoint_every=max(200, self.steps // 5),
            keep=1,
            device=self.device,
        )
        return RunConfig("translation", task, name, configs[name], training)

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.translation import page as translation_page

        return translation_page.tell(result, folder / "runs")


def ask(folder: Path, ends: Sequence[int], tested: int, beam: int, tokenize: str) -> dict[str, Any]:
    """Translate the test part with a trained model; plain values that JSON can hold."""
    from mnemoscope.training import scores
    from mnemoscope.training.machine import join
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    task = run.config.task
    assert isinstance(task, Translation)
    translator = run.translator()
    translator.model.to(join(run.config.training.device).device)
    asked = scores.gather(task.pairs("test"), tested)
    found = scores.score(translator, asked, beam=beam, ends=ends, tokenize=tokenize)
    lengths = []
    groups = scores.by_words(asked, ends)
    for rows, (words, count, bleu) in zip(groups, found.by_length, strict=True):
        inside = [asked[row] for row in rows]
        texts = [found.texts[row] for row in rows]
        # The control: the same translations, each held against its neighbour's references.
        wrong, _ = scores.bleu([*texts[1:], texts[0]], inside, tokenize)
        sources = [inside[place].source for place in range(0, len(inside), 8)]
        lengths.append(
            {
                "words": words,
                "sentences": count,
                "bleu": bleu.score,
                "spread": bleu.spread,
                "wrong": wrong.score,
                "bytes": sum(map(translator.carried, sources)) / len(sources),
            }
        )
    return {
        "bleu": found.bleu.score,
        "spread": found.bleu.spread,
        "chrf": found.chrf,
        "loss": found.loss,
        "signatures": list(found.signatures),
        "lengths": lengths,
        "said": [best[0].text for best in translator([o.source for o in shown(task, tested)])],
        "valid_loss": next(
            entry["valid_loss"] for entry in reversed(run.metrics()) if "valid_loss" in entry
        ),
        "seconds": sum(entry.get("seconds", 0.0) for entry in run.metrics()),
    }


def shown(task: Translation, tested: int) -> list[Any]:
    """A few sentences of the test part, short ones first."""
    from mnemoscope.training import scores

    asked = sorted(scores.gather(task.pairs("test"), tested), key=lambda one: one.words)
    count = min(SHOWN, len(asked))
    # The very longest are few; the last one shown is at nine tenths of all.
    return [asked[place * len(asked) * 9 // (10 * count)] for place in range(count)]


def choose_rate(rows: Sequence[dict[str, Any]], name: str) -> float:
    """The learning rate with the lowest validation loss of the first seed."""
    tried: dict[float, float] = {}
    tried |= {
        row["lr"]: row.get("valid_loss", float("inf")) for row in rows if row["model"] == name
    }
    return min(tried, key=lambda rate: tried[rate])
