"""Texts read side by side while a memory learns: every row one text after another.

The past begins anew with every text, as it does when texts are read for real. A memory that learns
on texts strung together learns to read after hundreds of windows what it will meet after three.

Shapes: R rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.huggingface.texts import PER_TOKEN, Texts, first_ids, listed, token_ids

if TYPE_CHECKING:
    from mnemoscope.huggingface.config import InfiniteFitting
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory

# The target of a token after which nothing comes.
NOTHING = -100


@dataclass(frozen=True)
class Stretch:
    """What all rows read in one step.

    tokens   (R, T)
    targets  (R, T)  the next token of the same text; -100 after its end
    starts   (R,)    where a text begins
    places   which text each row reads, and from which token on
    """

    tokens: Tensor
    targets: Tensor
    starts: Tensor
    places: tuple[tuple[int, int], ...]


def learnt_from(
    memory: InfiniteMemory, texts: Texts, options: InfiniteFitting
) -> tuple[list[Tensor], int]:
    """Whatever was given to learn from, as token ids (T,), and how many to read side by side."""
    if isinstance(texts, Tensor) and texts.dim() == 2:
        return [*texts.long().cpu()], len(texts)
    stretch = memory.options.window * options.tbptt
    given = listed(texts)
    if all(isinstance(one, str) for one in given):
        most = stretch * max(1, options.steps) + 1
        pieces = pieces_of(given, memory.text_tokenizer(), options.rows, most, stretch + 1)
    else:
        pieces = _cut(token_ids(given, memory.text_tokenizer), options.rows, stretch + 1)
    return pieces, min(options.rows, len(pieces))


def pieces_of(
    texts: Sequence[str], tokenizer: Any, rows: int, most: int, least: int = 2
) -> list[Tensor]:
    """Texts as token ids, long ones in pieces, so that ``rows`` of them can be read side by side.

    Of each, training will read at most ``most`` tokens: of texts that are far longer the rest is
    not even cut into tokens. No piece is cut to fewer than ``least``.
    """
    letters = sum(map(len, texts))
    if letters <= PER_TOKEN * rows * most:
        return _cut([torch.tensor(first_ids(tokenizer, text)) for text in texts], rows, least)
    share = -(-letters // rows)
    pieces: list[Tensor] = []
    for piece in (text[at : at + share] for text in texts for at in range(0, len(text), share)):
        pieces.append(torch.tensor(first_ids(tokenizer, piece, most)))
        if sum(map(len, pieces)) >= rows * most:
            break
    return _told(pieces)


def _cut(texts: Sequence[Tensor], rows: int, least: int) -> list[Tensor]:
    """No piece is longer than a row's share of all texts, if that is at least ``least``."""
    share = max(least, sum(map(len, texts)) // rows)
    return _told(piece.long() for text in texts for piece in torch.split(text, share))


def _told(pieces: Iterable[Tensor]) -> list[Tensor]:
    """Those that predict something: the last of a text may be a single token."""
    return [piece for piece in pieces if len(piece) > 1]


def stretches(texts: Sequence[Tensor], rows: int, length: int) -> Iterator[Stretch]:
    """Every row reads ``length`` tokens at a time of its text, then of the next one, without end.

    Each text (T,) is taken up by the first row that has none; after the last comes the first.
    """
    waiting = cycle(range(len(texts)))
    reading = [next(waiting) for _ in range(rows)]
    at = [0] * rows
    while True:
        tokens = torch.zeros(rows, length, dtype=torch.long)
        targets = torch.full_like(tokens, NOTHING)
        starts = torch.tensor([place == 0 for place in at])
        places = tuple(zip(reading, at, strict=True))
        for row, (number, place) in enumerate(places):
            text = texts[number]
            here, following = text[place : place + length], text[place + 1 : place + length + 1]
            tokens[row, : len(here)] = here
            targets[row, : len(following)] = following
            at[row] += length
            # The last token of a text predicts nothing.
            if at[row] + 1 >= len(text):
                reading[row], at[row] = next(waiting), 0
        yield Stretch(tokens, targets, starts, places)
