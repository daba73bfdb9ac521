"""Between text and token ids: bytes, characters, or byte-level BPE."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Ints
from mnemoscope.core.bounded import digest, read_json
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.files import write_whole

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Unit = Literal["bytes", "characters", "bpe"]

# Byte-level BPE knows the 256 bytes before it learns its first merge.
SMALLEST_BPE = 257

# Far more than a vocabulary of a million tokens needs.
_MOST_BYTES = 64 * 2**20
# Long texts go through BPE in parts of about this many characters, to bound the memory it takes.
_PART = 1 << 16
# Byte-level BPE never joins a visible character to a space after it: a cut there changes no token.
_SAFE_CUT = re.compile(r"(?<=\S)(?=[ \n])")


class Vocabulary(ABC):
    """A fixed, reversible map between text and token ids 0..size-1."""

    unit: ClassVar[Unit]

    @property
    @abstractmethod
    def size(self) -> int:
        """How many token ids there are."""

    @property
    @abstractmethod
    def widths(self) -> Ints:
        """How many bytes of UTF-8 each token stands for, (size,)."""

    @abstractmethod
    def encode(self, text: str) -> Ints:
        """Return the token ids of a text."""

    def decode(self, ids: NDArray[np.integer[Any]]) -> str:
        """Return the text of token ids; bytes that are no whole character become U+FFFD."""
        ids = np.asarray(ids)
        outside = ids[(ids < 0) | (ids >= self.size)]
        if outside.size:
            raise UserError(f"token {outside[0]} is outside this vocabulary of {self.size} tokens")
        return self._text(ids)

    @abstractmethod
    def _text(self, ids: NDArray[np.integer[Any]]) -> str: ...

    @abstractmethod
    def _content(self) -> Any:
        """Return what `save` must write so that `load` gives the same vocabulary back."""

    @classmethod
    @abstractmethod
    def _from_content(cls, content: Any) -> Vocabulary: ...

    @property
    def fingerprint(self) -> str:
        """Equal for vocabularies that make the same tokens of every text."""
        return digest([self.unit, self._content()])

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON text, with a digest so that damage is noticed."""
        content = self._content()
        document = {"unit": self.unit, "content": content, "digest": digest(content)}
        write_whole(Path(path), json.dumps(document, ensure_ascii=False).encode("utf-8"))

    @staticmethod
    def load(path: str | Path, remedy: str = "put back what was saved") -> Vocabulary:
        """Read what `save` wrote; ``remedy`` tells what to do when the file is damaged."""
        document = read_json(path, remedy, _MOST_BYTES)
        if not isinstance(document, dict) or not {"unit", "content"} <= set(document):
            raise UserError(f"{path} is not a vocabulary that mnemoscope saved: {remedy}")
        unit, content = document["unit"], document["content"]
        kinds = {kind.unit: kind for kind in (Bytes, Alphabet, Merges)}
        if not isinstance(unit, str) or unit not in kinds:
            hint = suggestion(str(unit)[:40], kinds)
            raise UserError(f"{path}: unknown unit {str(unit)[:40]!r}; {hint}: {remedy}")
        # Vocabularies of older versions have no digest.
        if document.get("digest", digest(content)) != digest(content):
            raise UserError(f"{path} is damaged (its digest does not fit): {remedy}")
        try:
            return kinds[unit]._from_content(content)
        # The tokenizers library raises bare Exception for a broken description.
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise UserError(
                f"{path} holds a broken {unit} vocabulary ({first}): {remedy}"
            ) from error


class Bytes(Vocabulary):
    """The 256 bytes of UTF-8."""

    unit = "bytes"

    @property
    def size(self) -> int:
        """How many token ids there are."""
        return 256

    @property
    def widths(self) -> Ints:
        """One byte each."""
        return np.ones(self.size, dtype=np.int64)

    def encode(self, text: str) -> Ints:
        """Return the bytes of a text."""
        return np.frombuffer(_utf(text, "utf-8"), dtype=np.uint8).astype(np.int64)

    def _text(self, ids: NDArray[np.integer[Any]]) -> str:
        return ids.astype(np.uint8).tobytes().decode("utf-8", errors="replace")

    def _content(self) -> None:
        return None

    @classmethod
    def _from_content(cls, content: Any) -> Bytes:
        if content is not None:
            raise UserError("bytes need no content")
        return cls()


class Alphabet(Vocabulary):
    """Every different character of a text, in the order of their code points."""

    unit = "characters"

    def __init__(self, text: str) -> None:
        """Collect the characters of ``text``."""
        self._points = np.unique(_code_points(text))

    @property
    def size(self) -> int:
        """How many token ids there are."""
        return len(self._points)

    @property
    def widths(self) -> Ints:
        """One to four bytes, by code point."""
        return 1 + np.searchsorted([0x80, 0x800, 0x10000], self._points, side="right")

    def encode(self, text: str) -> Ints:
        """Return one id per character."""
        points = _code_points(text)
        ids = np.searchsorted(self._points, points).astype(np.int64)
        known = ids < self.size
        known[known] = self._points[ids[known]] == points[known]
        if not known.all():
            where = int(np.argmin(known))
            raise UserError(
                f"character {text[where]!r} (U+{points[where]:04X}, position {where}) is not among "
                f"the {self.size} characters of this vocabulary"
            )
        return ids

    def _text(self, ids: NDArray[np.integer[Any]]) -> str:
        return self._points[ids.astype(np.int64)].tobytes().decode("utf-32-le")

    def _content(self) -> str:
        return self._text(np.arange(self.size))

    @classmethod
    def _from_content(cls, content: Any) -> Alphabet:
        if not isinstance(content, str) or not content:
            raise UserError("its characters are no text")
        return cls(content)


class Merges(Vocabulary):
    """Byte-level BPE: bytes, and the pairs of tokens that came together most often."""

    unit = "bpe"

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Wrap a tokenizer; `Merges.learn` makes one."""
        self._tokenizer = tokenizer
        self._size = int(tokenizer.get_vocab_size())

    @classmethod
    def learn(cls, text: str, size: int) -> Merges:
        """Learn at most ``size`` tokens from a text; a short text may hold fewer pairs to merge."""
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        if size < SMALLEST_BPE:
            raise UserError(
                f"a byte-level BPE vocabulary of {size} is too small: 256 bytes and at least "
                f"one merge make {SMALLEST_BPE}"
            )
        _utf(text, "utf-8")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_parts(text), trainer)
        return cls(tokenizer)

    @property
    def size(self) -> int:
        """How many token ids there are."""
        return self._size

    @property
    def widths(self) -> Ints:
        """As many bytes as were merged: a byte-level token is written with a letter for each."""
        words = {number: word for word, number in self._tokenizer.get_vocab().items()}
        return np.array([len(words[number]) for number in range(self.size)])

    def encode(self, text: str) -> Ints:
        """Return the token ids of a text."""
        _utf(text, "utf-8")
        ids = [np.array(self._tokenizer.encode(part).ids, dtype=np.int64) for part in _parts(text)]
        return np.concatenate([np.empty(0, dtype=np.int64), *ids])

    def encode_all(self, texts: Sequence[str]) -> list[Ints]:
        """Return the token ids of many short texts, faster than one by one."""
        for text in texts:
            _utf(text, "utf-8")
        return [np.array(one.ids, dtype=np.int64) for one in self._tokenizer.encode_batch(texts)]

    def _text(self, ids: NDArray[np.integer[Any]]) -> str:
        return str(self._tokenizer.decode(ids.tolist(), skip_special_tokens=False))

    def _content(self) -> Any:
        return json.loads(self._tokenizer.to_str())

    @classmethod
    def _from_content(cls, content: Any) -> Merges:
        from tokenizers import Tokenizer

        _check_merges(content)
        return cls(Tokenizer.from_str(json.dumps(content)))


def learn(unit: Unit, train: str, rest: str, size: int) -> Vocabulary:
    """The vocabulary of a text: BPE knows its training part only, the others need not learn."""
    if unit == "bytes":
        return Bytes()
    return Alphabet(train + rest) if unit == "characters" else Merges.learn(train, size)


def _check_merges(content: Any) -> None:
    """Raise `UserError` unless it describes what `Merges.learn` makes, and nothing besides.

    The library would take other machinery too, some of which takes for ever on a short text.
    """
    parts = {"pre_tokenizer": "ByteLevel", "decoder": "ByteLevel", "model": "BPE"}
    for name, kind in parts.items():
        if not isinstance(content, dict) or not isinstance(content.get(name), dict):
            raise UserError(f"it has no {name}")
        if content[name].get("type") != kind:
            raise UserError(f"its {name} is not {kind}")
    if any(content.get(name) for name in ("normalizer", "post_processor", "added_tokens")):
        raise UserError("it has more than bytes and merges")
    # One that is longer than a token makes the library panic.
    if content["model"].get("continuing_subword_prefix"):
        raise UserError("its tokens have a prefix, which bytes have not")
    ids = content["model"].get("vocab")
    whole = isinstance(ids, dict) and all(type(number) is int for number in ids.values())
    if not whole or sorted(ids.values()) != list(range(len(ids))):
        raise UserError("its token ids are not 0, 1, 2 …")


def _parts(text: str) -> Iterator[str]:
    """Cut a text where BPE has a token border in any case."""
    start = 0
    while start < len(text):
        cut = _SAFE_CUT.search(text, start + _PART)
        end = cut.end() if cut else len(text)
        yield text[start:end]
        start = end


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(_utf(text, "utf-32-le"), dtype="<u4")


def _utf(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise UserError(
            f"the text holds half of a surrogate pair ({text[error.start]!r}) at position "
            f"{error.start}, which is no character; decode it properly first"
        ) from error
