"""A subject that is being asked: the tokens it reads, what it may differ by, and how it is judged.

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from mnemoscope.checks.difference import compared, in_dtype, tolerance
from mnemoscope.checks.result import Verdict
from mnemoscope.checks.subject import Subject
from mnemoscope.core.errors import UserError, first_line
from mnemoscope.core.seeds import derive

ROWS, TOKENS = 3, 24
# Fewer tokens cannot be cut into pieces and padded.
FEWEST = 8


@dataclass(frozen=True)
class Outcome:
    """What one promise came to: the largest relative difference, what it may be, and where."""

    verdict: Verdict
    largest: float | None = None
    tolerance: float | None = None
    where: str = ""
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether the promise held."""
        return self.verdict == "kept"


class Examination:
    """One subject, the texts that it reads, and the rounding that is its own."""

    def __init__(self, subject: Subject, tokens: int = TOKENS, seed: int = 0) -> None:
        self.subject = subject
        ends = [one for one in (tokens, subject.limit, subject.exact) if one is not None]
        self.length = min(ends)
        if self.length < FEWEST:
            raise UserError(
                f"{subject.name} reads {self.length} tokens, too few to be cut: {FEWEST} are needed"
            )
        self.seed = seed
        self.text, self.other = (
            self.draw(ROWS, self.length, "text"),
            self.draw(ROWS, self.length, "other"),
        )
        # What stands where a row has no token.
        self.filler = subject.filler
        self.noise = self._noise()
        self.tolerance = tolerance(subject.dtype, subject.depth, self.noise)

    def draw(self, rows: int, length: int, what: str) -> Tensor:
        """Random token ids (rows, length), none of which means something else."""
        known = [one for one in range(self.subject.vocab) if one not in self.subject.avoid]
        dice = torch.Generator().manual_seed(derive(self.seed, what) % 2**63)
        chosen = torch.randint(len(known), (rows, length), generator=dice)
        return torch.tensor(known)[chosen].to(self.subject.device)

    def cuts(self, seed: int) -> list[int]:
        """Random lengths of pieces of a text, no two tellings alike."""
        dice = torch.Generator().manual_seed(derive(self.seed, f"cuts {seed}") % 2**63)
        inside = 1 + torch.randperm(self.length - 1, generator=dice)[:3].sort().values
        ends = [0, *inside.tolist(), self.length]
        return [b - a for a, b in pairwise(ends)]

    @cached_property
    def whole(self) -> Tensor:
        """Logits of the text read at once, (B, T, V)."""
        return self.subject.read(self.text)[0]

    def in_pieces(self, lengths: list[int], subject: Subject | None = None) -> tuple[Tensor, Any]:
        """Logits of the text read in pieces of these lengths, and the state after them."""
        subject = subject or self.subject
        logits, state = [], None
        for part in torch.split(self.text, lengths, 1):
            out, state = subject.read(part, state)
            logits.append(out)
        return torch.cat(logits, 1), state

    @cached_property
    def first_position(self) -> int:
        """The position id of a first token: 0, or, as RoBERTa counts, one behind that of padding.

        It is the one with which ids that are given say the same as none.
        """
        steps = torch.arange(self.length, device=self.text.device).expand(len(self.text), -1)
        for first in (0, self.filler + 1):
            logits = attempted(
                lambda first=first: self.subject.read(self.text, None, None, first + steps)[0]
            )
            if not isinstance(logits, str) and self.judge(logits, self.whole).kept:
                return first
        return 0

    def judge(self, found: Tensor, wanted: Tensor, offset: int = 0, note: str = "") -> Outcome:
        """Kept when two sets of logits differ by no more than rounding."""
        apart = compared(found, wanted, self.tolerance, offset)
        verdict: Verdict = "kept" if apart.largest <= self.tolerance else "broken"
        return Outcome(verdict, apart.largest, self.tolerance, apart.where, note)

    @staticmethod
    def worst(found: list[Outcome]) -> Outcome:
        """The one that differs most; a broken one before all that are kept."""
        return max(found, key=lambda one: (not one.kept, one.largest or 0.0))

    def _noise(self) -> float | None:
        """How far the subject is from itself in double precision; None when it cannot be told."""
        module = self.subject.module
        if module is None or self.subject.dtype == torch.float64:
            return None
        exact = in_dtype(module, torch.float64)
        if exact is None:
            return None
        there = attempted(lambda: self.subject.on(exact).read(self.text)[0])
        if isinstance(there, str):  # some models have single precision written into them
            return None
        largest = compared(self.whole, there, 0.0).largest
        return largest if math.isfinite(largest) else None


def attempted(call: Any) -> Any:
    """What a call returns, or else in a line how it failed."""
    try:
        return call()
    # The model is somebody else's, and may fail in any way: that is what is being found out.
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> str:
    """An exception in a line."""
    return f"{type(error).__name__}: {first_line(error)}"[:300]


def limited(found: Outcome, note: str) -> Outcome:
    """A difference that the model's documentation admits."""
    return replace(found, verdict="limit", note=note)
