"""What a model can be given to read, taken everywhere alike.

A text, a list of token ids, a tensor or array of them (T,) or (B, T), or a list of such, are all
the same to every call. Shapes: B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError, shown

# What `as_list` makes a list of.
Inputs = str | Tensor | NDArray[Any] | Sequence[Any]
# Texts -> the token ids of each.
Encode = Callable[[Sequence[str]], list[Ints]]
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
WANTED = "give a text, token ids, a tensor of them (rows, length), or a list of such"


def as_list(inputs: Any) -> list[Any]:
    """All texts, or arrays of token ids (T,) or (B, T), also where there is but one."""
    if isinstance(inputs, str | Tensor | np.ndarray):
        inputs = [inputs]
    if isinstance(inputs, Mapping):
        raise UserError(f"{shown(inputs)} has names: {WANTED}, such as its 'input_ids'")
    if not isinstance(inputs, Iterable):
        raise UserError(f"{shown(inputs)} cannot be read: {WANTED}")
    given = list(inputs)
    if given and all(isinstance(one, int | np.integer) for one in given):
        given = [given]
    if not given:
        raise UserError(f"there is no text to read: {WANTED}")
    texts = sum(isinstance(one, str) for one in given)
    if texts not in (0, len(given)):
        raise UserError("texts and token ids are mixed: give one or the other")
    return given if texts else [_ids(one) for one in given]


def _ids(one: Any) -> Tensor:
    """Token ids (T,) or (B, T) as a tensor; one that was given comes back as it is."""
    try:
        ids = one if isinstance(one, Tensor) else torch.as_tensor(np.asarray(one))
    # What is ragged, or no number at all.
    except (TypeError, ValueError):
        raise UserError(f"{shown(one)} cannot be read: {WANTED}") from None
    if ids.is_floating_point() and not ids.numel():
        ids = ids.long()  # an empty list
    if ids.dim() not in (1, 2) or ids.dtype not in WHOLE:
        raise UserError(
            f"{ids.dtype} of shape {tuple(ids.shape)} are no token ids, which are whole numbers "
            f"(length) or (rows, length): {WANTED}"
        )
    return ids


def token_rows(inputs: Inputs, encode: Encode | None, name: str) -> list[Ints]:
    """The token ids of each text; a row of a tensor (B, T) is one of them."""
    given = as_list(inputs)
    if not isinstance(given[0], str):
        rows = [row for ids in given for row in (ids if ids.dim() == 2 else [ids])]
        return [row.cpu().numpy().astype(np.int64) for row in rows]
    if encode is None:
        raise UserError(
            f"{name} has no vocabulary and cannot read text: give token ids, or its tokenizer="
        )
    return encode(given)


def token_batch(inputs: Inputs, encode: Encode | None, name: str) -> Tensor:
    """The same as one tensor (B, T), for a call that reads rows side by side."""
    if isinstance(inputs, Tensor) and inputs.dim() == 2:
        return inputs
    rows = token_rows(inputs, encode, name)
    lengths = sorted({len(row) for row in rows})
    if not lengths[0]:
        raise UserError("there is nothing to read: the text is empty")
    if lengths[0] != lengths[-1]:
        raise UserError(
            f"rows that are read side by side have one length, not {lengths[0]} to {lengths[-1]} "
            "tokens: read them one by one"
        )
    return torch.from_numpy(np.stack(rows))
