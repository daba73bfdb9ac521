"""How much tokens change from layer to layer, by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import torch

from mnemoscope.activations.capture import Observed
from mnemoscope.lenses.change.grouping import Quota, gather, groups_of, quota_of
from mnemoscope.lenses.change.result import GroupedOptions, GroupedResult
from mnemoscope.lenses.inputs import CaptureLens, Tokenised
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import Groups


class Change(CaptureLens):
    """How much tokens change on their way up: ``observe`` what `capture` gives, then ``result``.

    The distance between a site and the next one, over ``samples`` tokens of every group: groups
    compared by PWCCA must be equally large. A group with fewer tokens is left out.
    """

    title = "Change"
    question = "How much do tokens change from layer to layer of {models}?"
    Options, Result = GroupedOptions, GroupedResult

    @classmethod
    def made(cls, given: Tokenised, texts: Sequence[str], options: GroupedOptions) -> Self:
        """A fresh lens."""
        groups = groups_of(given, texts, options)
        return cls(groups, samples=quota_of(groups, options))

    def __init__(self, groups: Groups, *, samples: int = 2000) -> None:
        self.groups, self._quota = groups, Quota(groups, samples)
        self._lenses = [Similarity("adjacent") for _ in groups.names]

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        group = self.groups(seen)
        for number, lens in enumerate(self._lenses):
            chosen = self._quota.take(number, np.flatnonzero(group == number))
            if len(chosen):
                where = torch.from_numpy(chosen)
                sites = {n: v[where.to(v.device)] for n, v in seen.sites.items()}
                lens.observe(replace(seen, sites=sites))

    def result(self) -> GroupedResult:
        """What was seen so far."""
        return gather(self._lenses, self.groups, self._quota, "change")
