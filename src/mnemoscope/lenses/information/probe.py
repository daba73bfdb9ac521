"""What a linear reader finds in vectors about a label: a lower bound of their information, in nats.

Whatever a classifier q says, I(X; Y) ≥ H(Y) − E[−log q(y | x)] on texts that it was not fitted on.
Here q is Gaussian with one covariance for all kinds of labels (linear discriminant analysis): it is
fitted in closed form, so it costs less than a clustering. Its trust in the vectors is chosen on
other texts, down to none, where it says how frequent labels are and the bound is nought.

Shapes: n tokens, D width, K kinds of labels.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.lenses.information.entropy import entropy
from mnemoscope.lenses.statistics.clusters import standardise

# Share of the mean variance that is added to the covariance within kinds, and how many tokens the
# mean of a kind is pulled to the mean of all by.
RIDGE, PULL = 1e-2, 1.0
TRUST = (0.0, *(2.0**power for power in range(-6, 2)))
# Tokens that are judged by, and kinds that are told apart; all rarer ones are one kind together,
# of which the vectors know no more than of the labels themselves.
JUDGED, KINDS = 8192, 1000


def quarters(rows: Ints, seed: int = 0) -> tuple[Ints, Ints, Ints]:
    """Tokens to fit on (half), to choose by and to judge by (a quarter each): texts stay whole.

    A single text is dealt out token by token.
    """
    texts, which = np.unique(rows, return_inverse=True)
    if len(texts) < 4:
        texts, which = np.arange(len(rows)), np.arange(len(rows))
    deal = np.random.default_rng(seed).permutation(len(texts)) % 4
    part = deal[which]
    return np.flatnonzero(part < 2), np.flatnonzero(part == 2), np.flatnonzero(part == 3)


def probe(vectors: Tensor, labels: Ints, rows: Ints) -> tuple[float, float]:
    """The bound for vectors (n, D) and labels (n,) of texts ``rows`` (n,), and its standard error.

    Entropy is that of the labels judged by, estimated too low if at all: the bound stays one.
    """
    kinds, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    classes = np.argsort(order)[classes].clip(max=KINDS)  # by rank
    fit, choose, judge = quarters(rows)
    choose, judge = choose[:JUDGED], judge[:JUDGED]
    if len(kinds) < 2 or not len(choose) or len(judge) < 2:
        return 0.0, 0.0
    space = standardise(vectors)
    numbers = torch.from_numpy(classes)
    weights, bias, prior = _discriminant(space[fit], numbers[fit], int(classes.max()) + 1)

    def losses(tokens: Ints, *trust: float) -> list[Floats]:
        """−log q of what is there, for every strength of trust."""
        scores, asked = torch.addmm(bias, space[tokens], weights), numbers[tokens, None]
        said = (torch.log_softmax(prior + one * scores, 1).gather(1, asked) for one in trust)
        return [-one[:, 0].double().numpy() for one in said]

    trust = TRUST[int(np.argmin([one.mean() for one in losses(choose, *TRUST)]))]
    (left,) = losses(judge, trust)
    known = entropy(classes[judge]) - float(left.mean())
    return max(known, 0.0), float(left.std() / np.sqrt(len(left)))


def _discriminant(values: Tensor, classes: Tensor, kinds: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (D, K) and bias (K,) of log p(x | kind), and log p(kind), up to what all share."""
    sizes = torch.bincount(classes, minlength=kinds).to(values)
    sums = values.new_zeros(kinds, values.shape[1]).index_add_(0, classes, values)
    means = (sums / (sizes[:, None] + PULL)).double()
    apart = values.double() - means[classes]
    within = apart.T @ apart / len(values)
    within.diagonal().add_(RIDGE * float(within.trace()) / len(within) + 1e-12)
    weights = torch.linalg.solve(within, means.T, left=True)
    bias = -(means.T * weights).sum(0) / 2
    prior = ((sizes + 1) / (sizes + 1).sum()).log()
    return weights.float(), bias.float(), prior
