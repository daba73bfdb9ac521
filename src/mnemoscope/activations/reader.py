"""A model, and how text becomes what it reads: ours or any of Hugging Face, by one name or object.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data import translation
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.huggingface.loading import check_ids, load_bare, load_tokenizer, rows_of
from mnemoscope.huggingface.quiet import quiet
from mnemoscope.models.encoder.model import EncoderModel
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel

Ints = NDArray[np.int64]
# Tokens (B, T), and the number of the text that each row is.
Rows = tuple[Tensor, Ints]


@dataclass(frozen=True, eq=False)
class Reader:
    """A model in evaluation mode, and what it needs to read a text.

    encode    texts -> token ids of each; None when only token ids can be read
    decode    token id -> its text
    special   ids that stand for no piece of the text, such as [CLS]
    limit     most tokens it can read at once, None when there is no end
    tokens    a fingerprint of the vocabulary: two models with the same read the same tokens
    """

    model: nn.Module
    name: str
    encode: Callable[[Sequence[str]], list[Ints]] | None
    decode: Callable[[int], str]
    special: frozenset[int]
    limit: int | None
    tokens: str | None

    def read(self, tokens: Tensor) -> Any:
        """Let the model read tokens (B, T); of an encoder-decoder, the encoder reads."""
        model: Any = self.model
        where = next(model.parameters()).device
        tokens = tokens.to(where)
        if isinstance(model, SourceModel):
            return model.encode(tokens)
        if isinstance(model, SequenceModel):
            return model(tokens)
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        cached = "use_cache" in inspect.signature(model.forward).parameters
        return model(input_ids=tokens, **({"use_cache": False} if cached else {}))


def open_reader(source: Any, tokenizer: Any = None) -> Reader:
    """Return the reader of a model: an object, the folder of a run or of a Hugging Face model, or
    a name on the hub (only then is anything asked of a network). For a Hugging Face object, its
    ``tokenizer`` must be given if it is to read text.
    """
    if isinstance(source, Reader):
        return source
    if isinstance(source, SequenceModel):
        return _ours(source, source.config.memory, tokenizer)
    if isinstance(source, nn.Module):
        if not hasattr(getattr(source, "config", None), "model_type"):
            raise UserError(
                f"{type(source).__name__} is neither a model of ours nor of transformers; "
                "watch it with capture(model, sites) and call it yourself"
            )
        return _theirs(source, str(getattr(source.config, "model_type", "")), tokenizer)
    path = Path(source)
    if os.path.isfile(path / "config.yaml"):
        return _run(path)
    model = load_bare(str(source))
    if tokenizer is None:
        tokenizer = load_tokenizer(str(source), model)
    return _theirs(model, "/".join(path.parts[-2:]), tokenizer)


def _theirs(model: nn.Module, name: str, tokenizer: Any) -> Reader:
    limit = _longest(model)
    if tokenizer is None:
        return Reader(model.eval(), name, None, str, frozenset(), limit, None)
    known = rows_of(model)

    def encode(texts: Sequence[str]) -> list[Ints]:
        with quiet():
            ids = tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        for one in ids:
            check_ids(name, one, known)
        return [np.array(one, dtype=np.int64) for one in ids]

    def decode(token: int) -> str:
        return str(tokenizer.convert_ids_to_tokens(token))

    special = frozenset(tokenizer.all_special_ids)
    words = _digest(sorted(tokenizer.get_vocab().items()))
    return Reader(model.eval(), name, encode, decode, special, limit, words)


def _longest(model: nn.Module) -> int | None:
    config: Any = model.config
    limit = getattr(config, "max_position_embeddings", None)
    for path, module in model.named_modules():
        # RoBERTa counts positions from after its padding.
        if path.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (
                0 if module.padding_idx is None else module.padding_idx + 1
            )
    return limit


def _ours(model: SequenceModel, name: str, vocabulary: Vocabulary | None) -> Reader:
    limit = model.config.limit
    if vocabulary is None:
        return Reader(model.eval(), name, None, str, frozenset(), limit, None)
    sentences = isinstance(model, SourceModel | EncoderModel)

    def encode(texts: Sequence[str]) -> list[Ints]:
        if sentences:  # which end with a token of their own
            return translation.encode(vocabulary, texts)
        return [vocabulary.encode(text) for text in texts]

    def decode(token: int) -> str:
        if token >= vocabulary.size:
            return "∎" if token == vocabulary.size else "▢"
        return vocabulary.decode(np.array([token]))

    words = _digest([vocabulary.decode(np.array([token])) for token in range(vocabulary.size)])
    return Reader(model.eval(), name, encode, decode, frozenset(), limit, words)


def _run(folder: Path) -> Reader:
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    names = [
        name for name in ("source-vocabulary.json", "vocabulary.json") if (folder / name).is_file()
    ]
    vocabulary = Vocabulary.load(folder / names[0]) if names else None
    return _ours(run.model(), folder.name, vocabulary)


def _digest(content: Any) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def check_same_tokens(readers: Sequence[Reader]) -> None:
    """Raise `UserError` when the models cut text into different tokens."""
    first = readers[0]
    for other in readers[1:]:
        if other.tokens != first.tokens:
            raise UserError(
                f"{first.name} and {other.name} cut text into different tokens: what one keeps of "
                "a token cannot be held against what the other does"
            )


def longest(reader: Reader, lengths: Sequence[int], length: int | None) -> None:
    """Raise `UserError` when a text is longer than what the model can read at once."""
    if reader.limit is None:
        return
    worst = int(np.argmax(lengths))
    if lengths[worst] > reader.limit or (length or 0) > reader.limit:
        raise UserError(
            f"text {worst} has {lengths[worst]} tokens but the positions of {reader.name} end at "
            f"{reader.limit}: give length={reader.limit} or less, to read it in pieces"
        )


def to_batches(reader: Reader, inputs: Any, length: int | None, batch: int) -> list[Rows]:
    """Turn texts, or lists of token ids, or tensors (B, T), into batches of equal length.

    Texts come in a random order, always the same one, so that any stretch of them is like all.
    """
    if isinstance(inputs, Tensor):
        inputs = [inputs]
    inputs = list(inputs)
    tensors = [one for one in inputs if isinstance(one, Tensor) and one.dim() == 2]
    if not inputs:
        raise UserError("there is no text to read")
    if len(tensors) == len(inputs):
        longest(reader, [one.shape[1] for one in tensors], None)
        ends = np.cumsum([0, *(len(one) for one in tensors)])
        return [(one, at + np.arange(len(one))) for one, at in zip(tensors, ends, strict=False)]
    if any(isinstance(one, str) for one in inputs):
        if reader.encode is None:
            raise UserError(
                f"{reader.name} was given without a vocabulary: give tokenizer=, or token ids"
            )
        ids = reader.encode(inputs)
    else:
        ids = [np.asarray(one, dtype=np.int64).reshape(-1) for one in inputs]
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
    found = [
        (
            torch.from_numpy(np.stack([ids[row] for row in rows[at : at + batch]])),
            np.array(rows[at : at + batch]),
        )
        for _, rows in sorted(groups.items())
        for at in range(0, len(rows), batch)
    ]
    return [found[place] for place in rng.permutation(len(found))]
