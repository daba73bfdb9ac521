"""The result of the study `retention`, and what its page derives from it.

A result may not be whole yet: then some trials are missing, and what they would say is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.retention.episodes import Along
from mnemoscope.lenses.retention.result import Cost, Points
from mnemoscope.report.claims import Gate
from mnemoscope.studies.study import Diverged


@dataclass(frozen=True)
class Examined:
    """What the lens `retention` measured of one trained model.

    half_life, horizon  in tokens; None lies beyond the oldest age, 0 had nothing to lose
    capacity            most bits recalled of one episode, over all numbers of items
    bytes, flops        carried, and spent, while those were asked
    choosing            held-out loss in nats, on episodes that nothing else uses
    """

    curves: dict[Along, Points]
    half_life: float | None
    horizon: float | None
    capacity: float
    bytes: float
    flops: int
    choosing: float
    seconds: float


@dataclass(frozen=True)
class Size:
    """A memory in one size; ``value`` is that of the option that sets it."""

    value: int
    parameters: int
    cost: Cost


@dataclass(frozen=True)
class Memory:
    """A memory that takes part; ``sized_by`` is the option of its model that sets its size."""

    name: str
    label: str
    family: str
    sized_by: str
    sizes: tuple[Size, ...]

    @property
    def middle(self) -> Size:
        """The size that the learning rate is swept in, and that curves are drawn of."""
        return self.sizes[len(self.sizes) // 2]


@dataclass(frozen=True)
class Trained:
    """One training: which, the name of its folder, and what was measured of it."""

    memory: str
    size: int
    lr: float
    seed: int
    run: str
    found: Examined | Diverged


@dataclass(frozen=True, eq=False)
class Point:
    """A memory in one size: bytes carried, and bits recalled (seeds,)."""

    memory: Memory
    size: Size
    bytes: float
    bits: Floats


@dataclass(frozen=True)
class RetentionResult:
    """All trainings that are done, of as many as are planned.

    values     different values, hence log₂ values bits an answer
    pairs      most pairs stored in an episode
    age_pairs  pairs stored where ages and overwrites are asked
    length     tokens of an episode in training
    shipped    the result that comes with the package, made on ``shipped_on``, to be shown beside it
    """

    values: int
    pairs: int
    age_pairs: int
    length: int
    episodes: int
    planned: int
    memories: tuple[Memory, ...]
    trials: tuple[Trained, ...]
    shipped: RetentionResult | None = None
    shipped_on: str = ""

    @property
    def whole(self) -> bool:
        """Whether all trainings are done that are planned."""
        return 0 < self.planned <= len(self.trials)

    def swept(self, memory: Memory) -> dict[float, float]:
        """Learning rates tried in the middle size with seed 0, and their held-out loss in nats.

        That of a training that diverged is infinite.
        """
        losses = {
            one.lr: one.found.choosing if isinstance(one.found, Examined) else math.inf
            for one in self.trials
            if (one.memory, one.size, one.seed) == (memory.name, memory.middle.value, 0)
        }
        return dict(sorted(losses.items()))

    def lr(self, memory: Memory) -> float:
        """The best learning rate so far, nan before the first training."""
        losses = self.swept(memory)
        return min(losses, key=lambda rate: losses[rate], default=math.nan)

    def chosen(self, memory: Memory, size: Size) -> list[Trained]:
        """Trainings in one size at the best learning rate, seed by seed."""
        wanted = memory.name, size.value, self.lr(memory)
        found = [one for one in self.trials if (one.memory, one.size, one.lr) == wanted]
        return sorted(found, key=lambda one: one.seed)

    def examined(self, memory: Memory, size: Size) -> list[Examined]:
        """What was measured of them; those that diverged are left out."""
        return [o.found for o in self.chosen(memory, size) if isinstance(o.found, Examined)]

    def bits(self, memory: Memory, along: Along) -> Floats:
        """Bits recalled by a memory in its middle size (seeds, points).

        A training that diverged recalls nothing.
        """
        nothing = (0.0,) * len(self.x(along))
        return np.array(
            [
                one.found.curves[along].bits if isinstance(one.found, Examined) else nothing
                for one in self.chosen(memory, memory.middle)
            ]
        )

    def x(self, along: Along) -> tuple[int, ...]:
        """The points of one kind of curve."""
        return next(
            one.found.curves[along].x for one in self.trials if isinstance(one.found, Examined)
        )

    @property
    def oldest_trained(self) -> int:
        """The oldest age asked that training had too."""
        return max(age for age in self.x("age") if age < self.length)

    @property
    def blanked(self) -> float:
        """Most bits that any model recalled with its state emptied after the last write."""
        found = (one.found for one in self.trials if isinstance(one.found, Examined))
        return max(max(curve.blanked) for one in found for curve in one.curves.values())

    @property
    def least(self) -> float:
        """Bits that count: a twentieth of an answer."""
        return math.log2(self.values) / 20

    def gate(self, memory: Memory) -> Gate:
        """Whether a memory has learnt the task: at the youngest age it recalls what counts."""
        return Gate(
            f"more than {self.least:g} bits at age {self.x('age')[0]}",
            self.bits(memory, "age")[:, 0] - self.least,
        )

    @property
    def known(self) -> list[Memory]:
        """Memories of which something is there in the middle size."""
        return [memory for memory in self.memories if self.examined(memory, memory.middle)]

    @property
    def families(self) -> dict[str, list[Memory]]:
        """Memories of a kin, under its name."""
        found: dict[str, list[Memory]] = {}
        for memory in self.known:
            found.setdefault(memory.family, []).append(memory)
        return found

    @property
    def points(self) -> list[Point]:
        """Every memory in every size of which something is there."""
        found = []
        for memory in self.known:
            for size in memory.sizes:
                here = self.examined(memory, size)
                if here:
                    # Seeds reach their capacity at different numbers of items: the largest counts.
                    carried = max(one.bytes for one in here)
                    bits = np.array([one.capacity for one in here])
                    found.append(Point(memory, size, carried, bits))
        return found

    @property
    def learnt(self) -> list[Point]:
        """Those of memories that have learnt the task."""
        return [one for one in self.points if self.gate(one.memory).passed]


def front(points: Sequence[Point], least: float = 0.0) -> list[Point]:
    """Those that no other beats with as few bytes and as many bits, by bytes.

    Who recalls no more than ``least`` bits is not worth any byte.
    """
    best, found = least, []
    for one in sorted(points, key=lambda point: (point.bytes, -point.bits.mean())):
        if one.bits.mean() > best:
            best = float(one.bits.mean())
            found.append(one)
    return found


def unstable(values: dict[str, Floats]) -> list[tuple[str, str]]:
    """Pairs of names whose order is not the same for every seed."""
    return [
        (a, b)
        for a, b in combinations(values, 2)
        if len({bool(x > y) for x, y in zip(values[a], values[b], strict=False)}) > 1
    ]
