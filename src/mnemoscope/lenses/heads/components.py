"""Which singular vectors of a head carry what positions alone would score.

Shapes: H heads, T positions, D width, E width of a head, J components kept.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.weights import project
from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.factors import Factors
from mnemoscope.lenses.positions.fourier import spectra
from mnemoscope.lenses.positions.frequencies import frequencies


def components(
    factors: Factors, inputs: Tensor, table: Tensor | None, count: int
) -> dict[str, Floats]:
    """The ``count`` components with the strongest waves: s_j |q_j| |k_j| of centred means (T, D).

    Curves are scaled by √s, so that their product is a score; ``table`` is (T, D) or None. For the
    position embeddings alone biases are left out: they are not what a position brings.
    """
    root = factors.values.sqrt()[:, None]
    left = project(inputs, factors.left) * root  # (H, T, E)
    right = project(inputs, factors.right) * root
    left, right = left - left.mean(1, keepdim=True), right - right.mean(1, keepdim=True)
    # The energy of each part alone. Parts may cancel in the sum: this ranks them, no more.
    energy = left.square().sum(1) * right.square().sum(1)
    best = energy.topk(min(count, energy.shape[1]), 1).indices  # (H, J)

    def chosen(curves: Tensor) -> Floats:
        found = torch.take_along_dim(curves, best[:, None], 2)
        return found.transpose(1, 2).numpy()

    found = {
        "values": torch.take_along_dim(factors.values, best, 1).numpy(),
        "left": chosen(left),
        "right": chosen(right),
        "share": torch.take_along_dim(
            energy / energy.sum(1, keepdim=True).clamp(min=1e-300), best, 1
        ).numpy(),
    }
    if table is not None:
        table = table.double() - table.double().mean(0)
        for name, side in (("table_left", factors.left), ("table_right", factors.right)):
            found[name] = chosen(table @ side[:, :-1] * root)
    return found


def periods(left: Floats, right: Floats) -> Floats:
    """Tokens in the strongest wave of curves (…, J, T), left and right: (2, …, J).

    From all positions at once: a single component may have waves longer than a window.
    """
    both = torch.from_numpy(np.stack((left, right)))
    size = both.shape[-1]
    power = spectra(both.unsqueeze(-1), size).abs().square().mean((-1, -3)).numpy()
    found: Floats = 1 / frequencies(size)[power.argmax(-1)]
    return found
