"""Second moments of vectors that come in batches, exact for data far from zero.

Shapes: n samples, D and E widths of two sites.

Every batch is centred at its own mean, in float64, before anything is multiplied; means and sums
of two batches are then joined as Chan, Golub and LeVeque (1979) do. Sums of x xᵀ minus n m mᵀ
would lose all digits as soon as the mean is large against the spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError

Pair = tuple[str, str]


@dataclass(eq=False)
class Moments:
    """Running sums for pairs of sites seen on the same samples, each site with itself included.

    means   (D,) by site
    cross   (D, E) by pair of sites: Σ (x − m)(y − l)ᵀ
    """

    pairs: Sequence[Pair]
    count: int = 0
    means: dict[str, Tensor] = field(default_factory=dict)
    cross: dict[Pair, Tensor] = field(default_factory=dict)
    # By pair: Σ |x − m|² |y − l|², Σ |x − m|² (y − l), Σ |y − l|² (x − m).
    _higher: dict[Pair, tuple[Tensor, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = list(dict.fromkeys(name for pair in self.pairs for name in pair))
        self.pairs = list(dict.fromkeys([*((name, name) for name in self.names), *self.pairs]))

    def inner(self, name: str) -> Tensor:
        """Σ (x − m)(x − m)ᵀ of one site, (D, D)."""
        return self.cross[name, name]

    def fourth(self, pair: Pair) -> float:
        """Σ |x − m|² |y − l|², which the debiased CKA needs."""
        return float(self._higher[pair][0])

    def add(self, batch: Mapping[str, Tensor]) -> None:
        """Take in samples (n, D) of every site."""
        new, centred = Moments(self.pairs), {}
        for name in self.names:
            values = batch[name].detach().cpu().double()
            new.count = len(values)
            if not new.count:
                return
            new.means[name] = values.mean(0)
            centred[name] = values - new.means[name]
        squares = {name: one.square().sum(1) for name, one in centred.items()}
        for left, right in self.pairs:
            x, y = centred[left], centred[right]
            new.cross[left, right] = x.T @ y
            a, b = squares[left], squares[right]
            new._higher[left, right] = (a @ b, a @ y, b @ x)
        self.merge(new)

    def merge(self, other: Moments) -> None:
        """Take in what somebody else has seen."""
        if not other.count:
            return
        if not self.count:
            self.count, self.means = other.count, dict(other.means)
            self.cross, self._higher = dict(other.cross), dict(other._higher)
            return
        total = self.count + other.count
        # Where both means lie as seen from the joint one.
        apart = {name: self.means[name] - other.means[name] for name in self.names}
        mine = {name: step * (other.count / total) for name, step in apart.items()}
        theirs = {name: step * (-self.count / total) for name, step in apart.items()}
        for left, right in self.pairs:
            pair = left, right
            moved = zip(
                self._moved(pair, mine[left], mine[right]),
                other._moved(pair, theirs[left], theirs[right]),
                strict=True,
            )
            self._higher[pair] = tuple(a + b for a, b in moved)
        for left, right in self.pairs:
            # count · mine mineᵀ + other.count · theirs theirsᵀ, as one product
            step = torch.outer(apart[left], apart[right]) * (self.count * other.count / total)
            self.cross[left, right] = self.cross[left, right] + other.cross[left, right] + step
        for name in self.names:
            self.means[name] = self.means[name] - mine[name]
        self.count = total

    def _moved(self, pair: Pair, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        """The sums of higher order when every x becomes x + a and every y becomes y + b."""
        both, skew_y, skew_x = self._higher[pair]
        x, y = self.inner(pair[0]), self.inner(pair[1])
        cross, n = self.cross[pair], self.count
        aa, bb, trace_x, trace_y = a @ a, b @ b, x.trace(), y.trace()
        # Σ x and Σ y vanish, since both are centred.
        fourth = both + 2 * skew_y @ b + 2 * skew_x @ a + 4 * a @ cross @ b
        fourth = fourth + bb * trace_x + aa * trace_y + n * aa * bb
        moved_y = skew_y + 2 * a @ cross + (trace_x + n * aa) * b
        moved_x = skew_x + 2 * cross @ b + (trace_y + n * bb) * a
        return fourth, moved_y, moved_x

    def check(self) -> None:
        """Raise `UserError` when distances would mean nothing: too few samples, or no spread."""
        for name in self.names:
            width = len(self.means[name]) if self.count else 0
            if self.count <= width or self.count < 4:
                raise UserError(
                    f"{self.count} samples are too few for {name}, which has {width} dimensions: "
                    f"any two such sites look alike. Read more than {width} tokens, better "
                    f"{10 * width}"
                )
            spread = float(self.inner(name).trace())
            if spread <= 1e-20 * self.count * float(self.means[name].square().sum() + 1e-300):
                raise UserError(f"{name} is constant: it holds the same vector for every token")


@dataclass(frozen=True, eq=False)
class White:
    """A site made white: computed once, used for all pairs it belongs to.

    to_white   (r, D)  Λ^(−1/2) Vᵀ, of the r directions that are not nothing
    to_scaled  (r, D)  Λ^(1/2) Vᵀ: what a unit vector of white space weighs in every neuron
    values     (r,)    eigenvalues, largest first
    """

    to_white: Tensor
    to_scaled: Tensor
    values: Tensor

    @property
    def rank(self) -> int:
        """Directions that vary."""
        return len(self.values)


# Layer norms leave one direction exactly empty; any cut from 1e-4 to 1e-12 gives five equal digits.
RANK_CUT = 1e-10


def whiten(inner: Tensor, cut: float = RANK_CUT) -> White:
    """Eigenvectors of Σ (x − m)(x − m)ᵀ, without those below ``cut`` times the largest."""
    values, vectors = torch.linalg.eigh(inner)
    kept = values > cut * values[-1]
    values, vectors = values[kept].flip(0), vectors[:, kept].flip(1)
    root = values.sqrt()
    return White((vectors / root).T, (vectors * root).T, values)
