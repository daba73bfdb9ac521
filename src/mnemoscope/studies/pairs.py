"""What studies share that learn from sentence pairs: where these come from, and the training."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mnemoscope.data.grammar import MOST_CLAUSES, MOST_SENTENCES
from mnemoscope.data.vocabulary import SMALLEST_BPE
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import training_of
from mnemoscope.training.config import Training


class PairsStudy(Study):
    """Options of a study on a corpus of pairs, or on a made-up language pair."""

    corpus: str | None = Field(
        None, description="sentence pairs, as for the task translation; none = from a grammar"
    )
    columns: tuple[str, ...] | None = Field(None, description="source and target in the corpus")
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
    steps: int = Field(1000, ge=1, description="optimiser steps per model")
    batch: int = Field(32, ge=1, description="sentences of mean length per step")
    warmup: int = Field(100, ge=0, description="steps over which the learning rate rises")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    def corpus_options(self) -> dict[str, Any]:
        """Options of the tasks that read these pairs."""
        return self.some("corpus", "columns", "vocabulary_size", "held_out", "sentences", "clauses")

    def training(self, lr: float, seed: int, label_smoothing: float = 0.0) -> Training:
        """A training that looks at validation data once, when it ends."""
        rate = {"lr": lr, "warmup": self.warmup, "label_smoothing": label_smoothing}
        return training_of(self, seed=seed, evaluate_batches=16, **rate)
