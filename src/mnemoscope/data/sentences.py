"""Fill in words of sentences: the next one, or those that were hidden."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from mnemoscope.core.arrays import Ints
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import NO_QUESTION, Batch, Split
from mnemoscope.data.masking import FillIn, hide
from mnemoscope.data.translation import PairsTask, Part, Translation, drawn, encode
from mnemoscope.data.vocabulary import Merges, Vocabulary


class Sentences(FillIn, PairsTask):
    """The next word of a sentence, or the words that were hidden in it (masked language model).

    The sentences are the sources of the task ``translation`` with the same options, cut into the
    same tokens and the same parts, so that one encoder can learn all three. E ends a sentence, M
    is what hides a word, a dot asks nothing:

        objective=next      tokens   I see you E     targets   see you E .
        objective=masked    tokens   I M   you E     targets   .   see . .

    Of 15 % of the words, at least one in a sentence, 8 in 10 are hidden, 1 is replaced by a random
    one and 1 left as it is. A batch holds sentences of one length: nothing is padded.
    """

    @property
    def pairs(self) -> Translation:
        """The task whose sources these sentences are."""
        return Translation.make(**self.model_dump(exclude={"objective"}))

    @property
    def words(self) -> Vocabulary:
        """The map between sentences and tokens; the end and the mask come after its ids."""
        return self.pairs.vocabularies["source-vocabulary.json"]

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """What a run keeps."""
        return {"vocabulary.json": self.words}

    @property
    def vocab(self) -> int:
        """How many token ids there are: words, their end, and what hides one."""
        return self.words.size + 2

    @property
    def digest(self) -> str:
        """A fingerprint of all sentences that are learnt from or validated on."""
        digest = hashlib.blake2b(digest_size=16)
        for part in ("train", "valid"):
            for one in _encoded(self.pairs, part):
                digest.update(one.tobytes())
        return digest.hexdigest()

    def encoded(self, part: Part) -> list[Ints]:
        """The token ids of all sentences of a part, each with its end."""
        return list(_encoded(self.pairs, part))

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return the batch at ``step``, about ``size`` sentences of mean length."""
        pairs = self.pairs
        epoch, place = divmod(step, len(_cuts(pairs, split, size)))
        sentences = _encoded(pairs, split)
        chosen = _epoch(pairs, split, size, seed, epoch)[place]
        words = np.stack([sentences[row] for row in chosen])
        if self.objective == "next":
            targets = np.full_like(words, NO_QUESTION)
            targets[:, :-1] = words[:, 1:]
            tokens = words
        else:
            tokens, targets = self.hide(words, self.generator(step, seed, split))
        return Batch.episodes(tokens, targets)

    def hide(self, words: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Hide some of the words (B, T): what is read, and what is asked."""
        read, asked = hide(words[:, :-1], self.words.size, self.words.size + 1, rng)
        tokens, targets = words.copy(), np.full_like(words, NO_QUESTION)
        tokens[:, :-1], targets[:, :-1] = read, asked  # never the end
        return tokens, targets


@lru_cache(maxsize=8)
def _encoded(pairs: Translation, part: Part) -> tuple[Ints, ...]:
    """Every sentence once, though it may have several translations."""
    lines = list(dict.fromkeys(pair.source for pair in pairs.pairs(part)))
    words = pairs.vocabularies["source-vocabulary.json"]
    assert isinstance(words, Merges)
    # A sentence of nothing but its end asks nothing.
    return tuple(one for one in encode(words, lines) if len(one) > 1)


@lru_cache(maxsize=8)
def _cuts(pairs: Translation, part: Part, size: int) -> list[slice]:
    """Where batches of one length begin and end among sentences sorted by length."""
    lengths = np.sort([len(one) for one in _encoded(pairs, part)])
    budget = size * float(lengths.mean())
    cuts, first = [], 0
    for place in range(1, len(lengths) + 1):
        full = place < len(lengths) and (place + 1 - first) * lengths[first] > budget
        if place == len(lengths) or lengths[place] != lengths[first] or full:
            cuts.append(slice(first, place))
            first = place
    return cuts


@lru_cache(maxsize=4)
def _epoch(pairs: Translation, part: Split, size: int, seed: int, epoch: int) -> list[Ints]:
    lengths = np.array([len(one) for one in _encoded(pairs, part)])
    return drawn(_cuts(pairs, part, size), [lengths], derive(seed, "data", part, epoch))
