"""Memories of a real pretrained model, read on passages of novels that nothing was trained on.

Shapes: R passages, T tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.data.documents import Document, read_documents
from mnemoscope.huggingface.config import InfiniteOptions, TransformerXLOptions
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.infinite.pasts import exchanged, without
from mnemoscope.memories.state import StreamState
from mnemoscope.studies.infinite.contestants import Contestant, contestants
from mnemoscope.studies.infinite.result import CLASSES, NovelLosses, Novels, Past, Reader
from mnemoscope.studies.pretrained import reader_of, scored, whole, window_alone
from mnemoscope.studies.trials import measure_all

if TYPE_CHECKING:
    from mnemoscope.studies.infinite.study import InfiniteStudy

# A word that comes less often than this in the novels of training is rare; most names are.
RARE = 1 / 50_000
# Letters that surely make a token.
LETTERS = 12


@dataclass(frozen=True, eq=False)
class Passages:
    """What is read: ``tokens`` (R, T + 1), of whose second half every token is predicted.

    words    in what is predicted of each passage
    classes  (R, T / 2) of every predicted token: the number of its class; by window, since a word
             comes back only after it has left the window
    """

    tokens: Tensor
    words: tuple[int, ...]
    spans: tuple[tuple[int, ...], ...]
    rare: tuple[tuple[bool, ...], ...]

    @property
    def start(self) -> int:
        """The first token after which the next one is predicted."""
        return (self.tokens.shape[1] - 1) // 2

    def classes(self, window: int) -> Floats:
        """Class of every predicted token, (R, T / 2), as an index into `CLASSES`."""
        found = np.zeros((len(self.tokens), self.tokens.shape[1] - 1 - self.start))
        for row, (words, rare) in enumerate(zip(self.spans, self.rare, strict=True)):
            last: dict[int, int] = {}
            for at, (word, seldom) in enumerate(zip(words, rare, strict=True)):
                if word >= 0 and at > self.start and seldom:
                    age = at - last.get(word, -(1 << 30))
                    returns = window < age < 1 << 29
                    found[row, at - self.start - 1] = 1 if returns else 2
                if word >= 0 and (at + 1 == len(words) or words[at + 1] != word):
                    last[word] = at
        return found


@lru_cache(maxsize=1)
def novels(source: str, held_out: tuple[str, ...]) -> tuple[list[Document], dict[str, Document]]:
    """Novels to train on, and those held out by name."""
    documents = read_documents(source)
    named = {name: [d for d in documents if d.name.startswith(name)] for name in held_out}
    missing = [name for name, found in named.items() if len(found) != 1]
    if missing:
        raise UserError(f"{source} has no single text that begins with {missing[0]!r}")
    kept = {name: found[0] for name, found in named.items()}
    return [d for d in documents if d not in kept.values()], kept


def passages(study: InfiniteStudy, choosing: bool = False) -> Passages:
    """Passages of the held-out novels in turn; of the first novel, one half is for choosing."""
    _, held_out = novels(study.source or "", study.held_out)
    _, tokenizer = reader_of(study)
    frequencies = _frequencies(study.source or "", study.held_out)
    first, *_ = held_out
    found = []
    for part in range(study.passages):
        for name, document in held_out.items():
            if choosing and name != first:
                continue
            begin, end = ((0.0, 0.5) if choosing else (0.5, 1.0)) if name == first else (0.0, 1.0)
            share = begin + (end - begin) * (part + 0.5) / study.passages
            found.append(_passage(document.text, share, study.context, tokenizer, frequencies))
    tokens, words, spans, rare = zip(*found, strict=True)
    return Passages(torch.stack(tokens), words, spans, rare)


@lru_cache(maxsize=1)
def _frequencies(source: str, held_out: tuple[str, ...]) -> dict[str, float]:
    """How often every word comes in the novels of training, as a share of all words."""
    trained, _ = novels(source, held_out)
    counts = Counter(chain.from_iterable(re.findall(r"\w+", one.text) for one in trained))
    total = sum(counts.values())
    return {word: count / total for word, count in counts.items()}


def _passage(
    text: str, share: float, length: int, tokenizer: Any, frequencies: dict[str, float]
) -> tuple[Tensor, int, tuple[int, ...], tuple[bool, ...]]:
    """Tokens (T + 1,) from a share of the text on, words predicted, and of each token its word."""
    begin = text.index(" ", int(len(text) * share))
    piece = text[begin : begin + LETTERS * length]
    read = tokenizer(piece, return_offsets_mapping=True, add_special_tokens=False)
    ids, offsets = read["input_ids"][: length + 1], read["offset_mapping"][: length + 1]
    if len(ids) <= length:
        raise UserError(f"a passage has {len(ids)} tokens, fewer than {length + 1}: lower context")
    numbers: dict[str, int] = {}
    of_letter = np.full(len(piece), -1)
    rare: dict[int, bool] = {-1: False}
    for word in re.finditer(r"\w+", piece):
        number = numbers.setdefault(word[0], len(numbers))
        of_letter[word.start() : word.end()] = number
        rare[number] = frequencies.get(word[0], 0.0) < RARE
    # A token begins with the space before its word.
    spans = tuple(int(of_letter[a:b].max(initial=-1)) for a, b in offsets)
    words = len(piece[offsets[length // 2][1] : offsets[length][1]].split())
    return torch.tensor(ids), words, spans, tuple(rare[word] for word in spans)


def read(study: InfiniteStudy, contestant: Contestant, given: Passages) -> NovelLosses:
    """What one contestant that learns nothing makes of the passages."""
    model, _ = reader_of(study)
    pasts: dict[Past, Floats] = {}
    nbytes = 0
    if contestant.kind == "ceiling":
        pasts["own"] = _whole(model, given)
    elif contestant.kind == "floor":
        window = contestant.reader.window
        pasts["own"] = window_alone(model, given.tokens, given.start, window)[0]
    else:
        memory = attached(study, contestant)
        try:
            pasts, nbytes = stream(memory, given, contestant.controls)
        finally:
            memory.detach()
    return told(contestant.reader, given, pasts, nbytes)


def attached(study: InfiniteStudy, contestant: Contestant) -> InfiniteMemory:
    """The memory of a contestant, on the pretrained model."""
    kind = InfiniteOptions if contestant.kind in ("infinite", "added") else TransformerXLOptions
    return InfiniteMemory(reader_of(study)[0], kind.make(**contestant.options))


def told(reader: Reader, given: Passages, pasts: dict[Past, Floats], nbytes: int) -> NovelLosses:
    """Losses (R, T / 2) after each past, by passage and class of token."""
    classes = given.classes(reader.window)
    own = pasts["own"]
    return NovelLosses(
        reader=reader,
        losses={past: tuple(found.mean(1).tolist()) for past, found in pasts.items()},
        sums={
            name: tuple(np.where(classes == number, own, 0).sum(1).tolist())
            for number, name in enumerate(CLASSES)
        },
        tokens={
            name: tuple((classes == number).sum(1).tolist()) for number, name in enumerate(CLASSES)
        },
        words=given.words,
        bytes=nbytes,
    )


def _whole(model: Any, given: Passages) -> Floats:
    """Every passage at once: a token sees half of the context, and all that came after it."""
    found = []
    with progress("whole passages", len(given.tokens), silent=False) as show:
        for number, row in enumerate(given.tokens):
            found.append(whole(model, row[None], given.start)[0][0])
            show(number + 1, "")
    return np.stack(found)


@torch.no_grad()
def stream(
    memory: InfiniteMemory, given: Passages, controls: bool
) -> tuple[dict[Past, Floats], int]:
    """Passages read from their beginnings; at every window also with no past, and another's."""
    window, state = memory.options.window, None
    found: dict[Past, list[Floats]] = {"own": []}
    for at in range(0, given.tokens.shape[1] - 1, window):
        tokens, following = (given.tokens[:, a : a + window] for a in (at, at + 1))
        if at >= given.start:
            pasts: dict[Past, StreamState | None] = {"own": state}
            if controls and state is not None:
                pasts["none"] = without(state, window, memory.options.sinks)
                pasts["other"] = exchanged(state, window)
            outs = {name: memory(tokens, past) for name, past in pasts.items()}
            for name, out in outs.items():
                found.setdefault(name, []).append(scored(out.logits, following)[0])
            state = outs["own"].state
        else:
            state = memory.read(tokens, state)
    assert state is not None
    nbytes = state.nbytes // len(given.tokens)
    return {name: np.concatenate(each, 1) for name, each in found.items()}, nbytes


def measure_novels(study: InfiniteStudy, folder: Path) -> Novels:
    """Every contestant on the passages, one at a time; what is measured is kept in a file."""
    from mnemoscope.huggingface.loading import load_config
    from mnemoscope.studies.infinite.learning import ROWS, measure_learners

    layers = load_config(study.model or "").get_text_config(decoder=True).num_hidden_layers
    known = contestants(study.windows, study.vectors, study.sizes, layers)

    def measure(name: str) -> NovelLosses:
        return read(study, known[name], passages(study))

    found = measure_all([*known], measure, folder / "novels", 1, "novels", kind=NovelLosses)
    learnt, tried = measure_learners(study, layers, folder) if study.novel_steps else ((), ())
    return Novels(
        books=study.held_out,
        **study.some("context", "vectors", "windows", "dtype"),
        trained=study.novel_steps * ROWS * study.windows[0] // 2,
        readings=(*found.values(), *learnt),
        tried=tried,
    )
