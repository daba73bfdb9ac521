"""What a model loses on texts, text by text: each model is asked the question it was made for.

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
from mnemoscope.huggingface.loading import load_causal, load_masked, rows_of
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.open import Reader

# tokens (B, T) -> logits (B, T, V)
Logits = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Loss:
    """A question and what its answers cost: tokens (B, T), kept positions -> nats (B,)."""

    name: str
    of: Callable[[Tensor, slice], Tensor]


@torch.no_grad()
def loss_of(reader: Reader) -> Loss | None:
    """The loss that a model can be asked for; None when it has no head that says tokens.

    A language model is asked for the next token, a masked one for hidden tokens. Readers open
    models of `transformers` without their heads: what the weights were saved with is put back on.
    """
    model: Any = reader.model
    if isinstance(model, SourceModel):
        return None
    if isinstance(model, SequenceModel):
        if model.config.looks_ahead:
            blank = int(model.config.vocab) - 1
            return _hidden(lambda tokens: reader.read(tokens).logits, blank, blank)
        return _next(lambda tokens: reader.read(tokens).logits)
    if model.config.is_encoder_decoder:
        return None
    headed = _headed(model)
    if headed is None:
        return _tied(reader)

    def logits(tokens: Tensor) -> Tensor:
        found: Tensor = headed(input_ids=tokens.to(reader.device)).logits
        return found

    if not _masked(type(headed).__name__):
        return _next(logits)
    mask = getattr(reader.tokenizer, "mask_token_id", None)
    # Without its tokenizer nobody knows what hides a token.
    return None if mask is None else _hidden(logits, rows_of(model), int(mask))


def _masked(kind: str) -> bool:
    return kind.endswith("ForMaskedLM")


def _says_tokens(kind: str) -> bool:
    return _masked(kind) or kind.endswith(("LMHeadModel", "ForCausalLM"))


def _headed(model: Any) -> Any:
    """The model with the head that its weights were saved with, around the same base; or None."""
    if _says_tokens(type(model).__name__):
        return model
    config = model.config
    kind = next(iter(config.architectures or []), "")
    if not _says_tokens(kind) or not config.name_or_path:
        return None
    headed = (load_masked if _masked(kind) else load_causal)(config.name_or_path)
    headed.to(next(model.parameters()).device)
    setattr(headed, headed.base_model_prefix, model)
    return headed


def _tied(reader: Reader) -> Loss | None:
    """A bare decoder that says tokens by the vectors it reads them by needs no head."""
    model: Any = reader.model
    attention = next((one for one in model.modules() if hasattr(one, "is_causal")), None)
    if not (getattr(attention, "is_causal", False) and model.config.tie_word_embeddings):
        return None
    words = model.get_input_embeddings().weight
    return _next(lambda tokens: reader.read(tokens).last_hidden_state @ words.T)


def _next(logits: Logits) -> Loss:
    def of(tokens: Tensor, kept: slice) -> Tensor:
        found = logits(tokens)[:, :-1].float()
        wanted = tokens[:, 1:].to(found.device)
        nats = F.cross_entropy(found.flatten(0, 1), wanted.flatten(), reduction="none")
        return nats.view(wanted.shape).mean(1).cpu()

    return Loss("next token", of)


def _hidden(logits: Logits, size: int, blank: int) -> Loss:
    def of(tokens: Tensor, kept: slice) -> Tensor:
        # The same tokens are hidden whenever the same texts are asked for.
        rng = np.random.default_rng(int(tokens.sum()) % 2**32)
        read = tokens.clone()
        inside, asked = hide(tokens[:, kept].numpy(), size, blank, rng)
        read[:, kept] = torch.from_numpy(inside)
        found, targets = logits(read)[:, kept].float().cpu(), torch.from_numpy(asked)
        nats = F.cross_entropy(
            found.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=NO_QUESTION
        ).view(targets.shape)
        return nats.sum(1) / (targets != NO_QUESTION).sum(1)

    return Loss("hidden tokens", of)
