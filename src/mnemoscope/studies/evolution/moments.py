"""A model on its way: the lenses on its weights as they were after some steps.

They read fewer tokens than at the end, with one clustering: a film has many pictures. Each of these
can be compared with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import capture
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.sentences import Sentences
from mnemoscope.lenses.change.lens import Change
from mnemoscope.lenses.influence.lens import Influence
from mnemoscope.lenses.information.lens import Information
from mnemoscope.lenses.neighbours.lens import Neighbours
from mnemoscope.lenses.statistics.groups import by_frequency, everything
from mnemoscope.models.model import SequenceModel
from mnemoscope.studies.evolution.held_out import SITES, grouped, held_out_batches
from mnemoscope.studies.evolution.masked import means, some
from mnemoscope.studies.evolution.result import Curve, Moment
from mnemoscope.training.evaluate import evaluate
from mnemoscope.training.run import Run

# Sentences that are read, tokens that count among them, and those among which neighbours are.
SENTENCES, TOKENS, NEAR = 1000, 10_000, 2000
# Tokens of every group, and how often sentences are masked anew for hidden words.
SAMPLES, MASKINGS = 300, 4


def moment(
    run: Run, step: int, task: Sentences, edges: Sequence[int], k: int, device: torch.device
) -> Moment:
    """What lenses see in the model of a run after so many steps."""
    model = run.moment(step).to(device)
    batches = held_out_batches(task, SENTENCES)
    read = np.concatenate([one.numpy().ravel() for one in batches])
    groups = by_frequency(read, edges)
    samples = min(SAMPLES, max(4, int(groups.counts.min())))
    information = Information(("token", "next"), samples=TOKENS, seeds=1)
    change = Change(groups, samples=samples)
    overall = Change(everything(len(read)), samples=len(read))
    near = Neighbours(k, samples=NEAR)
    for seen in capture(model, batches, sites=SITES):
        for lens in (information, change, overall, near):
            lens.observe(seen)
    influence = Influence(groups, samples=samples)
    influence.observe(model, batches)
    known = information.result()
    settings = run.config.training
    score = evaluate(
        model,
        run.config.task,
        batches=settings.evaluate_batches,
        size=run.config.held_out_rows,
        seed=settings.seed,
    )
    knows_mask = run.config.task_name == "sentences" and task.vocab == run.config.task.vocab
    return Moment(
        step=step,
        valid_loss=score.loss,
        information=means(known.value),
        null=means(known.null),
        change=tuple(overall.result().distance[0].tolist()),
        change_by_group=grouped(change.result()),
        influence=grouped(influence.result()),
        neighbours={what: tuple(v.tolist()) for what, v in near.result().value.items()},
        hidden=_hidden(model, task, batches) if knows_mask else None,
    )


def _hidden(model: SequenceModel, task: Sentences, batches: Sequence[Tensor]) -> Curve:
    """Nats about words under the mask, in their own vectors."""
    rng, mask = np.random.default_rng(0), task.words.size + 1
    lens = Information(("label",), samples=TOKENS, seeds=1)
    masked = [task.hide(one.numpy(), rng) for _ in range(MASKINGS) for one in batches]
    read, asked = ([torch.from_numpy(part[which]) for part in masked] for which in (0, 1))
    for seen in capture(model, read, sites=SITES, labels=asked):
        under = (seen.tokens == mask) & (seen.labels != NO_QUESTION)
        lens.observe(some(seen, np.flatnonzero(under)))
    return means(lens.result().value)["label"]
