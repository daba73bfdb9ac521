"""One stack of layers, three things to learn: what does each layer keep of what was read?

The encoder of a Transformer is trained as part of a translator (MT), as a language model (LM) and
as a masked language model (MLM) on the same sentences, and read with the same lenses, after Voita,
Sennrich and Titov 2019.

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError
from mnemoscope.data.grammar import MOST_CLAUSES, MOST_SENTENCES
from mnemoscope.data.sentences import Sentences
from mnemoscope.data.translation import Translation
from mnemoscope.data.vocabulary import SMALLEST_BPE
from mnemoscope.memories.config import MOST_LAYERS
from mnemoscope.models.encoder.config import Encoder
from mnemoscope.models.seq2seq.encoder_decoder.config import EncoderDecoder
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training

if TYPE_CHECKING:
    from torch import Tensor

OBJECTIVES = ("MT", "LM", "MLM")


class Evolution(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "What each layer keeps"
    question: ClassVar[str] = (
        "The same stack of Transformer layers learns to translate, to say the next word, or to "
        "fill in hidden words. How much of what it has read does each layer still hold, and how "
        "does that depend on what was learnt?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {
            "width": 512,
            "layers": 6,
            "heads": 8,
            "sentences": 500_000,
            "vocabulary_size": 16_000,
            "steps": 100_000,
            "batch": 256,
            "lr": 5e-4,
            "warmup": 4000,
            "tested": 20_000,
            "clusters": 1000,
            "samples": 20_000,
            "edges": (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000),
        },
    }

    width: int = Field(64, ge=1, description="size of the vector per token")
    layers: int = Field(4, ge=2, le=MOST_LAYERS, description="layers of the stack")
    heads: int = Field(4, ge=1, description="attention heads")
    norm: Literal["pre", "post"] = Field("post", description="where layers normalise")
    corpus: str | None = Field(
        None, description="sentence pairs, as for the task translation; none = from a grammar"
    )
    columns: tuple[str, ...] | None = Field(None, description="source and target in the corpus")
    vocabulary_size: int = Field(512, ge=SMALLEST_BPE, description="most tokens BPE may learn")
    held_out: float = Field(
        0.1, gt=0, lt=0.5, description="share of sentences for validation, and for the test"
    )
    sentences: int = Field(
        20_000, ge=100, le=MOST_SENTENCES, description="sentences of the grammar"
    )
    clauses: int = Field(
        2, ge=1, le=MOST_CLAUSES, description="most clauses in a sentence of the grammar"
    )
    steps: int = Field(1000, ge=1, description="optimiser steps per model")
    batch: int = Field(32, ge=1, description="sentences of mean length per step")
    lr: float = Field(2e-3, gt=0, description="highest learning rate")
    warmup: int = Field(100, ge=0, description="steps over which the learning rate rises")
    seeds: int = Field(3, ge=2, description="trainings per objective; two give one distance")
    tested: int = Field(1200, ge=10, description="most sentences of the test part that are read")
    clusters: int = Field(100, ge=2, description="clusters per layer, for mutual information")
    samples: int = Field(1500, ge=10, description="tokens per group, for change and influence")
    edges: Annotated[tuple[int, ...], DISTINCT] = Field(
        (5, 15, 200), description="ranks at which groups of tokens end"
    )
    neighbours: int = Field(10, ge=1, description="nearest neighbours that are looked at")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if list(self.edges) != sorted(set(self.edges)) or not self.edges or self.edges[0] < 1:
            raise ValueError("edges must be increasing ranks of at least 1")
        return self

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train every objective with every seed, look into each, then compare them."""
        from mnemoscope.studies.sizes import count

        trials = {
            (objective, seed): Trial(f"{objective.lower()}-seed{seed}", self._run(objective, seed))
            for objective in OBJECTIVES
            for seed in range(self.seeds)
        }
        examine = partial(
            look,
            sentences=self._sentences("masked").model_dump(),
            tested=self.tested,
            clusters=self.clusters,
            samples=self.samples,
            edges=self.edges,
            k=self.neighbours,
        )
        found = run_trials(list(trials.values()), folder / "runs", examine, jobs, "evolution")
        rows = [
            {"objective": objective, "seed": seed, "run": trial.name, **values}
            for ((objective, seed), trial), values in zip(trials.items(), found, strict=True)
        ]
        whole = [row for row in rows if "diverged" not in row]
        if {row["objective"] for row in whole} != set(OBJECTIVES):
            raise UserError("every training of one objective diverged: try a lower lr")
        return {
            "corpus": self.corpus,
            "seeds": self.seeds,
            "layers": self.layers,
            "width": self.width,
            "clusters": self.clusters,
            "samples": self.samples,
            "k": self.neighbours,
            "parameters": {o: count(trials[o, 0].config.model) for o in OBJECTIVES},
            "trials": rows,
            "distances": compare(
                {row["run"]: folder / "runs" / row["run"] for row in whole},
                self._sentences("masked"),
                self.tested,
            ),
        }

    def _options(self) -> dict[str, Any]:
        names = ("corpus", "columns", "vocabulary_size", "held_out", "sentences", "clauses")
        return {name: getattr(self, name) for name in names}

    def _sentences(self, objective: str) -> Sentences:
        return Sentences.make(objective=objective, **self._options())

    def _run(self, objective: str, seed: int) -> RunConfig:
        training = Training.make(
            steps=self.steps,
            batch=self.batch,
            lr=self.lr,
            warmup=self.warmup,
            seed=seed,
            evaluate_every=self.steps,
            evaluate_batches=16,
            checkpoint_every=max(200, self.steps // 5),
            keep=1,
            device=self.device,
        )
        shape: dict[str, Any] = {"width": self.width, "layers": self.layers, "heads": self.heads}
        shape["norm"] = self.norm
        if objective == "MT":
            pairs = Translation.make(**self._options())
            vocab = {"vocab": pairs.vocab, "source_vocab": pairs.source_vocab}
            model = EncoderDecoder.make(**vocab, embeddings="shared", **shape)
            return RunConfig("translation", pairs, "encoder_decoder", model, training)
        task = self._sentences("next" if objective == "LM" else "masked")
        encoder = Encoder.make(vocab=task.vocab, causal=objective == "LM", **shape)
        return RunConfig("sentences", task, "encoder", encoder, training)

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.evolution import page as evolution_page

        return evolution_page.tell(result)


SITES = ("embeddings", "layer.*.out")


def look(
    folder: Path,
    sentences: dict[str, Any],
    tested: int,
    clusters: int,
    samples: int,
    edges: Sequence[int],
    k: int,
) -> dict[str, Any]:
    """Look into a trained model with all lenses; plain values that JSON can hold."""
    import numpy as np
    import torch

    from mnemoscope.activations.capture import capture
    from mnemoscope.lenses.change import Change
    from mnemoscope.lenses.influence import Influence
    from mnemoscope.lenses.information.lens import Information
    from mnemoscope.lenses.neighbours import Neighbours
    from mnemoscope.lenses.statistics.groups import by_frequency, everything
    from mnemoscope.training.machine import join
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    model = run.model().to(join(run.config.training.device).device)
    task = Sentences.make(**sentences)
    batches = read(task, tested)
    tokens = np.concatenate([one.numpy().ravel() for one in batches])
    groups, whole = by_frequency(tokens, edges), everything(len(tokens))
    information = Information(("token", "next", "previous"), clusters=clusters)
    change, overall = Change(groups, samples=samples), Change(whole, samples=len(tokens))
    near = Neighbours(k, samples=4000)
    for seen in capture(model, batches, sites=SITES):
        for lens in (information, change, overall, near):
            lens.observe(seen)
    influence = Influence(groups, samples=samples)
    influence.observe(model, batches)
    told, close = information.result(), near.result()
    found: dict[str, Any] = {
        "sites": list(told.sites),
        "tokens": len(tokens),
        "entropy": dict(told.entropy),
        "information": {t: values.mean(1).tolist() for t, values in told.value.items()},
        "null": {t: values.mean(1).tolist() for t, values in told.null.items()},
        "adjusted": {t: values.mean(1).tolist() for t, values in told.adjusted.items()},
        "inertia": told.inertia.mean(1).tolist(),
        "clustering_spread": {t: float(np.ptp(v, axis=1).max()) for t, v in told.value.items()},
        "change": overall.result().distance[0].tolist(),
        "neighbours": {what: values.tolist() for what, values in close.value.items()},
        "neighbours_null": close.null,
        "ceiling": close.ceiling,
        "seconds": sum(entry.get("seconds", 0.0) for entry in run.metrics()),
        "valid_loss": next(e["valid_loss"] for e in reversed(run.metrics()) if "valid_loss" in e),
    }
    grouped = {"change_by_group": change.result(), "influence": influence.result()}
    for name, by_group in grouped.items():
        found[name] = {
            "groups": list(by_group.groups),
            "left_out": by_group.left_out,
            "distance": by_group.distance.tolist(),
            "error": by_group.error.tolist(),
        }
    if run.config.task_name == "sentences" and task.vocab == run.config.task.vocab:
        rng = np.random.default_rng(0)
        pairs = [task.hide(one.numpy(), rng) for one in batches]
        masked = Information(("label",), clusters=clusters, types=10**9)
        asked = [torch.from_numpy(targets) for _, targets in pairs]
        for seen in capture(
            model, [torch.from_numpy(one) for one, _ in pairs], sites=SITES, labels=asked
        ):
            masked.observe(seen)
        hidden = masked.result()
        found["masked"] = {
            "label": hidden.value["label"].mean(1).tolist(),
            "null": hidden.null["label"].mean(1).tolist(),
            "entropy": hidden.entropy["label"],
        }
    return found


def read(task: Sentences, tested: int, batch: int = 64) -> list[Tensor]:
    """The test sentences as tensors of one length each, the same for all models."""
    import numpy as np
    import torch

    part = task.encoded("test")
    step = max(1, len(part) // tested)
    groups: dict[int, list[Any]] = {}
    for one in part[::step][:tested]:
        groups.setdefault(len(one), []).append(one)
    found = [
        torch.from_numpy(np.stack(rows[at : at + batch]))
        for _, rows in sorted(groups.items())
        for at in range(0, len(rows), batch)
    ]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[place] for place in order]


def compare(runs: dict[str, Path], task: Sentences, tested: int) -> list[dict[str, Any]]:
    """PWCCA between any two runs, layer by layer, on the same tokens."""
    from mnemoscope.activations.capture import side_by_side
    from mnemoscope.lenses.similarity.lens import Similarity

    lens: Similarity | None = None
    for seen in side_by_side(runs, read(task, tested), sites=SITES):
        if lens is None:
            places = list(dict.fromkeys(name.partition("/")[2] for name in seen.sites))
            pairs = [(f"{a}/{s}", f"{b}/{s}") for a, b in combinations(runs, 2) for s in places]
            lens = Similarity(pairs, folds=1)
        lens.observe(seen)
    assert lens is not None
    found = lens.result()
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for number, (left, right) in enumerate(found.pairs):
        pair = left.partition("/")[0], right.partition("/")[0]
        row = rows.setdefault(pair, {"left": pair[0], "right": pair[1], "pwcca": [], "null": []})
        row["pwcca"].append(float(found.distance["pwcca"][number]))
        row["null"].append(float(found.null["pwcca"][number]))
    return list(rows.values())
