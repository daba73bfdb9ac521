"""Whatever can be checked, opened: the one opener's models, streams, and any callable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from mnemoscope.checks.subject import CallSubject, NativeSubject, Subject, TransformersSubject
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES, model_kind
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.models.encoder.model import EncoderModel
from mnemoscope.models.model import SequenceModel
from mnemoscope.open import Reader, open_model


def open_subject(
    source: Any,
    *,
    vocab: int | None = None,
    declared: int | Callable[[int], int] | None = None,
    document: str | None = None,
    **options: Any,
) -> Subject:
    """The subject of whatever `open_model` opens, or of a callable that reads ``vocab`` ids.

    ``declared`` says how many bytes one stream has after so many tokens, or for ever.
    """
    if isinstance(source, Subject):
        return source
    if _known(source):
        if vocab is not None:
            options["vocab"] = vocab
        subject = _opened(open_model(source, **options), document)
        if isinstance(source, str | Path):
            subject.source = str(source)
            subject.options = {**options, **({} if document is None else {"document": document})}
            subject.made_by = (f"model = ms.stream({_arguments(source, subject.options)}).call",)
    else:
        subject = _callable(source, vocab, options)
    if declared is not None:
        subject.declared = declared if callable(declared) else lambda tokens: declared
    return subject


def _arguments(source: str | Path, options: dict[str, Any]) -> str:
    return ", ".join([repr(str(source)), *(f"{name}={value!r}" for name, value in options.items())])


def _known(source: Any) -> bool:
    theirs = hasattr(getattr(source, "config", None), "model_type")
    return (
        (isinstance(source, nn.Module) and (theirs or isinstance(source, SequenceModel)))
        or not callable(source)
        or isinstance(source, InfiniteMemory)
    )


def _opened(reader: Reader, document: str | None) -> Subject:
    model = reader.model
    if document is not None:
        reader.stream(document)  # which says so where there are no documents
    if isinstance(model, EncoderModel) and model.config.looks_ahead:
        raise UserError(f"{reader.name} reads both ways: it has no stream whose state to check")
    if isinstance(model, SequenceModel):
        stream = reader.stream()
        if model.config.readout == "last":
            raise UserError(
                f"{reader.name} reads out after the last token only: build it with readout=every"
            )
        subject = NativeSubject(model, reader.name, stream.vocab)
        subject.limit, subject.exact = stream.limit, getattr(model.config, "mem_len", None)
        subject.depth = model.config.layers
        return subject
    if reader.memory is None:
        return TransformersSubject(model, reader.name)
    stream = reader.stream(document)
    call: Any = stream.call
    attached = NativeSubject(call, reader.name, stream.vocab)
    attached.limit = stream.limit
    attached.depth = int(getattr(model.config, "num_hidden_layers", 1))
    return attached


def _callable(call: Any, vocab: int | None, options: dict[str, Any]) -> Subject:
    if options:
        raise UserError(f"a callable has no option {min(options)}")
    known = vocab if vocab is not None else getattr(call, "vocab", None)
    if not isinstance(known, int) or known < 2:
        raise UserError(
            f"{type(call).__name__} does not say how many token ids it reads: give vocab="
        )
    return CallSubject(call, getattr(call, "__name__", type(call).__name__), known)


def is_memory(source: Any) -> bool:
    """Whether a name is that of a memory, whose model has weights that nobody trained."""
    return isinstance(source, str) and model_kind(source) == "memory" and source in MEMORIES
