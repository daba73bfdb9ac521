"""Everything of the study `evolution` that runs models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import capture, side_by_side
from mnemoscope.data.sentences import Sentences
from mnemoscope.lenses.change.lens import Change
from mnemoscope.lenses.change.result import GroupedResult
from mnemoscope.lenses.influence.lens import Influence
from mnemoscope.lenses.information.lens import Information
from mnemoscope.lenses.neighbours.lens import Neighbours
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import by_frequency, everything
from mnemoscope.studies.evolution.masked import masked, means
from mnemoscope.studies.evolution.result import ByFrequency, Distance, Examined
from mnemoscope.studies.evolution.trivial import trivial_losses
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

SITES = ("embeddings", "layer.*.out")


def examine(
    folder: Path,
    sentences: dict[str, Any],
    tested: int,
    clusters: int | None,
    samples: int,
    edges: Sequence[int],
    k: int,
) -> Examined:
    """Look into a trained model with all lenses."""
    run = Run.open(folder)
    model = run.model().to(join(run.config.training.device).device)
    task = Sentences.make(**sentences)
    batches = held_out_batches(task, tested)
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
    known, close = information.result(), near.result()
    knows_mask = run.config.task_name == "sentences" and task.vocab == run.config.task.vocab
    return Examined(
        sites=tuple(known.sites),
        tokens=len(tokens),
        entropy=dict(known.entropy),
        information=means(known.value),
        null=means(known.null),
        adjusted=means(known.adjusted),
        inertia=tuple(known.inertia.mean(1).tolist()),
        clustering_spread={t: float(np.ptp(v, axis=1).max()) for t, v in known.value.items()},
        change=tuple(overall.result().distance[0].tolist()),
        change_by_group=_grouped(change.result()),
        influence=_grouped(influence.result()),
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
    )


def _grouped(found: GroupedResult) -> ByFrequency:
    distance, error = (
        tuple(tuple(row) for row in values.tolist()) for values in (found.distance, found.error)
    )
    return ByFrequency(tuple(found.groups), found.left_out, distance, error)


def held_out_batches(task: Sentences, tested: int, batch: int = 64) -> list[Tensor]:
    """The test sentences as tensors of one length each, the same for all models."""
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
    return [found[number] for number in order]


def distances(runs: dict[str, Path], task: Sentences, tested: int) -> tuple[Distance, ...]:
    """PWCCA between any two runs, site by site, on the same tokens."""
    lens: Similarity | None = None
    for seen in side_by_side(runs, held_out_batches(task, tested), sites=SITES):
        if lens is None:
            sites = list(dict.fromkeys(name.partition("/")[2] for name in seen.sites))
            pairs = [(f"{a}/{s}", f"{b}/{s}") for a, b in combinations(runs, 2) for s in sites]
            lens = Similarity(pairs, folds=1)
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
        for number, (a, b) in enumerate(combinations(runs, 2))
    )
