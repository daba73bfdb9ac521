"""What a tokenizer of `transformers` makes of texts, and what tells two of them apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mnemoscope.core.arrays import Ints
from mnemoscope.core.bounded import digest
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.loading import check_ids, rows_of
from mnemoscope.huggingface.quiet import quiet


def encoder(tokenizer: Any, model: Any, name: str) -> Callable[[Sequence[str]], list[Ints]]:
    """Texts to the token ids of each, all of which the model has a row for."""
    known = rows_of(model)

    def encode(texts: Sequence[str]) -> list[Ints]:
        with quiet():
            ids = tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        for one in ids:
            check_ids(name, one, known)
        return [np.array(one, dtype=np.int64) for one in ids]

    return encode


def vocabulary(tokenizer: Any) -> str:
    """A fingerprint of the tokens that it knows."""
    return digest(sorted(tokenizer.get_vocab().items()))


def fingerprint(tokenizer: Any) -> str:
    """A fingerprint of all that makes tokens of a text.

    Slow tokenizers are code, which cannot be compared: each of them is only like itself.
    """
    described = getattr(tokenizer, "backend_tokenizer", None)
    if described is None:
        return f"{type(tokenizer).__name__} {id(tokenizer)}"
    content = json.loads(described.to_str())
    # Set by the last call, and no part of what a text becomes here.
    content["truncation"] = content["padding"] = None
    return digest([type(tokenizer).__name__, content])


def spanning_encoder(tokenizer: Any, model: Any, name: str) -> Callable[[str], tuple[Ints, Ints]]:
    """A text to its token ids (n,), and begin and end of each in characters of it (n, 2).

    What the text holds is never one of the tokenizer's own marks.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise UserError(
            f"the tokenizer of {name} cannot say where its tokens stand: save a fast one there "
            "(tokenizer.json)"
        )
    known = rows_of(model)

    # A corpus comes back to the sections of its documents with every conversation.
    @lru_cache(maxsize=4096)
    def encode(text: str) -> tuple[Ints, Ints]:
        with quiet():
            found = tokenizer(
                text,
                add_special_tokens=False,
                split_special_tokens=True,
                return_offsets_mapping=True,
                verbose=False,
            )
        ids = np.array(found["input_ids"], dtype=np.int64)
        check_ids(name, ids, known)
        return ids, np.array(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)

    return encode


def beginning(tokenizer: Any) -> list[int]:
    """What the tokenizer puts before every text: the mark of a beginning, or nothing."""
    with quiet():
        first: list[int] = tokenizer("a")["input_ids"][:1]
    return [one for one in first if one == getattr(tokenizer, "bos_token_id", None)]
