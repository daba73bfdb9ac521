"""Read sentence pairs: a table with tabs, two files line by line, or a Hugging Face dataset."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import existing, load_dataset, read_text

log = logging.getLogger(__name__)

# What exports of Tatoeba and its kin write behind a pair: whose it is, and on what terms.
_ATTRIBUTION = re.compile(r"attribution|licen[cs]e|copyright|©|\bcc[ -]?(by|0)\b|tatoeba", re.I)


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str


def read_pairs(corpus: str, columns: Sequence[str] | None = None) -> list[Pair]:
    """Return the pairs of a corpus, in its order; those with an empty side are left out.

    corpus   ``pairs.tsv`` (may be gzip), ``a.en,a.de`` (two files of equal length), or
             ``hf:OWNER/NAME[/CONFIG][:SPLIT]``
    columns  which two: numbers from 1 in a table, names (or languages) in a dataset

    A table for which no columns are named has two; a third may hold an attribution, which is left
    out with a word in the log. Anything else beyond the second is refused.
    """
    if columns is not None and len(columns) != 2:
        raise UserError(f"columns must name two, source and target: got {','.join(columns)}")
    if corpus.startswith("hf:"):
        rows = _dataset(corpus, columns)
    elif "," in corpus:
        rows = _two_files(corpus, columns)
    else:
        rows = _table(corpus, columns)
    pairs, empty = [], []
    for number, (source, target) in enumerate(rows, start=1):
        source, target = " ".join(source.split()), " ".join(target.split())
        if source and target:
            pairs.append(Pair(source, target))
        elif source or target:
            empty.append(number)
    if empty:
        log.warning(
            "%s: %d pairs with an empty side left out, the first at line %d",
            corpus,
            len(empty),
            empty[0],
        )
    if not pairs:
        raise UserError(f"{corpus} holds no pair of sentences")
    return pairs


def _lines(path: str) -> list[str]:
    if not path.strip():
        raise UserError("the corpus is empty; name a table, FILE,FILE or hf:OWNER/NAME")
    file = existing(path.strip())
    if file.is_dir():
        raise UserError(f"{file} is a folder: name a file")
    # Not splitlines(): a sentence may hold the rarer separators that it cuts at.
    return read_text(file).replace("\r\n", "\n").removesuffix("\n").split("\n")


def _table(path: str, columns: Sequence[str] | None) -> Iterable[tuple[str, str]]:
    places = [_number(one) for one in columns or ("1", "2")]
    needed = max(places)
    rows = [line.split("\t") for line in _lines(path)]
    if columns is None:
        _check_two(path, rows)
    for number, cells in enumerate(rows, start=1):
        if not any(map(str.strip, cells)):
            yield "", ""
        elif len(cells) < needed:
            raise UserError(
                f"line {number} of {path} has {len(cells)} column(s), needed are {needed}, parted "
                "by tabs; two plain files are given as FILE,FILE"
            )
        else:
            yield cells[places[0] - 1], cells[places[1] - 1]


def _check_two(path: str, rows: Iterable[Sequence[str]]) -> None:
    """Raise `UserError` when it is not plain which two columns are meant."""
    attributed = 0
    for number, cells in enumerate(rows, start=1):
        beyond = "\t".join(cells[2:]).strip()
        if not beyond:
            continue
        if "\t" in beyond or not _ATTRIBUTION.search(beyond):
            raise UserError(
                f"line {number} of {path} has {len(cells)} columns ({beyond[:40]!r} is beyond the "
                "second): say which two are source and target, for example columns=1,2"
            )
        attributed += 1
    if attributed:
        log.warning(
            "%s: the third column of %d lines is an attribution and left out", path, attributed
        )


def _number(column: str) -> int:
    if not column.isdecimal() or len(column) > 6 or int(column) < 1:
        raise UserError(f"columns of a table are numbers from 1, not {column!r}")
    return int(column)


def _two_files(corpus: str, columns: Sequence[str] | None) -> Iterable[tuple[str, str]]:
    files = corpus.split(",")
    if len(files) != 2 or columns is not None:
        raise UserError(f"{corpus}: give two files, source first, and no columns")
    source, target = map(_lines, files)
    if len(source) != len(target):
        raise UserError(
            f"{files[0]} has {len(source)} lines but {files[1]} has {len(target)}: line n of one "
            "must be the translation of line n of the other"
        )
    return zip(source, target, strict=True)


def _dataset(corpus: str, columns: Sequence[str] | None) -> Iterable[tuple[str, str]]:
    _, rows = load_dataset(corpus)
    table: dict[str, Any] = {}
    for name in rows.column_names:
        values = rows[name]
        # The usual form: one column of dicts, from language to sentence.
        if len(values) and isinstance(values[0], dict):
            table |= {key: [row[key] for row in values] for key in values[0]}
        elif len(values) and isinstance(values[0], str):
            table[name] = list(values)
    chosen = list(columns or list(table)[:2])
    missing = [name for name in chosen if name not in table]
    if missing or len(chosen) < 2:
        wanted = missing[0] if missing else "a second one"
        raise UserError(
            f"{corpus} has no column of sentences {wanted!r}; it has: {', '.join(table) or 'none'}"
        )
    return (
        (source or "", target or "")
        for source, target in zip(*(table[c] for c in chosen), strict=True)
    )
