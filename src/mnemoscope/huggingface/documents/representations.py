"""The numbers that documents begin with: drawn, or read off their texts.

Shapes: N documents, D width, K size of a representation.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.core.seeds import derive
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.texts import Documents
from mnemoscope.memories.documents.entries import project, starting_keys
from mnemoscope.memories.documents.tfidf import SHINGLE, Frequencies, tfidf

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory


def first_keys(memory: DocumentMemory, given: Documents) -> Tensor:
    """Representations (N, K) of documents that join those the memory has."""
    options = memory.options
    match options.start:
        case "tfidf" | "shingles":
            return _tfidf(memory, given)
        case "hidden":
            return project(_mean_hidden(memory, given), options.key_dim, options.seed)
    seed = derive(options.seed, "keys", len(memory.names))
    generator = torch.Generator().manual_seed(seed)
    return starting_keys(len(given), options.key_dim, options.start, generator)


def _tfidf(memory: DocumentMemory, given: Documents) -> Tensor:
    """TF-IDF (N, K) among all documents of the memory, which counts the new ones from now on."""
    options, texts = memory.options, list(given.ids.values())
    known = memory.frequencies
    if known is None:
        known = Frequencies(SHINGLE if options.start == "shingles" else 1)
        if memory.names:
            warnings.warn(
                "this memory was saved without document frequencies, by an older version: a "
                "newcomer is placed by the words of its own text alone; fit the documents again",
                stacklevel=5,
            )
            return tfidf(texts, known.plus(texts), options.key_dim, options.seed)
    memory.frequencies = known.plus(texts)
    return tfidf(texts, memory.frequencies, options.key_dim, options.seed)


def _mean_hidden(memory: DocumentMemory, given: Documents) -> Tensor:
    """The mean hidden state behind the block, of each document, (N, D)."""
    model, device = memory.model, memory.store.keys.device
    segments = given.segments(parts.context_of(model))
    total = torch.zeros(len(given), parts.width_of(model))
    count = torch.zeros(len(given), 1)
    with parts.frozen(model), memory.under(None, None):
        for batch in segments.batches(16):
            tokens, mask = batch.tokens.to(device), batch.mask.to(device)
            hidden, _ = parts.hidden_behind(model, memory.blocks, memory.index, tokens, mask)
            weight = batch.mask[:, :, None].float()
            total.index_add_(0, batch.owner, (hidden.float().cpu() * weight).sum(1))
            count.index_add_(0, batch.owner, weight.sum(1))
    mean = (total / count).to(device)
    if not memory.names and len(mean) > 1:
        # What the first documents have in common tells none of them apart.
        memory.store.centre.copy_(mean.mean(0))
    return (mean - memory.store.centre).cpu()
