"""One stack of layers, three things to learn: what does each layer keep of what was read?

The encoder of a Transformer is trained as part of a translator (MT), as a language model (LM) and
as a masked language model (MLM) on the same sentences, and read with the same lenses, after Voita,
Sennrich and Titov 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT, MOST_LAYERS, Increasing
from mnemoscope.core.data import from_plain
from mnemoscope.core.errors import UserError
from mnemoscope.data.sentences import Sentences
from mnemoscope.data.translation import Translation
from mnemoscope.memories.config import check_heads
from mnemoscope.models.encoder.config import Encoder
from mnemoscope.models.seq2seq.encoder_decoder.config import EncoderDecoder
from mnemoscope.studies.answers import answered, file_digest
from mnemoscope.studies.evolution.page import page
from mnemoscope.studies.evolution.result import (
    OBJECTIVES,
    EvolutionResult,
    Examined,
    Film,
    Short,
    Trained,
    Tried,
)
from mnemoscope.studies.pairs import PairsStudy
from mnemoscope.studies.study import Diverged, LearningRate
from mnemoscope.studies.trials import Trial, home_of, run_trials
from mnemoscope.training.config import RunConfig

# The first moment of a film, as a share of all steps.
FIRST = 1 / 128


class Evolution(PairsStudy):
    """What each layer keeps

    The same stack of Transformer layers learns to translate, to say the next word, or to fill in
    hidden words. How much of what it has read does each layer still hold, and how does that depend
    on what was learnt?
    """

    Result = EvolutionResult
    page = staticmethod(page)
    presets = {
        # Six layers that normalise afterwards learn so little from so few sentences that the
        # translator stays below its gate.
        "tatoeba": {
            "width": 128, "layers": 6, "heads": 4, "norm": "pre", "vocabulary_size": 4096,
            "steps": 8000, "batch": 64, "warmup": 400, "learning_rates": (1e-3, 2e-3, 4e-3),
            "sweep_steps": 500, "same_start": True, "moments": 5, "evaluated": 100,
            "translated": 500, "tested": 20_000, "tokens": 150_000, "clusters": 1200,
            "clusterings": 2, "samples": 4000, "edges": (10, 25, 50, 100, 250, 500, 1000, 2500),
            "parts_of_speech": True,
        },
        "paper": {
            "width": 512, "layers": 6, "heads": 8, "sentences": 500_000, "vocabulary_size": 16_000,
            "steps": 100_000, "batch": 256, "lr": 5e-4, "warmup": 4000, "tested": 20_000,
            "samples": 20_000,
            "edges": (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000),
        },
    }  # fmt: skip

    lr: LearningRate = 2e-3
    learning_rates: Annotated[tuple[float, ...], DISTINCT] | None = Field(
        None,
        min_length=1,
        description="tried by short trainings of every objective, the best is taken; none = lr",
    )
    sweep_steps: int = Field(400, ge=1, description="steps of these short trainings")
    width: int = Field(64, ge=1, description="size of the vector per token")
    layers: int = Field(4, ge=2, le=MOST_LAYERS, description="layers of the stack")
    heads: int = Field(4, ge=1, description="attention heads")
    norm: Literal["pre", "post"] = Field("post", description="where layers normalise")
    held_out: float = Field(
        0.1, gt=0, lt=0.5, description="share of sentences for validation, and for the test"
    )
    seeds: int = Field(3, ge=2, description="trainings per objective; two give one distance")
    same_start: bool = Field(
        False,
        description="train every objective once more, all from one initial encoder; the others "
        "then all begin with different ones",
    )
    moments: int = Field(
        0, ge=0, description="moments of training that lenses look at, more of them at first"
    )
    evaluated: int = Field(16, ge=1, description="validation batches that losses are taken from")
    translated: int = Field(
        0, ge=0, description="validation sentences that are translated for BLEU; 0 = none"
    )
    tested: int = Field(1200, ge=10, description="most sentences of the test part that are read")
    tokens: int = Field(
        50_000, ge=100, description="most tokens of these that information is measured on"
    )
    clusters: int | None = Field(
        None, ge=2, description="clusters per layer; by default as the lens information has it"
    )
    clusterings: int = Field(3, ge=1, description="of every layer, each from another seed")
    samples: int = Field(1500, ge=10, description="tokens per group, for change and influence")
    edges: Increasing = Field(
        (5, 15, 200), min_length=1, description="ranks at which groups of tokens end"
    )
    neighbours: int = Field(10, ge=1, description="nearest neighbours that are compared")
    parts_of_speech: bool = Field(
        False, description="group tokens by a list of English closed classes too"
    )

    @classmethod
    def preset(cls, name: str = "quick", **overrides: Any) -> Self:
        """Return the named preset with some options changed."""
        if name == "tatoeba" and not overrides.get("corpus"):
            raise UserError(
                "the preset tatoeba reads pairs of natural sentences, English first: give them "
                "with --corpus eng-deu.tsv.gz (an export of tatoeba.org)"
            )
        return super().preset(name, **overrides)

    @model_validator(mode="after")
    def _parted(self) -> Self:
        # Before the corpus is read, which takes seconds.
        check_heads(self.width, self.heads, None)
        if self.moments > self.steps:
            raise ValueError(f"moments={self.moments} are more than steps={self.steps}")
        return self

    def run(self, folder: Path, jobs: int) -> EvolutionResult:
        """Train every objective with every seed, look into each, then compare them."""
        from mnemoscope.studies.evolution import measure
        from mnemoscope.studies.evolution.held_out import held_out_batches
        from mnemoscope.studies.sizes import count

        runs, task = folder / "runs", self._sentences("masked")
        rates, tried = self._swept(runs, jobs)
        trials = self._trials(rates)
        steps = self.film()
        examine = partial(
            measure.examine,
            sentences=task.model_dump(),
            **self.some("tested", "clusters", "samples", "edges"),
            **self.some("clusterings", "tokens", "translated"),
            k=self.neighbours,
            classes=self.parts_of_speech,
            moments=steps,
        )
        found = run_trials(
            list(trials.values()),
            runs,
            examine,
            jobs,
            "evolution",
            kind=Examined,
            later=None if tried else (),
        )
        trained = [
            Trained(objective, seed, trial.name, outcome, trial.start is not None)
            for ((objective, seed), trial), outcome in zip(trials.items(), found, strict=True)
        ]
        whole = [one for one in trained if isinstance(one.outcome, Examined)]
        if {one.objective for one in whole} != set(OBJECTIVES):
            raise UserError("every training of one objective diverged: try a lower lr")
        homes = {one.run: home_of(runs, one.run) for one in whole}
        moments = self._film(folder, homes, steps, task)
        batches = held_out_batches(task, self.tested)
        return EvolutionResult(
            **self.some("corpus", "layers", "width", "samples"),
            clusters=next(one.clusters for one in found if isinstance(one, Examined)),
            k=self.neighbours,
            parameters={o: count(trials[o, 0].config.model) for o in OBJECTIVES},
            trials=tuple(trained),
            distances=measure.distances(homes, batches),
            untrained=measure.from_untrained(homes, batches),
            moments=moments.moments,
            rates=rates,
            tried=tried,
        )

    def film(self) -> tuple[int, ...]:
        """Steps after which lenses look, from none to all, more of them at first."""
        if not self.moments:
            return ()
        first = max(1.0, self.steps * FIRST)
        ratio = (self.steps / first) ** (1 / max(1, self.moments - 1))
        # Backwards from the last one, which is always there.
        spread = {round(self.steps / ratio**number) for number in range(self.moments)}
        return tuple(sorted({0, *spread}))

    def _film(self, folder: Path, homes: dict[str, Path], steps: Sequence[int], task: Any) -> Film:
        """Distances while the runs were trained; then nobody needs these weights any more."""
        from mnemoscope.studies.evolution import measure
        from mnemoscope.training.run import Run

        if not steps:
            return Film(())

        def of() -> dict[str, Any]:
            weights = {run: file_digest(home / "model.safetensors") for run, home in homes.items()}
            return {"weights": weights, "steps": list(steps)}

        compute = partial(measure.distances_at, homes, steps, task)
        kept = answered(folder / "moments.json", of, compute, Film)
        for home in homes.values():
            Run.open(home).forget_moments()
        return from_plain(Film, kept.values)

    def _trials(self, rates: dict[str, float]) -> dict[tuple[str, int], Trial]:
        """All trainings by objective and number; the last ones begin with the same encoder."""
        from mnemoscope.studies.evolution import measure

        moments = self.film()[1:-1]
        trials = {}
        for place, objective in enumerate(OBJECTIVES):
            for number in range(self.seeds):
                # An LM and an MLM of one seed would begin alike.
                seed = number * len(OBJECTIVES) + place if self.same_start else number
                config = self.run_config(objective, seed, rates[objective])
                name = f"{objective.lower()}-seed{number}"
                trials[objective, number] = Trial(name, config, None, moments)
            if self.same_start:
                seed = self.seeds * len(OBJECTIVES)
                config = self.run_config(objective, seed, rates[objective])
                start = partial(
                    measure.same_encoder, config, self.run_config("MT", seed, rates["MT"])
                )
                name = f"{objective.lower()}-same"
                trials[objective, self.seeds] = Trial(name, config, start, moments)
        return trials

    def _swept(self, runs: Path, jobs: int) -> tuple[dict[str, float], tuple[Tried, ...]]:
        """The best learning rate of every objective, and what was tried to find it."""
        from mnemoscope.studies.evolution import measure

        if self.learning_rates is None:
            return dict.fromkeys(OBJECTIVES, self.lr), ()
        keys = [(o, rate) for o in OBJECTIVES for rate in self.learning_rates]
        brief = self.model_copy(
            update={
                "steps": self.sweep_steps,
                "warmup": min(self.warmup, self.sweep_steps // 5),
            }
        )
        trials = [Trial(f"{o.lower()}-lr{lr:g}", brief.run_config(o, 0, lr)) for o, lr in keys]
        later = list(self._trials(dict.fromkeys(OBJECTIVES, self.lr)).values())
        label = "learning rates"
        found = run_trials(trials, runs, measure.short, jobs, label, kind=Short, later=later)
        tried = tuple(Tried(*key, outcome) for key, outcome in zip(keys, found, strict=True))
        best = {}
        for objective in OBJECTIVES:
            own = [one for one in tried if one.objective == objective]
            best[objective] = min(own, key=lambda one: _loss(one.outcome)).lr
        return best, tried

    def _sentences(self, objective: str) -> Sentences:
        return Sentences.make(objective=objective, **self.corpus_options())

    def run_config(self, objective: str, seed: int, lr: float | None = None) -> RunConfig:
        """The training of one objective from a seed, at this learning rate or the study's own."""
        training = self.training(lr or self.lr, seed)
        training = training.model_copy(update={"evaluate_batches": self.evaluated})
        shape = self.some("width", "layers", "heads", "norm")
        if objective == "MT":
            pairs = Translation.make(**self.corpus_options())
            vocab = {"vocab": pairs.vocab, "source_vocab": pairs.source_vocab}
            model = EncoderDecoder.make(**vocab, embeddings="shared", **shape)
            return RunConfig("translation", pairs, "encoder_decoder", model, training)
        task = self._sentences("next" if objective == "LM" else "masked")
        encoder = Encoder.make(vocab=task.vocab, causal=objective == "LM", **shape)
        return RunConfig("sentences", task, "encoder", encoder, training)


def _loss(outcome: Short | Diverged) -> float:
    return math.inf if isinstance(outcome, Diverged) else outcome.valid_loss
