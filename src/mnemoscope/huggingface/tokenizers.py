"""What a tokenizer of `transformers` makes of texts, and what tells two of them apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mnemoscope.core.arrays import Ints
from mnemoscope.core.bounded import digest
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
