"""What of the study `caches` runs models: contexts read with every cache, and questions after them.

Shapes: E episodes, Q questions, A answers of a question, V candidates.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Floats
from mnemoscope.core.seeds import derive
from mnemoscope.data.documents import read_documents
from mnemoscope.huggingface.caches.config import KVOptions, Random, cache_options
from mnemoscope.huggingface.loading import load_model
from mnemoscope.memories.state import StreamState
from mnemoscope.open import Stream, open_stream
from mnemoscope.studies.caches.episodes import (
    Episodes,
    Language,
    Question,
    facts,
    named_pairs,
    pairs,
    repeats,
)
from mnemoscope.studies.caches.result import EVICTING, FULL, Asked
from mnemoscope.studies.caches.small import WORDS, small_llama

if TYPE_CHECKING:
    from mnemoscope.studies.caches.study import CachesStudy

# Ids that repeats are drawn from, where a model knows more: ten bits a token.
POOL = 1024


def measure(study: CachesStudy, folder: Path, name: str) -> Asked:
    """Ask one model at one task with one cache."""
    task, cache, seed = study.trials[name]
    model, language = opened(study, folder, seed)
    episodes = episodes_of(study, task, language, seed)
    options = options_of(study, folder, cache, seed)
    costs: list[Floats] = []
    blanked: list[Floats] = []
    carried = 0
    for number, begin in enumerate(range(0, study.episodes, study.batch)):
        rows = np.arange(begin, min(begin + study.batch, study.episodes))
        stream = open_stream(model, cache=_drawn(options, number + 1000 * seed))
        read = torch.from_numpy(episodes.context[rows])
        state = stream.read(read, segment=study.segment).state
        carried = state.nbytes // len(rows)
        costs += [np.stack([_ask(stream, one, rows, state) for one in episodes.questions], 1)]
        if cache == FULL:
            blanked += [np.stack([_ask(stream, one, rows, None) for one in episodes.questions], 1)]
    budget = getattr(options, "budget", study.context)
    return Asked(_plain(costs), carried, min(budget, study.context), _plain(blanked))


def _ask(stream: Stream, question: Question, rows: Any, state: StreamState | None) -> Floats:
    """Cross-entropy in bits of the answers of every row, mean over the A of a question, (E,)."""
    tokens = torch.from_numpy(question.tokens[rows])
    right = torch.from_numpy(question.answers[rows])  # (E, A)
    known = torch.from_numpy(np.array(question.candidates[rows]))  # (E, V)
    logits = stream.read(tokens, state).logits[:, -right.shape[1] :].float()
    chosen = logits.gather(2, known[:, None].expand(-1, right.shape[1], -1)).log_softmax(-1)
    costs: Tensor = -chosen.gather(2, right[:, :, None]).squeeze(2).double() / math.log(2)
    found: Floats = costs.mean(1).numpy()
    return found


@lru_cache(maxsize=1)
def opened(study: CachesStudy, folder: Path, seed: int) -> tuple[Any, Language | None]:
    """The model that was given with its language, or a small one that is trained here."""
    if study.model is None:
        home = folder / "small" / f"seed{seed}"
        return small_llama(home, study.steps, study.context, seed), None
    model, tokenizer = load_model(study.model)
    text = "\n\n".join(document.text for document in read_documents(None))

    def encode(words: str) -> list[int]:
        found: list[int] = tokenizer.encode(words, add_special_tokens=False)
        return found

    special = set(tokenizer.all_special_ids)
    known = [
        one for one in range(min(len(tokenizer), model.config.vocab_size)) if one not in special
    ]
    drawn = np.random.default_rng(derive(0, "pool")).permutation(known)[:POOL]
    return model.to(getattr(torch, study.dtype)), Language(encode, drawn, np.array(encode(text)))


def episodes_of(study: CachesStudy, task: str, language: Language | None, seed: int) -> Episodes:
    """The same for every cache of a model."""
    how = study.context, study.ages, study.episodes, derive(seed, "episodes")
    if language is None:
        ids = np.arange(WORDS)
        return repeats(ids, *how) if task == "repeats" else pairs(ids, *how)
    if task == "repeats":
        return repeats(language.ids, *how)
    return named_pairs(language, *how) if task == "pairs" else facts(language, *how)


def options_of(study: CachesStudy, folder: Path, cache: str, seed: int) -> KVOptions:
    """A cache by its name; one that evicts gets the bytes of so many bits, or just less."""
    kind, bits = study.caches[cache]
    if kind == "full":
        return cache_options(kind)
    packed = cache_options("quantised", bits=bits, group=study.group)
    if kind not in EVICTING:
        return packed
    model, _ = opened(study, folder, seed)
    allowed = _bytes(model, packed, study.context)
    # Bytes are a constant and so much for every token that is held.
    few, more = (_bytes(model, cache_options(kind, budget=held), 48) for held in (24, 32))
    each = (more - few) // 8
    return cache_options(kind, budget=(allowed - few) // each + 24)


def _drawn(options: KVOptions, seed: int) -> KVOptions:
    """The same cache; a random one holds other tokens with every batch, not one lucky draw."""
    return options.model_copy(update={"seed": seed}) if isinstance(options, Random) else options


def _bytes(model: Any, options: KVOptions, tokens: int) -> int:
    return open_stream(model, cache=options).bytes_after(tokens)


def _plain(costs: list[Floats]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for batch in costs for row in batch.round(4))
