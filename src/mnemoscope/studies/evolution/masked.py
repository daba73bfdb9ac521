"""What a model makes of words that a masked language model is asked for, taken apart by their fate.

Of these words 8 in 10 are hidden, 1 is replaced and 1 kept; pooled, what is known of a word that
can be read would pass for what is known of one that cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import COLUMNS, Observed, capture
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.sentences import Sentences
from mnemoscope.lenses.change.lens import Change
from mnemoscope.lenses.information.lens import PER_CLUSTER, PER_KIND, Information
from mnemoscope.lenses.statistics.groups import by_tags
from mnemoscope.models.model import SequenceModel
from mnemoscope.studies.evolution.result import FATES, Apart, Curve, Masked

# Every sentence is masked anew until the rarest fate has its samples, at most so often.
PASSES = 50


def masked(
    model: SequenceModel,
    task: Sentences,
    batches: Sequence[Tensor],
    sites: Sequence[str],
    samples: int,
) -> Masked:
    """Let a model read sentences masked as in training; ``samples`` words of every fate count."""
    words, sizes = np.unique(
        np.concatenate([one[:, :-1].numpy().ravel() for one in batches]), return_counts=True
    )
    kinds = words[np.argsort(-sizes, kind="stable")[: max(2, samples // PER_KIND)]]
    rng, counts = np.random.default_rng(0), np.zeros(len(FATES), dtype=np.int64)
    read: list[Tensor] = []
    fates: list[Ints] = []
    for _ in range(PASSES):
        for one in batches:
            tokens, asked = task.hide(one.numpy(), rng)
            fate = np.where(np.isin(one, kinds), _fate(tokens, asked, task.words.size + 1), -1)
            fate[:, -1] = -1  # the end of a sentence is never asked for
            read.append(torch.from_numpy(tokens))
            fates.append(fate)
            counts += [int((fate == number).sum()) for number in range(len(FATES))]
        if counts.min() >= samples:
            break
    original = [batches[number % len(batches)] for number in range(len(read))]
    names = [*FATES, ""]
    groups = by_tags([[names[number] for number in row] for one in fates for row in one])
    change = Change(groups, samples=samples)
    clusters = max(len(kinds), samples // PER_CLUSTER, 2)
    known = {
        name: Information(("label", "token"), clusters=clusters, types=10**9, samples=samples)
        for name in groups.names
    }
    for seen in capture(model, read, sites=sites, labels=original):
        change.observe(seen)
        group = groups(seen)
        for number, lens in enumerate(known.values()):
            lens.observe(some(seen, np.flatnonzero(group == number)))
    moved = change.result()
    apart = {}
    for number, name in enumerate(moved.groups):
        found = known[name].result()
        value, null = means(found.value), means(found.null)
        apart[name] = Apart(
            word=value["label"],
            null=null["label"],
            entropy=found.entropy["label"],
            read=value["token"],
            change=tuple(moved.distance[number].tolist()),
        )
    hidden = apart["hidden"]
    return Masked(hidden.word, hidden.null, hidden.entropy, apart)


def _fate(tokens: Ints, asked: Ints, mask: int) -> Ints:
    """The number of every token's fate in `FATES`; one replaced by itself was kept."""
    conditions = [asked == NO_QUESTION, tokens == mask, tokens != asked]
    numbers = [FATES.index(one) for one in ("untouched", "hidden", "replaced")]
    return np.select(conditions, numbers, FATES.index("kept"))


def some(seen: Observed, chosen: Ints) -> Observed:
    """Some tokens of a batch, by their numbers."""
    columns = {name: getattr(seen, name)[chosen] for name in COLUMNS}
    where = torch.from_numpy(chosen)
    return Observed(**columns, sites={n: v[where.to(v.device)] for n, v in seen.sites.items()})


def means(values: dict[str, Floats]) -> dict[str, Curve]:
    """Means over clusterings of (sites, clusterings)."""
    return {target: tuple(one.mean(1).tolist()) for target, one in values.items()}
