"""Spell a word: one token, many answers."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Batch, Split, Task
from mnemoscope.data.documents import read_documents
from mnemoscope.data.vocabulary import Alphabet, Vocabulary

# Letters only: no digits, no underscores.
_WORD = re.compile(r"[^\W\d_]+")


class Spelling(Task):
    """The letters of a word, one at a time, having read one token that stands for all of it.

    One to many. Words are numbered, the id after the last is a blank that says nothing; letters
    are numbered in the order of the alphabet, and the id after them ends a word. The words ``an``,
    ``man`` and ``name`` (letters a, e, m, n; end 4), the word ``man``:

        tokens   1 3 3 3 3
        targets  2 0 3 4 .

    Words are the commonest of the source. **None can be held out**: a token that was never seen
    has no spelling. Validation asks every word in turn, and the accuracy is the share of letters
    and ends that the weights have kept. Who does not look at the word and says what is commonest
    at each position reaches ``majority``.
    """

    source: str | None = Field(
        None, description="a file, a folder, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    most_words: int = Field(
        200, ge=2, le=100_000, description="the commonest words, at most so many"
    )
    fewest_letters: int = Field(3, ge=1, description="shorter words are left out")

    @property
    def lexicon(self) -> tuple[str, ...]:
        """The words, in the order of their ids."""
        return _lexicon(self)

    @property
    def letters(self) -> Alphabet:
        """The map between letters and answers; the end comes after them."""
        return Alphabet("".join(self.lexicon))

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """What a run keeps."""
        return {"vocabulary.json": self.letters}

    @property
    def vocab(self) -> int:
        """How many token ids are read: the words and the blank."""
        return len(self.lexicon) + 1

    @property
    def outputs(self) -> int:
        """How many are said: the letters and the end."""
        return self.letters.size + 1

    @property
    def longest(self) -> int:
        """Letters of the longest word, and its end."""
        return max(map(len, self.lexicon)) + 1

    @property
    def majority(self) -> float:
        """Accuracy of saying what is commonest at each position, whatever the word."""
        answers = _answers(self)
        asked = answers != NO_QUESTION
        commonest = sum(np.bincount(column[column != NO_QUESTION]).max() for column in answers.T)
        return float(commonest / asked.sum())

    @property
    def digest(self) -> str:
        """A fingerprint of the words."""
        return hashlib.blake2b("\0".join(self.lexicon).encode(), digest_size=16).hexdigest()

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` words: drawn at random to train on, in turn to validate on."""
        if split == "test":
            raise UserError("this task keeps no test part; ask for split valid")
        count = len(self.lexicon)
        chosen = self.choose(count, step, size, seed, split)
        targets = _answers(self)[chosen]
        tokens = np.full_like(targets, count)
        tokens[:, 0] = chosen
        return Batch.episodes(tokens, targets)


# A config is frozen, so it can stand for its words.
@lru_cache(maxsize=8)
def _lexicon(task: Spelling) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for document in read_documents(task.source):
        counts.update(word.casefold() for word in _WORD.findall(document.text))
    known = [word for word in counts if len(word) >= task.fewest_letters]
    if len(known) < 2:
        raise UserError(
            f"{task.source} has {len(known)} words of {task.fewest_letters} letters or more; at "
            "least 2 are needed"
        )
    # Of equally common words the first by alphabet, so that the order does not depend on the text.
    return tuple(sorted(sorted(known, key=lambda word: (-counts[word], word))[: task.most_words]))


@lru_cache(maxsize=8)
def _answers(task: Spelling) -> NDArray[np.int64]:
    """Letters and end of every word, (words, longest)."""
    answers = np.full((len(task.lexicon), task.longest), NO_QUESTION, dtype=np.int64)
    for row, word in zip(answers, task.lexicon, strict=True):
        row[: len(word)] = task.letters.encode(word)
        row[len(word)] = task.letters.size
    return answers
