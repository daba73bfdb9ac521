"""Text in, text out: a model that translates, with its vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.core.capacity import require
from mnemoscope.core.errors import UserError
from mnemoscope.data.translation import decode, encode
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.models.beam import search
from mnemoscope.models.seq2seq.source import SourceModel

# A line is a sentence or a few; a whole book in one line is a mistake.
LONGEST_LINE = 1000


@dataclass(frozen=True)
class Said:
    """A translation, its score and its log-probability."""

    text: str
    score: float
    log_probability: float


class Translator:
    """``translator(lines)`` gives the n best translations of each line, best first."""

    def __init__(self, model: SourceModel, source: Vocabulary, target: Vocabulary) -> None:
        wanted = (model.config.source_vocab, model.config.vocab)
        if (source.size + 1, target.size + 1) != wanted:
            raise UserError(
                f"the model knows {wanted[0]} source and {wanted[1]} target ids, the vocabularies "
                f"have {source.size} and {target.size}, and each needs one more for the end"
            )
        self.model, self.source, self.target = model, source, target

    def __call__(
        self,
        lines: Sequence[str],
        *,
        beam: int = 4,
        penalty: float = 1.0,
        best: int = 1,
        batch: int = 64,
        show: Callable[[int, str], None] = lambda done, note: None,
    ) -> list[list[Said]]:
        """Translate lines, ``batch`` of like length at a time; an empty line stays empty."""
        if best < 1:
            raise UserError(f"best must be at least 1, not {best}")
        if best > beam:
            raise UserError(f"best={best} translations a line need a beam of at least {best}")
        if batch < 1:
            raise UserError(f"batch must be at least 1, not {batch}")
        at_once = beam * min(batch, len(lines))
        require(
            4 * at_once * self.model.config.vocab, f"a beam of {beam} for {batch} lines at once"
        )
        ids = encode(self.source, [" ".join(line.split()) for line in lines])
        for number, (line, one) in enumerate(zip(lines, ids, strict=True), start=1):
            if len(one) > LONGEST_LINE:
                raise UserError(
                    f"line {number} has {len(one)} tokens ({line[:30]!r} …), more than the "
                    f"{LONGEST_LINE} that one line may have: give one sentence a line"
                )
        found = [[Said("", 0.0, 0.0)] if not line.strip() else [] for line in lines]
        todo = sorted(
            (row for row in range(len(lines)) if not found[row]), key=lambda r: len(ids[r])
        )
        for first in range(0, len(todo), batch):
            rows = todo[first : first + batch]
            state = self.model.encode(*pad([ids[row] for row in rows], self.device))
            most = [2 * len(ids[row]) + 10 for row in rows]
            beams = search(
                self.model, state, most, end=self.target.size, beam=beam, penalty=penalty
            )
            for row, hypotheses in zip(rows, beams, strict=True):
                found[row] = [
                    Said(decode(self.target, one.tokens), one.score, one.log_probability)
                    for one in hypotheses[:best]
                ]
            show(first + len(rows), "")
        return found

    def carried(self, line: str) -> int:
        """Bytes of state between reading a line and saying the first word."""
        with torch.no_grad():
            return self.model.encode(*pad(encode(self.source, [line]), self.device)).nbytes

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.readout.weight.device


def pad(rows: Sequence[NDArray[np.int64]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Put ids of unequal length into one tensor (B, S), with a mask of what is there."""
    lengths = torch.tensor([len(row) for row in rows])
    filled = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for line, row in zip(filled, rows, strict=True):
        line[: len(row)] = torch.from_numpy(row)
    mask = torch.arange(filled.shape[1]) < lengths[:, None]
    return filled.to(device), mask.to(device)
