"""What studies share that learn from sentence pairs: where these come from, and the training."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mnemoscope.data.translation import PairOptions
from mnemoscope.data.vocabulary import SMALLEST_BPE
from mnemoscope.studies.study import Device, Steps, Study, TrainPrecision
from mnemoscope.studies.trials import training_of
from mnemoscope.training.config import Training


class PairsStudy(PairOptions, Study):
    """Options of a study on a corpus of pairs, or on a made-up language pair."""

    steps: Steps = 1000
    device: Device = "auto"
    precision: TrainPrecision = "auto"
    vocabulary_size: int = Field(512, ge=SMALLEST_BPE, description="most tokens BPE may learn")
    batch: int = Field(32, ge=1, description="sentences of mean length per step")
    warmup: int = Field(100, ge=0, description="steps over which the learning rate rises")

    def corpus_options(self) -> dict[str, Any]:
        """Options of the tasks that read these pairs."""
        files = self.some("corpus", "valid", "test", "columns")
        return files | self.some("vocabulary_size", "held_out", "sentences", "clauses")

    def training(self, lr: float, seed: int, label_smoothing: float = 0.0) -> Training:
        """A training that looks at validation data once, when it ends."""
        rate = {"lr": lr, "warmup": self.warmup, "label_smoothing": label_smoothing}
        return training_of(self, seed=seed, evaluate_batches=16, **rate)
