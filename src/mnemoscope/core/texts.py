"""The texts of a file: one on every line, or paragraphs where lines were broken to fit a page."""

from __future__ import annotations

import logging
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from mnemoscope.core.bounded import MOST_LINES, read_text

log = logging.getLogger(__name__)

# Of all lines that have another below them in their paragraph, so many must be full.
FULL = 0.8
# Narrower than a page of print: a list of words or of short sentences.
NARROWEST = 40


def read_texts(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file that are not empty; of one that is hard-wrapped its paragraphs.

    Read line by line, a book of 70 letters a line would be texts of a dozen tokens, and no layer
    could show what it makes of a context.
    """
    lines = [line.strip() for line in read_text(path, MOST_LINES).splitlines()]
    paragraphs = [list(group) for filled, group in groupby(lines, bool) if filled]
    whole = [line for lines in paragraphs for line in lines]
    if not hard_wrapped(paragraphs):
        return whole
    log.warning(
        "%s is hard-wrapped: its %d lines are read as %d paragraphs, separated by empty lines",
        path,
        len(whole),
        len(paragraphs),
    )
    return [" ".join(lines) for lines in paragraphs]


def hard_wrapped(paragraphs: list[list[str]]) -> bool:
    """Whether lines end where the next word would not have fitted, in several paragraphs.

    The width is that of nearly the longest line: a few may stick out.
    """
    inner = [(line, below) for lines in paragraphs for line, below in pairwise(lines)]
    if sum(len(lines) > 1 for lines in paragraphs) < 2:
        return False
    width = float(np.quantile([len(line) for line, _ in inner], 0.9))
    full = [len(line) + 1 + len(below.split()[0]) >= width for line, below in inner]
    return width >= NARROWEST and float(np.mean(full)) >= FULL
