"""Everything of the study `evolution` that runs models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import capture, side_by_side
from mnemoscope.data.sentences import Sentences
from mnemoscope.data.translation import Translation
from mnemoscope.lenses.change.lens import Change
from mnemoscope.lenses.influence.lens import Influence
from mnemoscope.lenses.information.lens import Information
from mnemoscope.lenses.neighbours.lens import Neighbours
from mnemoscope.lenses.occurrences.lens import Occurrences
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import by_frequency, everything
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.encoder_decoder.model import EncoderDecoderModel
from mnemoscope.studies.evolution import tagging
from mnemoscope.studies.evolution.held_out import SITES, grouped, held_out_batches
from mnemoscope.studies.evolution.masked import masked, means
from mnemoscope.studies.evolution.moments import SENTENCES, moment
from mnemoscope.studies.evolution.result import Distance, DistancesAt, Examined, Film, Short
from mnemoscope.studies.evolution.trivial import trivial_losses
from mnemoscope.training import scores
from mnemoscope.training.config import RunConfig
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

# Tokens among which neighbours are sought, and sentences in which tokens are hidden from others:
# every layer reads these again for every group.
NEAR, HIDDEN_IN = 4000, 6000


def examine(
    folder: Path,
    sentences: dict[str, Any],
    tested: int,
    clusters: int | None,
    samples: int,
    edges: Sequence[int],
    k: int,
    clusterings: int = 3,
    tokens: int = 50_000,
    translated: int = 0,
    classes: bool = False,
    moments: Sequence[int] = (),
) -> Examined:
    """Look into a trained model with all lenses, and into what it was at some moments."""
    run = Run.open(folder)
    device = join(run.config.training.device).device
    model = run.model().to(device)
    task = Sentences.make(**sentences)
    batches = held_out_batches(task, tested)
    read = np.concatenate([one.numpy().ravel() for one in batches])
    groups, whole = by_frequency(read, edges), everything(len(read))
    information = Information(
        ("token", "next", "previous"), clusters=clusters, samples=tokens, seeds=clusterings
    )
    change, overall = Change(groups, samples=samples), Change(whole, samples=len(read))
    near = Neighbours(k, samples=NEAR)
    lenses: list[Any] = [information, change, overall, near]
    influence = Influence(groups, samples=samples)
    tagged, labels, drawn = None, None, None
    if classes:
        by_class, labels = tagging.by_class(task, batches)
        tagged = Change(by_class, samples=samples), Influence(by_class, samples=samples)
        drawn = Occurrences(tagging.chosen(task, batches), samples=tagging.OCCURRENCES)
        lenses += [tagged[0], drawn]
    for seen in capture(model, batches, sites=SITES, labels=labels):
        for lens in lenses:
            lens.observe(seen)
    # In a random order: the first of them are like all.
    sizes = np.cumsum([len(one) for one in batches])
    some = batches[: max(1, int(np.searchsorted(sizes, HIDDEN_IN)))]
    influence.observe(model, some)
    if tagged is not None:
        tagged[1].observe(model, some)
    known, close = information.result(), near.result()
    knows_mask = run.config.task_name == "sentences" and task.vocab == run.config.task.vocab
    return Examined(
        sites=tuple(known.sites),
        tokens=len(read),
        entropy=dict(known.entropy),
        information=means(known.value),
        null=means(known.null),
        adjusted=means(known.adjusted),
        inertia=tuple(known.inertia.mean(1).tolist()),
        clustering_spread={t: float(np.ptp(v, axis=1).max()) for t, v in known.value.items()},
        change=tuple(overall.result().distance[0].tolist()),
        change_by_group=grouped(change.result()),
        influence=grouped(influence.result()),
        neighbours={what: tuple(values.tolist()) for what, values in close.value.items()},
        neighbours_null=close.null,
        ceiling=close.ceiling,
        seconds=run.seconds,
        valid_loss=run.valid_loss,
        masked=masked(model, task, batches, SITES, samples) if knows_mask else None,
        trivial=trivial_losses(run.config),
        probe={target: tuple(bound.tolist()) for target, bound in known.probe.items()},
        cluster_entropy=tuple(known.cluster_entropy.mean(1).tolist()),
        clusters=known.clusters,
        bleu=_bleu(run, translated, device),
        change_by_class=None if tagged is None else grouped(tagged[0].result()),
        influence_by_class=None if tagged is None else grouped(tagged[1].result()),
        moments=tuple(moment(run, step, task, edges, k, device) for step in moments),
        drawn=None if drawn is None else tagging.drawn(drawn.result()),
    )


def short(folder: Path) -> Short:
    """What a short training came to."""
    return Short(Run.open(folder).valid_loss)


def _bleu(run: Run, translated: int, device: torch.device) -> float | None:
    """sacreBLEU of so many sentences of the validation part, None of what does not translate."""
    task = run.config.task
    if not translated or not isinstance(task, Translation):
        return None
    translator = run.translator()
    translator.model.to(device)
    asked = scores.gather(task.pairs("valid"), translated)
    said = translator([one.source for one in asked], beam=1)
    return float(scores.bleu([best[0].text for best in said], asked)[0].value)


def same_encoder(config: RunConfig, translator: RunConfig) -> SequenceModel:
    """A fresh model whose embeddings and encoder are those of the fresh translator.

    The mask, which a translator does not know, keeps what was drawn for it.
    """
    model, given = Run(Path(), config).fresh(), Run(Path(), translator).fresh()
    assert isinstance(given, EncoderDecoderModel)
    if isinstance(model, EncoderDecoderModel):
        return given
    model.layers.load_state_dict(given.encoder.state_dict())
    known = given.source_embedding.weight
    with torch.no_grad():
        model.embedding.weight[: len(known)] = known
    return model


Models = Mapping[str, Any]


def distances(
    models: Models, batches: Sequence[Tensor], pairs: Iterable[tuple[str, str]] | None = None
) -> tuple[Distance, ...]:
    """PWCCA between any two models, or those of ``pairs``, site by site, on the same tokens."""
    lens: Similarity | None = None
    wanted = list(combinations(models, 2) if pairs is None else pairs)
    for seen in side_by_side(models, batches, sites=SITES):
        if lens is None:
            sites = list(dict.fromkeys(name.partition("/")[2] for name in seen.sites))
            lens = Similarity([(f"{a}/{s}", f"{b}/{s}") for a, b in wanted for s in sites], folds=1)
        lens.observe(seen)
    assert lens is not None
    found = lens.result()
    # Pair by pair, and of each all sites in order, as they were asked for.
    pwcca, null = (
        np.reshape(values["pwcca"], (-1, len(sites))).tolist()
        for values in (found.distance, found.null)
    )
    return tuple(
        Distance(a, b, tuple(pwcca[number]), tuple(null[number]))
        for number, (a, b) in enumerate(wanted)
    )


def from_untrained(runs: dict[str, Path], batches: Sequence[Tensor]) -> tuple[Distance, ...]:
    """PWCCA of every run from itself before its first step, on the same tokens."""
    found: list[Distance] = []
    for name, folder in runs.items():
        run = Run.open(folder)
        both = {name: run.model(), f"{name} untrained": run.moment(0)}
        found += distances(both, batches)
    return tuple(found)


def distances_at(runs: dict[str, Path], steps: Sequence[int], task: Sentences) -> Film:
    """PWCCA between any two runs as they were after some steps."""
    batches = held_out_batches(task, SENTENCES)
    opened = {name: Run.open(folder) for name, folder in runs.items()}
    return Film(
        tuple(
            DistancesAt(
                step, distances({name: one.moment(step) for name, one in opened.items()}, batches)
            )
            for step in steps
        )
    )
