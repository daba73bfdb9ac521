"""Texts of one length, read side by side, so that what stands at a position can be averaged.

Shapes: N texts, B of a batch, T tokens, D width of a site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.batches import encode
from mnemoscope.activations.hooks import Seen, by_token, watch
from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.models.inputs import as_list, token_rows
from mnemoscope.open import Reader

# Fewer positions than this hold no wave that could be told from a slope.
FEWEST = 16


@dataclass(frozen=True, eq=False)
class FixedLengthTexts:
    """N texts of T tokens each; lenses look at the positions ``kept``.

    The first position is never kept: models make something of their own of it. Neither are those
    of tokens that stand for no part of the text, such as [CLS] and [SEP] at the ends.
    """

    tokens: Tensor
    kept: slice

    @property
    def positions(self) -> int:
        """How many positions are kept."""
        return len(range(self.tokens.shape[1])[self.kept])

    def batches(self, size: int) -> Iterator[Tensor]:
        """Tokens (B, T), in order."""
        return iter(torch.split(self.tokens, size))

    def some(self, count: int) -> FixedLengthTexts:
        """At most ``count`` of them, neighbours two by two, spread over all."""
        pairs = len(self.tokens) // 2
        if count >= len(self.tokens) or pairs < 1:
            return self
        first = 2 * np.linspace(0, pairs - 1, max(1, count // 2)).astype(np.int64)
        rows = np.stack((first, first + 1), 1).ravel()
        return FixedLengthTexts(self.tokens[torch.from_numpy(rows)], self.kept)


def cut(
    reader: Reader, inputs: Any, length: int = 256, texts: int | None = None
) -> FixedLengthTexts:
    """Join texts, or lists of token ids, and cut them to ``length`` tokens; a rest is dropped.

    What the model's own tokeniser puts around a text is put around each of them. Tensors (N, T) are
    taken as they are. ``texts`` is how many to have at most, spread over all that there are.
    """
    inputs = as_list(inputs)
    before: list[int] = []
    after: list[int] = []
    if all(isinstance(one, Tensor) and one.dim() == 2 for one in inputs):
        if len({one.shape[1] for one in inputs}) > 1:
            raise UserError("texts must have one length: what is compared stands at one position")
        tokens = torch.cat(inputs)
    else:
        if isinstance(inputs[0], str):
            before, after, joined = _encoded(reader, inputs)
        else:
            joined = np.concatenate(token_rows(inputs, None, reader.name))
        inner = length - len(before) - len(after)
        count = len(joined) // inner if inner > 0 else 0
        if count < 1:
            raise UserError(
                f"there are {len(joined)} tokens, too few for one text of {length}: give more "
                "text, or a smaller length"
            )
        body = torch.from_numpy(joined[: count * inner].reshape(count, inner))
        ends = [torch.tensor(end, dtype=torch.long).expand(count, -1) for end in (before, after)]
        tokens = torch.cat((ends[0], body, ends[1]), 1)
    if reader.limit is not None and tokens.shape[1] > reader.limit:
        raise UserError(
            f"the positions of {reader.name} end at {reader.limit}, texts have {tokens.shape[1]} "
            f"tokens: give length={reader.limit} or less"
        )
    whole = FixedLengthTexts(tokens, slice(max(1, len(before)), tokens.shape[1] - len(after)))
    if whole.positions < FEWEST:
        raise UserError(
            f"{whole.positions} positions are too few to show a wave: read at least "
            f"{FEWEST + 1 + len(before) + len(after)} tokens at once"
        )
    return whole if texts is None else whole.some(texts)


def _encoded(reader: Reader, texts: Sequence[str]) -> tuple[list[int], list[int], Ints]:
    """What stands around every text, and all texts without it, one after the other."""
    filled = [text for text in texts if text.strip()]
    ids = [one for one in encode([reader], filled) if len(one)] if filled else []
    if not ids:
        raise UserError("there is no text to read: all of it is empty")
    inside = [np.flatnonzero(~np.isin(one, list(reader.special))) for one in ids]
    first, positions = next((one, p) for one, p in zip(ids, inside, strict=True) if len(p))
    before, after = first[: positions[0]].tolist(), first[positions[-1] + 1 :].tolist()
    bodies = [one[len(before) : len(one) - len(after)] for one in ids]
    return before, after, np.concatenate(bodies)


@torch.no_grad()
def lay(reader: Reader, tokens: Tensor, kept: slice, sites: str | Sequence[str]) -> Seen:
    """Read tokens (B, T): what sites held at the kept positions, (B, T', D) by name."""
    with watch(reader.model, sites) as seen:
        reader.read(tokens)
    return {name: by_position(name, value, tokens.shape)[:, kept] for name, value in seen.items()}


def by_position(name: str, value: Tensor, shape: Sequence[int]) -> Tensor:
    """Any (B, T, D) or (B, H, T, E) as float (B, T, D)."""
    value = by_token(name, value, shape)
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
