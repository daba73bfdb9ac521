"""Every model behind the one call, and all that it carries, in bytes.

`Stream.read` goes on from a state, and `StreamState` knows its size and how to be saved. That is
the one definition of state size here: the bytes from which a fresh process goes on to the same
logits, bit for bit (`mnemoscope.lenses.elsewhere` is that process).

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.core.seeds import derive
from mnemoscope.huggingface.blocks import words_of
from mnemoscope.huggingface.documents import memory as documents
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.loading import load_causal
from mnemoscope.huggingface.stream import DocumentStream, HuggingFaceStream
from mnemoscope.memories.state import StreamState
from mnemoscope.models.model import Output, SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel

# Words of a memory that is named without saying how many it knows.
WORDS = 64


@dataclass(frozen=True, eq=False)
class Stream:
    """A model that goes on: ``call(tokens (B, T), state) -> Output``.

    limit  most tokens that one stream can have, None when there is no end
    """

    call: Callable[..., Output]
    name: str
    vocab: int
    limit: int | None
    device: torch.device

    @torch.no_grad()
    def read(
        self, tokens: Tensor, state: StreamState | None = None, segment: int | None = None
    ) -> Output:
        """Read tokens (B, T), ``segment`` at a time: logits (B, T, V), and the state after them."""
        if self.limit is not None and tokens.shape[1] > self.limit:
            raise UserError(
                f"{self.name} can read {self.limit} tokens in one stream, not {tokens.shape[1]}: "
                "ask for less, with shorter ages or fewer tokens"
            )
        logits = []
        for part in torch.split(tokens.to(self.device), segment or tokens.shape[1], 1):
            out = self.call(part, state)
            logits.append(out.logits)
            state = out.state
        assert state is not None
        return Output(torch.cat(logits, 1), state)

    def bytes_after(self, tokens: int, segment: int | None = None) -> int:
        """Measured bytes that one stream carries after so many tokens."""
        some = torch.zeros(1, tokens, dtype=torch.long)
        return self.read(some, segment=segment).state.nbytes


def open_stream(source: Any, *, document: str | None = None, **options: Any) -> Stream:
    """Return the stream of a model.

    ``source`` is a model of ours or of `transformers`, a memory attached to one, the folder of any
    of them, a name on the Hugging Face hub, or the name of a memory (then ``options`` are its own,
    and the weights are random but always the same). ``document`` is what a document memory reads
    under.
    """
    if isinstance(source, Stream):
        return source
    if isinstance(source, str | Path):
        source, name = _named(str(source), options)
    else:
        name = type(source).__name__
    if document is not None and not isinstance(source, DocumentMemory):
        raise UserError(f"{name} has no documents: leave document {document!r} out")
    if isinstance(source, SourceModel):
        raise UserError(f"{name} reads a source first: it has no stream of its own")
    if isinstance(source, SequenceModel):
        source.eval()
        return Stream(source, name, source.config.vocab, source.config.limit, _device(source))
    if isinstance(source, InfiniteMemory):
        return Stream(source.eval(), name, words_of(source.base), None, _device(source.base))
    if isinstance(source, DocumentMemory):
        under = DocumentStream(source, document)
        return Stream(under, name, under.vocab, under.limit, _device(source.model))
    if isinstance(source, nn.Module) and hasattr(getattr(source, "config", None), "model_type"):
        theirs = HuggingFaceStream(source)
        return Stream(theirs, name, theirs.vocab, theirs.limit, _device(source))
    raise UserError(f"{name} is no model that goes on from a state")


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _named(source: str, options: dict[str, Any]) -> tuple[Any, str]:
    path = Path(source)
    # Of os.path, whose questions have an answer whatever the name: too long, or with a NUL in it.
    if source in MEMORIES or (":" in source and not os.path.exists(path)):
        config = find("memory", source).make(**{"vocab": WORDS, **options})
        with torch.random.fork_rng():
            torch.manual_seed(derive(0, "a memory by its name"))
            return config.build(), source
    if options:
        raise UserError(f"{source} is a model already, its {min(options)} cannot be changed")
    if os.path.isfile(path / "config.yaml"):
        from mnemoscope.training.run import Run

        return Run.open(path).model(), path.name
    if os.path.isfile(path / documents.FILE):
        base = documents.read_saved(path)[1]["model"]
        if not base:
            raise UserError(f"the memory in {source} does not say which model it is for")
        return DocumentMemory.load(path, load_causal(base)), path.name
    return load_causal(source), "/".join(path.parts[-2:])
