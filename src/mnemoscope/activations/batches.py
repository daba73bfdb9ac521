"""Texts, or token ids, as batches that a model reads.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.models.inputs import as_list, token_rows
from mnemoscope.open import Reader

# Tokens (B, T), and the number of the text that each row is.
Rows = tuple[Tensor, Ints]


def check_same_tokens(readers: Sequence[Reader]) -> None:
    """Raise `UserError` when the models cut text into different tokens."""
    first = readers[0]
    for other in readers[1:]:
        if other.tokens != first.tokens:
            raise UserError(
                f"{first.name} and {other.name} cut text into different tokens: what one keeps of "
                "a token cannot be held against what the other does"
            )


def encode(readers: Sequence[Reader], texts: Sequence[Any]) -> list[Ints]:
    """The token ids of texts, which all models must agree on; tokenised once for each tokenizer."""
    check_same_tokens(readers)
    first, *others = readers
    ids, known = token_rows(texts, first.encode, first.name), {first.cutting}
    if not isinstance(texts[0], str):
        return ids
    for other in others:
        if other.encode is None or other.cutting in known:
            continue
        known.add(other.cutting)
        again = other.encode(texts)
        if not all(np.array_equal(a, b) for a, b in zip(ids, again, strict=True)):
            raise UserError(f"{first.name} and {other.name} read a text as different tokens")
    return ids


def longest(reader: Reader, lengths: Sequence[int], length: int | None) -> None:
    """Raise `UserError` when a text is longer than what the model can read at once."""
    if reader.limit is None:
        return
    worst = int(np.argmax(lengths))
    if lengths[worst] > reader.limit or (length or 0) > reader.limit:
        raise UserError(
            f"text {worst} has {lengths[worst]} tokens but the positions of {reader.name} end at "
            f"{reader.limit}: give length={reader.limit} or less, to read it in parts"
        )


def to_batches(reader: Reader, inputs: Any, length: int | None, batch: int) -> list[Rows]:
    """Turn whatever can be read into batches of equal length; tensors (B, T) are batches already.

    Texts come in a random order, always the same one, so that any stretch of them is like all.
    """
    inputs = as_list(inputs)
    tensors = [one for one in inputs if isinstance(one, Tensor) and one.dim() == 2]
    if len(tensors) == len(inputs):
        longest(reader, [one.shape[1] for one in tensors], None)
        ends = np.cumsum([0, *(len(one) for one in tensors)])
        return [(one, at + np.arange(len(one))) for one, at in zip(tensors, ends, strict=False)]
    ids = token_rows(inputs, reader.encode, reader.name)
    if length is not None:
        ids = [one[at : at + length] for one in ids for at in range(0, len(one), length)]
    ids = [one for one in ids if len(one)]
    if not ids:
        raise UserError("there is no text to read: all of it is empty")
    longest(reader, [len(one) for one in ids], length)
    # Of one length each: nothing is padded, so what is seen is what a plain call would give.
    rng = np.random.default_rng(derive(0, "order of texts"))
    groups: dict[int, list[int]] = {}
    for row in rng.permutation(len(ids)).tolist():
        groups.setdefault(len(ids[row]), []).append(row)
    batches = [
        (
            torch.from_numpy(np.stack([ids[row] for row in rows[at : at + batch]])),
            np.array(rows[at : at + batch]),
        )
        for _, rows in sorted(groups.items())
        for at in range(0, len(rows), batch)
    ]
    return [batches[index] for index in rng.permutation(len(batches))]
