"""What a model loses on texts, text by text, whichever question it was made for.

Shapes: B texts, T tokens, V outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.masking import hide
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.open import Reader

# As the sentence encoders of sentence-transformers are trained: cosine times twenty.
SHARPNESS = 20.0


@dataclass(frozen=True)
class Loss:
    """A question and what its answers cost: tokens (B, T), kept positions -> nats (B,)."""

    name: str
    of: Callable[[Tensor, slice], Tensor]


@torch.no_grad()
def loss_of(reader: Reader, tokens: Tensor) -> Loss | None:
    """The loss that a model can be asked for; None when it says nothing.

    A language model is asked for the next token, or for hidden ones if it looks ahead. A model
    without a readout of its own is asked which of the texts beside it followed each text, by the
    angle between mean vectors: what sentence encoders are trained for.
    """
    model: Any = reader.model
    if isinstance(model, SourceModel):
        return None
    if isinstance(model, SequenceModel):
        return _hidden(reader) if model.config.looks_ahead else _next(reader, _logits)
    out = reader.read(tokens[:1])
    if hasattr(out, "logits") and not model.config.is_encoder_decoder:
        return _next(reader, _logits)
    decoder = not model.config.is_encoder_decoder and getattr(
        next((m for m in model.modules() if hasattr(m, "is_causal")), None), "is_causal", False
    )
    if decoder and getattr(model.config, "tie_word_embeddings", False):
        words = model.get_input_embeddings().weight
        return _next(reader, lambda given: given.last_hidden_state @ words.T)
    return _neighbours(reader)


def _logits(out: Any) -> Tensor:
    logits: Tensor = out.logits
    return logits


def _next(reader: Reader, read_out: Callable[[Any], Tensor]) -> Loss:
    def of(tokens: Tensor, kept: slice) -> Tensor:
        logits = read_out(reader.read(tokens))[:, :-1].float()
        wanted = tokens[:, 1:].to(logits.device)
        nats = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        return nats.view(wanted.shape).mean(1).cpu()

    return Loss("next token", of)


def _hidden(reader: Reader) -> Loss:
    blank = int(reader.model.config.vocab) - 1  # type: ignore[union-attr, arg-type]

    def of(tokens: Tensor, kept: slice) -> Tensor:
        # The same tokens are hidden whenever the same texts are asked for.
        rng = np.random.default_rng(int(tokens.sum()) % 2**32)
        read, asked = hide(tokens.numpy(), blank, blank, rng)
        logits = _logits(reader.read(torch.from_numpy(read))).float().cpu()
        targets = torch.from_numpy(asked)
        nats = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=NO_QUESTION
        ).view(targets.shape)
        return nats.sum(1) / (targets != NO_QUESTION).sum(1)

    return Loss("hidden tokens", of)


def _neighbours(reader: Reader) -> Loss:
    def of(tokens: Tensor, kept: slice) -> Tensor:
        vectors = reader.read(tokens).last_hidden_state[:, kept].float().mean(1)
        vectors = F.normalize(vectors, dim=1)
        alike = SHARPNESS * vectors[0::2] @ vectors[1::2].T
        right = torch.arange(len(alike), device=alike.device)
        both = [F.cross_entropy(one, right, reduction="none") for one in (alike, alike.T)]
        return torch.stack(both, 1).flatten().cpu()

    return Loss("which text follows", of)
