"""One stack of layers, three things to learn: what does each layer keep of what was read?

The encoder of a Transformer is trained as part of a translator (MT), as a language model (LM) and
as a masked language model (MLM) on the same sentences, and read with the same lenses, after Voita,
Sennrich and Titov 2019.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import MOST_LAYERS, Increasing
from mnemoscope.core.errors import UserError
from mnemoscope.data.sentences import Sentences
from mnemoscope.data.translation import Translation
from mnemoscope.memories.config import check_heads
from mnemoscope.models.encoder.config import Encoder
from mnemoscope.models.seq2seq.encoder_decoder.config import EncoderDecoder
from mnemoscope.studies.evolution.page import page
from mnemoscope.studies.evolution.result import OBJECTIVES, EvolutionResult, Examined, Trained
from mnemoscope.studies.pairs import PairsStudy
from mnemoscope.studies.study import LearningRate
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig


class Evolution(PairsStudy):
    """What each layer keeps

    The same stack of Transformer layers learns to translate, to say the next word, or to fill in
    hidden words. How much of what it has read does each layer still hold, and how does that depend
    on what was learnt?
    """

    Result = EvolutionResult
    page = staticmethod(page)
    presets = {
        "paper": {
            "width": 512, "layers": 6, "heads": 8, "sentences": 500_000, "vocabulary_size": 16_000,
            "steps": 100_000, "batch": 256, "lr": 5e-4, "warmup": 4000, "tested": 20_000,
            "samples": 20_000,
            "edges": (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000),
        },
    }  # fmt: skip

    lr: LearningRate = 2e-3
    width: int = Field(64, ge=1, description="size of the vector per token")
    layers: int = Field(4, ge=2, le=MOST_LAYERS, description="layers of the stack")
    heads: int = Field(4, ge=1, description="attention heads")
    norm: Literal["pre", "post"] = Field("post", description="where layers normalise")
    held_out: float = Field(
        0.1, gt=0, lt=0.5, description="share of sentences for validation, and for the test"
    )
    seeds: int = Field(3, ge=2, description="trainings per objective; two give one distance")
    tested: int = Field(1200, ge=10, description="most sentences of the test part that are read")
    clusters: int | None = Field(
        None, ge=2, description="clusters per layer; by default as the lens information has it"
    )
    samples: int = Field(1500, ge=10, description="tokens per group, for change and influence")
    edges: Increasing = Field(
        (5, 15, 200), min_length=1, description="ranks at which groups of tokens end"
    )
    neighbours: int = Field(10, ge=1, description="nearest neighbours that are compared")

    @model_validator(mode="after")
    def _parted(self) -> Self:
        # Before the corpus is read, which takes seconds.
        check_heads(self.width, self.heads, None)
        return self

    def run(self, folder: Path, jobs: int) -> EvolutionResult:
        """Train every objective with every seed, look into each, then compare them."""
        from mnemoscope.studies.evolution import measure
        from mnemoscope.studies.sizes import count

        runs, task = folder / "runs", self._sentences("masked")
        trials = {
            (objective, seed): Trial(f"{objective.lower()}-seed{seed}", self._run(objective, seed))
            for objective in OBJECTIVES
            for seed in range(self.seeds)
        }
        examine = partial(
            measure.examine,
            sentences=task.model_dump(),
            **self.some("tested", "clusters", "samples", "edges"),
            k=self.neighbours,
        )
        found = run_trials(list(trials.values()), runs, examine, jobs, "evolution", kind=Examined)
        trained = [
            Trained(objective, seed, trial.name, outcome)
            for ((objective, seed), trial), outcome in zip(trials.items(), found, strict=True)
        ]
        whole = [one for one in trained if isinstance(one.outcome, Examined)]
        if {one.objective for one in whole} != set(OBJECTIVES):
            raise UserError("every training of one objective diverged: try a lower lr")
        return EvolutionResult(
            **self.some("corpus", "layers", "width", "samples"),
            clusters=next(one.clusters for one in found if isinstance(one, Examined)),
            k=self.neighbours,
            parameters={o: count(trials[o, 0].config.model) for o in OBJECTIVES},
            trials=tuple(trained),
            distances=measure.distances(
                {one.run: runs / one.run for one in whole}, task, self.tested
            ),
        )

    def _sentences(self, objective: str) -> Sentences:
        return Sentences.make(objective=objective, **self.corpus_options())

    def _run(self, objective: str, seed: int) -> RunConfig:
        training = self.training(self.lr, seed)
        shape = self.some("width", "layers", "heads", "norm")
        if objective == "MT":
            pairs = Translation.make(**self.corpus_options())
            vocab = {"vocab": pairs.vocab, "source_vocab": pairs.source_vocab}
            model = EncoderDecoder.make(**vocab, embeddings="shared", **shape)
            return RunConfig("translation", pairs, "encoder_decoder", model, training)
        task = self._sentences("next" if objective == "LM" else "masked")
        encoder = Encoder.make(vocab=task.vocab, causal=objective == "LM", **shape)
        return RunConfig("sentences", task, "encoder", encoder, training)
