"""Documents as token ids, cut into segments that a model can read.

Shapes: S segments, T tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import read_documents
from mnemoscope.huggingface.quiet import quiet
from mnemoscope.models.inputs import as_list

# One text, several, with or without names, or the token ids of one or several.
Texts = str | Sequence[str] | Mapping[str, str] | Sequence[int] | Sequence[Sequence[int]] | Tensor
# More characters than tokens have in the mean, in any language.
PER_TOKEN = 16
# The last tokens of a text that was cut may be others than in the whole.
UNSURE = 64
# Two texts that share this many of their runs of five tokens are nearly the same.
NEARLY = 0.8
RUN = 5


def first_ids(tokenizer: Any, text: str, most: int | None = None) -> list[int]:
    """The first ``most`` tokens of a text; no more of it is cut into tokens than that takes."""
    size = len(text) if most is None else PER_TOKEN * (most + UNSURE)
    with quiet():
        while True:
            ids = [int(one) for one in tokenizer.encode(text[:size])]
            if size >= len(text) or most is None or len(ids) >= most + UNSURE:
                return ids[:most]
            size *= 4


def listed(texts: Texts) -> list[Any]:
    """The texts, or the token ids (T,) of each, that were given, one alone too."""
    given = as_list([*texts.values()] if isinstance(texts, Mapping) else texts)
    if isinstance(given[0], str):
        return given
    return [row for ids in given for row in (ids if ids.dim() == 2 else [ids])]


def token_ids(texts: Texts, tokenizer: Callable[[], Any], most: int | None = None) -> list[Tensor]:
    """The token ids of each text, at most so many; a tokenizer is asked for where there is text."""
    return [
        torch.as_tensor(first_ids(tokenizer(), one, most) if isinstance(one, str) else one)[:most]
        for one in listed(texts)
    ]


def check_cutting(segment: int = 128, overlap: int = 0) -> None:
    """Refuse what no text can be cut by."""
    if segment < 2 or not 0 <= overlap < segment - 1:
        raise UserError(
            f"segment={segment} and overlap={overlap}: a segment needs two tokens or more, "
            "and the overlap must be shorter than it by two"
        )


def segment_size(longest: int | None, segment: int = 128, overlap: int = 0) -> tuple[int, int]:
    """Tokens of a segment, and those it shares with the one before; no more than a model reads."""
    length = min(segment, longest or segment)
    return length, min(overlap, length - 2)


@dataclass(frozen=True)
class Segments:
    """Segments of documents, padded on the right.

    tokens   (S, T)  token ids
    mask     (S, T)  1 where there is a token
    targets  (S, T)  the token to be predicted *at* this position; -100 where none is
    owner    (S,)    which document a segment is from
    """

    tokens: Tensor
    mask: Tensor
    targets: Tensor
    owner: Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: Tensor) -> Segments:
        """Some of the segments, cut to the longest of them."""
        length = int(self.mask[rows].sum(1).max())
        tokens, mask, targets = (
            one[rows, :length] for one in (self.tokens, self.mask, self.targets)
        )
        return Segments(tokens, mask, targets, self.owner[rows])

    def batches(self, size: int) -> Iterator[Segments]:
        """All segments in order, ``size`` at a time."""
        for rows in torch.split(torch.arange(len(self)), size):
            yield self[rows]

    def to(self, device: torch.device) -> Segments:
        """The same on another device."""
        parts = (self.tokens, self.mask, self.targets, self.owner)
        return Segments(*(part.to(device) for part in parts))


class Documents:
    """Named texts as token ids.

    A segment has at most ``segment`` tokens; the first ``overlap`` of one that is not the first
    of its document were predicted in the segment before and are context only, so that every token
    counts once.
    """

    def __init__(
        self,
        texts: Mapping[str, str | Sequence[int]],
        tokenizer: Any = None,
        *,
        segment: int = 128,
        overlap: int = 0,
    ) -> None:
        if not texts:
            raise UserError("there are no documents: give at least one text with its name")
        check_cutting(segment, overlap)
        self.segment, self.overlap = segment, overlap
        self.ids = {_name(name): _ids(name, text, tokenizer) for name, text in texts.items()}
        _check_twins(self.ids)

    @classmethod
    def from_folder(cls, folder: str | Path, tokenizer: Any, **options: Any) -> Documents:
        """One document for each text file of a folder, named as the file is."""
        return cls({one.name: one.text for one in read_documents(folder)}, tokenizer, **options)

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return list(self.ids)

    @property
    def cutting(self) -> dict[str, int]:
        """How segments are cut, as options."""
        return {"segment": self.segment, "overlap": self.overlap}

    def __len__(self) -> int:
        return len(self.ids)

    def pick(self, names: Sequence[str]) -> Documents:
        """Only the named documents, cut in the same way."""
        return Documents({name: self.ids[name] for name in names}, **self.cutting)

    def segments(self, longest: int | None = None) -> Segments:
        """Cut all documents; no segment has more than ``longest`` tokens."""
        length, overlap = segment_size(longest, **self.cutting)
        segments: list[tuple[int, list[int], int]] = []
        for owner, ids in enumerate(self.ids.values()):
            target = 1  # the first token follows nothing that could predict it
            while target < len(ids):
                start = max(0, target - 1 - overlap)
                segments.append((owner, ids[start : start + length], target - start))
                target = start + length
        width = max(len(segment) for _, segment, _ in segments)
        tokens = torch.zeros(len(segments), width, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        targets = torch.full_like(tokens, -100)
        for row, (_, segment, seen) in enumerate(segments):
            ids_row = torch.tensor(segment)
            tokens[row, : len(segment)] = ids_row
            mask[row, : len(segment)] = 1
            targets[row, seen : len(segment)] = ids_row[seen:]
        owners = torch.tensor([owner for owner, _, _ in segments])
        return Segments(tokens, mask, targets, owners)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"the name of a document must be a string with something in it: {name!r}")
    return name


def _ids(name: str, text: Any, tokenizer: Any) -> list[int]:
    if isinstance(text, str):
        if not text.strip():
            raise UserError(f"document {name!r} is empty; put text in it or leave it out")
        if tokenizer is None:
            raise UserError(
                f"document {name!r} is text: give the tokenizer of the model, or token ids"
            )
        ids = first_ids(tokenizer, text)
        # A document ends where its text does, not with a sign that everything ends.
        if len(ids) > 1 and ids[-1] == getattr(tokenizer, "eos_token_id", None):
            ids.pop()
    else:
        ids = [int(token) for token in text]
    if len(ids) < 2:
        raise UserError(f"document {name!r} has {len(ids)} tokens: at least 2 are needed")
    return ids


def _check_twins(documents: Mapping[str, list[int]]) -> None:
    """Two documents with one text would be told to remember and to forget it at once."""
    seen: dict[tuple[int, ...], str] = {}
    for name, ids in documents.items():
        twin = seen.setdefault(tuple(ids), name)
        if twin != name:
            raise UserError(f"documents {twin!r} and {name!r} have the same text: leave one out")
    if len(documents) > 200:
        return  # comparing all pairs would take longer than learning them
    runs = {
        name: {tuple(ids[i : i + RUN]) for i in range(max(1, len(ids) - RUN + 1))}
        for name, ids in documents.items()
    }
    names = list(runs)
    for index, left in enumerate(names):
        for right in names[index + 1 :]:
            shared = len(runs[left] & runs[right]) / len(runs[left] | runs[right])
            if shared > NEARLY:
                warnings.warn(
                    f"documents {left!r} and {right!r} share {shared:.0%} of their text: the "
                    "memory is asked to tell apart what is nearly the same",
                    stacklevel=4,
                )
