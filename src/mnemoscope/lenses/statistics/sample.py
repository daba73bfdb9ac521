"""A random sample of the tokens of a stream, the same tokens at every site, of bounded size."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import COLUMNS, Observed
from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError


class Sample:
    """At most ``size`` of all tokens seen, each with the same chance (Vitter's algorithm R)."""

    def __init__(self, size: int, seed: int = 0) -> None:
        if size < 1:
            raise UserError(f"a sample needs at least one token, not {size}")
        self.size, self.seen = size, 0
        self.columns: dict[str, Ints] = {}
        self._sites: dict[str, Tensor] = {}
        self._rng = np.random.default_rng(seed)

    def add(self, seen: Observed) -> None:
        """Take in one batch."""
        if not self.columns:
            self.columns = {name: np.empty(0, dtype=np.int64) for name in COLUMNS}
            self._sites = {
                n: v.new_empty(0, v.shape[1], device="cpu") for n, v in seen.sites.items()
            }
        if list(seen.sites) != list(self._sites):
            raise UserError(f"sites changed from {list(self._sites)} to {list(seen.sites)}")
        number = self.seen + np.arange(len(seen))
        # The first tokens fill the room one by one; a later one takes the slot of a random one.
        slot = np.where(
            number < self.size, number, self._rng.integers(0, np.maximum(number + 1, 1))
        )
        kept = np.flatnonzero(slot < self.size)
        # Of several that want one slot the last has it.
        slot, last = np.unique(slot[kept][::-1], return_index=True)
        which = kept[::-1][last]
        self.seen += len(seen)
        room = min(self.seen, self.size)
        for name, column in self.columns.items():
            self.columns[name] = np.resize(column, room) if len(column) < room else column
            self.columns[name][slot] = getattr(seen, name)[which]
        where, chosen = torch.from_numpy(slot), torch.from_numpy(which)
        for name, values in self._sites.items():
            if len(values) < room:
                # Doubling keeps the copying linear.
                grown = values.new_empty(
                    min(self.size, max(room, 2 * len(values))), values.shape[1]
                )
                grown[: len(values)] = values
                values = self._sites[name] = grown
            values[where] = seen.sites[name][chosen.to(seen.sites[name].device)].to(values)

    def __len__(self) -> int:
        return min(self.seen, self.size)

    @property
    def sites(self) -> dict[str, Tensor]:
        """What every site held for the tokens of the sample, (n, D)."""
        return {name: values[: len(self)] for name, values in self._sites.items()}
