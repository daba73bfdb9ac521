"""A corpus made ready: its conversations in parts, and how they are written as tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnemoscope.data.batch import Split
from mnemoscope.data.dialogue.conversation import Conversation
from mnemoscope.data.dialogue.corpus import divided, read_conversations
from mnemoscope.data.dialogue.script import Script, common_words, marked_script
from mnemoscope.data.dialogue.tokens import by_bpe, by_word
from mnemoscope.data.vocabulary import Merges


@dataclass(frozen=True)
class Prepared:
    """All conversations of a source in parts, none of what is made up, and how they are written."""

    script: Script
    common: frozenset[str]
    vocabulary: Merges | None
    lexicon: tuple[str, ...]
    parts: dict[Split, list[Conversation]]

    @property
    def size(self) -> int:
        """How many ids are text; marks come after them."""
        return len(self.lexicon) if self.vocabulary is None else self.vocabulary.size

    @property
    def filled(self) -> list[Split]:
        """The parts that there are; few documents leave none for a test."""
        return [part for part, conversations in self.parts.items() if conversations]

    @property
    def marks(self) -> dict[int, str]:
        """Marks as they are shown."""
        speakers = {one[0]: f"{i + 1}>" for i, one in enumerate(self.script.speakers)}
        return {self.script.end[0]: "∎", self.script.section[0]: "§", **speakers}

    def decode(self, ids: list[int]) -> str:
        """The text of ids without marks."""
        if self.vocabulary is None:
            return " ".join(self.lexicon[token] for token in ids)
        return self.vocabulary.decode(np.array(ids))


def made_up(lexicon: tuple[str, ...]) -> Prepared:
    """How made-up conversations are written, of which there are as many as are drawn."""
    script = marked_script(by_word(lexicon), len(lexicon), 2, scores_end=False)
    return Prepared(script, frozenset(), None, lexicon, {})


def prepared(source: str, held_out: float, vocabulary_size: int) -> Prepared:
    """Read a source, part it, and learn BPE from the part to train on."""
    parts = divided(read_conversations(source), held_out)
    train = parts["train"]
    documents = dict.fromkeys(one.document for part in parts.values() for one in part)
    known = dict.fromkeys(one.document for one in train)
    texts = [section for document in known for section in document.sections]
    texts += [turn.text for one in train for turn in one.turns]
    vocabulary = Merges.learn("\n".join(f" {text}" for text in texts), vocabulary_size)
    speakers = max(len(one.speakers) for part in parts.values() for one in part)
    script = marked_script(by_bpe(vocabulary), vocabulary.size, speakers, scores_end=True)
    return Prepared(script, common_words(documents), vocabulary, (), parts)
