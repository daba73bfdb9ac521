"""Any model, ours or of `transformers`, by name, folder or object, with an attached memory or bare.

This is the only opener. What it returns, a `Reader`, reads tokens at once (that is what
activations are captured from), and `Reader.stream` is the same model behind the one call, with its
state as data.

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.core.aliases import canonical
from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.nearby import refuse_missing
from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.core.seeds import derive
from mnemoscope.data import translation
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.huggingface import blocks, saved, tokenizers
from mnemoscope.huggingface.caches.config import KVOptions, cache_options
from mnemoscope.huggingface.caches.stream import CompressedStream
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.loading import (
    check_ids,
    load_bare,
    load_causal,
    load_tokenizer,
    rows_of,
)
from mnemoscope.huggingface.stream import DocumentStream, HuggingFaceStream
from mnemoscope.models.encoder.model import EncoderModel
from mnemoscope.models.inputs import Encode
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.models.stream import Stream as Stream
from mnemoscope.models.translator import Translator
from mnemoscope.training.run import Run

# Words of a memory that is named without saying how many it knows.
WORDS = 64
Attached = DocumentMemory | InfiniteMemory


@dataclass(frozen=True, eq=False)
class Reader:
    """A model in evaluation mode, and what it needs to read a text.

    model       ours or of `transformers`; of an attached memory, the base
    encode      texts -> token ids of each; None when only token ids can be read
    decode      token id -> its text
    special     ids that stand for no part of the text, such as [CLS]
    limit       most tokens it can read at once, None when there is no end
    tokens      a fingerprint of the vocabulary: two models with the same know the same tokens
    cutting     one of all that makes tokens of a text: two with the same always make the same
    tokenizer   the tokenizer of `transformers` or our vocabulary, None when there is none
    memory      what is attached to the model, if anything
    """

    model: nn.Module
    name: str
    encode: Encode | None = None
    decode: Callable[[int], str] = str
    special: frozenset[int] = frozenset()
    limit: int | None = None
    tokens: str | None = None
    cutting: str | None = None
    tokenizer: Any = None
    memory: Attached | None = None

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.model.parameters()).device

    def read(self, tokens: Tensor) -> Any:
        """Let the model read tokens (B, T); of an encoder-decoder, the encoder reads."""
        model: Any = self.model
        tokens = tokens.to(self.device)
        if isinstance(model, SourceModel):
            return model.encode(tokens)
        if isinstance(model, SequenceModel):
            return model(tokens)
        check_ids(self.name, tokens.cpu(), rows_of(model))
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        cached = "use_cache" in inspect.signature(model.forward).parameters
        return model(input_ids=tokens, **({"use_cache": False} if cached else {}))

    def texts(self, tokens: Tensor) -> tuple[str, ...]:
        """What tokens (B, T) say, a text a row; none where no vocabulary is known."""
        known = getattr(self.tokenizer, "size", None) or len(self.tokenizer or ())
        if not known or int(tokens.max()) >= known:
            return ()
        return tuple(str(self.tokenizer.decode(row)) for row in tokens.cpu().numpy())

    def stream(self, document: str | None = None, cache: KVOptions | None = None) -> Stream:
        """The model behind the one call; ``document`` is what a document memory reads under.

        With a ``cache``, a bare model of `transformers` carries that and not all keys and values.
        """
        model, memory, name = self.model, self.memory, self.name
        if cache is not None and (memory is not None or isinstance(model, SequenceModel)):
            raise UserError(
                f"{name} has a memory of its own: only a bare model of transformers takes a cache"
            )
        if document is not None and not isinstance(memory, DocumentMemory):
            raise UserError(f"{name} has no documents: leave document {document!r} out")
        if isinstance(model, SourceModel):
            raise UserError(f"{name} reads a source first: it has no stream of its own")
        if isinstance(model, SequenceModel):
            vocab, limit = model.config.vocab, model.config.limit
            return Stream(model, name, vocab, limit, self.device, self.encode)
        if isinstance(memory, InfiniteMemory):
            vocab = blocks.words_of(model)
            return Stream(memory.eval(), name, vocab, None, self.device, self.encode)
        call: DocumentStream | CompressedStream | HuggingFaceStream
        if cache is not None:
            call, name = CompressedStream(model, cache), f"{name} ({cache.label})"
        else:
            call = DocumentStream(memory, document) if memory else HuggingFaceStream(model)
        return Stream(call, name, call.vocab, call.limit, self.device, self.encode)


def open_stream(
    source: Any,
    *,
    document: str | None = None,
    cache: str | KVOptions | None = None,
    tokenizer: Any = None,
    base: Any = None,
    **options: Any,
) -> Stream:
    """The stream of whatever `open_model` opens; with a ``cache`` the options are that cache's."""
    if isinstance(source, Stream):
        if cache is not None:
            raise UserError(f"{source.name} is a stream already, its cache cannot be changed")
        return source
    if cache is None:
        reader = open_model(source, tokenizer=tokenizer, base=base, **options)
        return reader.stream(document)
    chosen = cache_options(cache, **options)
    return open_model(source, tokenizer=tokenizer, base=base).stream(document, chosen)


def open_reader(source: Any, tokenizer: Any = None) -> Reader:
    """Whatever `open_model` opens, with nothing attached, for its activations to be captured."""
    reader = open_model(source, tokenizer=tokenizer, head=False, text=True)
    if reader.memory is not None:
        raise UserError(
            f"{reader.name} is an attached memory, and not read in one pass: watch its base with "
            "capture(model, sites), and call it yourself"
        )
    return reader


def open_model(
    source: Any,
    *,
    tokenizer: Any = None,
    base: Any = None,
    head: bool = True,
    text: bool = False,
    **options: Any,
) -> Reader:
    """Open a model, whatever it is given as.

    ``source``     a model of ours or of `transformers`, a memory attached to one, a `Run`, a
                   `Translator`; the folder of any of them; a name on the Hugging Face hub (only
                   then is anything asked of a network); or the name of a memory, then ``options``
                   are its own, and the weights are random but always the same
    ``tokenizer``  of an object, which else reads token ids only
    ``base``       the model that a saved memory was attached to, where the memory does not say
    ``head``       whether a model of `transformers` is loaded to predict tokens, or bare
    ``text``       whether its tokenizer is loaded too
    """
    if isinstance(source, Reader):
        return source
    if isinstance(source, str | Path):
        if isinstance(source, Path) or canonical("memory", source) not in MEMORIES:
            refuse_missing(source)
        where = os.path.expanduser(str(source))
        named = _memory(where, tokenizer, options)
        return named or _folder(where, tokenizer, base, head, text)
    name = type(source).__name__
    given = [*options, *(["base"] if base is not None else [])]
    if given:
        raise UserError(f"{name} is a model already, its {min(given)} cannot be changed")
    if isinstance(source, Run):
        return _run(source)
    if isinstance(source, Translator):
        return _native(source.model, source.model.config.memory, source.source)
    if isinstance(source, SequenceModel):
        return _native(source, source.config.memory, tokenizer)
    if isinstance(source, InfiniteMemory):
        return _huggingface(source.base, name, tokenizer, source)
    if isinstance(source, DocumentMemory):
        return _huggingface(source.model, name, tokenizer or source.tokenizer, source)
    if isinstance(source, nn.Module) and hasattr(getattr(source, "config", None), "model_type"):
        config: Any = source.config
        where = getattr(config, "_name_or_path", "") or config.model_type
        return _huggingface(source, _short(where), tokenizer)
    raise UserError(
        f"{name} is neither a model of ours nor of transformers; capture(model, sites) watches "
        "any module while you call it yourself"
    )


def open_attached(
    folder: str | Path, kind: str, base: Any = None, tokenizer: Any = None, text: bool = False
) -> Reader:
    """A memory of this kind that was saved, on its base: a model, its folder or its name."""
    attached = DocumentMemory if kind == "documents" else InfiniteMemory
    memory = attached.from_pretrained(folder, base, tokenizer=tokenizer)
    if text and (base is None or isinstance(base, str | Path)):
        memory.text_tokenizer()
    return _huggingface(memory.base, Path(folder).name, memory.tokenizer, memory)


def _memory(source: str, vocabulary: Any, options: dict[str, Any]) -> Reader | None:
    """A fresh model by the name of its memory, None when it is no such name."""
    named = ":" in source or canonical("memory", source) in MEMORIES
    # Of os.path, whose questions have an answer whatever the name: too long, or with a NUL in it.
    if source not in MEMORIES and (not named or os.path.exists(source)):
        if options:
            raise UserError(f"{source} is a model already, its {min(options)} cannot be changed")
        return None
    config = find("memory", source).make(**{"vocab": WORDS, **options})
    with torch.random.fork_rng():
        torch.manual_seed(derive(0, "a memory by its name"))
        return _native(config.build(), source, vocabulary)


def _folder(source: str, tokenizer: Any, base: Any, head: bool, text: bool) -> Reader:
    """A run, a saved memory or a model of `transformers`, in a folder or on the hub."""
    path = Path(source)
    if os.path.isfile(path / "config.yaml"):
        return _run(Run.open(path))
    kind = saved.kind_of(path)
    if kind is not None:
        return open_attached(path, kind, base, tokenizer, text)
    if base is not None:
        raise UserError(f"{source} holds no memory that was attached: leave base out")
    model = load_causal(source) if head else load_bare(source)
    if tokenizer is None and text:
        tokenizer = load_tokenizer(source, model)
    reader = _huggingface(model, _short(source), tokenizer)

    def encode(texts: Sequence[str]) -> list[Ints]:
        """Load the tokenizer with the first text: who reads token ids does without it."""
        return tokenizers.encoder(load_tokenizer(source, model), model, reader.name)(texts)

    return reader if tokenizer is not None else replace(reader, encode=encode)


def _run(run: Run) -> Reader:
    names = ("source-vocabulary.json", "vocabulary.json")
    there = [run.folder / name for name in names if (run.folder / name).is_file()]
    vocabulary = Vocabulary.load(there[0]) if there else None
    return _native(run.model(), run.folder.name, vocabulary)


def _native(model: SequenceModel, name: str, vocabulary: Vocabulary | None) -> Reader:
    limit = model.config.limit
    if vocabulary is None:
        return Reader(model.eval(), name, limit=limit)
    sentences = isinstance(model, SourceModel | EncoderModel)

    def encode(texts: Sequence[str]) -> list[Ints]:
        if sentences:  # which end with a token of their own
            return translation.encode(vocabulary, texts)
        return [vocabulary.encode(text) for text in texts]

    def decode(token: int) -> str:
        if token >= vocabulary.size:
            return "∎" if token == vocabulary.size else "▢"
        return vocabulary.decode(np.array([token]))

    known = vocabulary.fingerprint
    return Reader(
        model.eval(), name, encode, decode, limit=limit, tokens=known,
        cutting=f"{known} {sentences}", tokenizer=vocabulary,
    )  # fmt: skip


def _huggingface(
    model: nn.Module, name: str, tokenizer: Any, memory: Attached | None = None
) -> Reader:
    limit = blocks.context_of(model)
    if tokenizer is None:
        return Reader(model.eval(), name, limit=limit, memory=memory)
    return Reader(
        model.eval(), name, tokenizers.encoder(tokenizer, model, name),
        lambda token: str(tokenizer.convert_ids_to_tokens(token)),
        frozenset(tokenizer.all_special_ids), limit, tokenizers.vocabulary(tokenizer),
        tokenizers.fingerprint(tokenizer), tokenizer, memory,
    )  # fmt: skip


def _short(source: str) -> str:
    return "/".join(Path(source).parts[-2:])
