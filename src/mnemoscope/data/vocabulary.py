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

from mnemoscope.bounded import read_json
from mnemoscope.errors import UserError, suggestion

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ints = NDArray[np.int64]
Unit = Literal["bytes", "characters", "bpe"]

# Byte-level BPE knows the 256 bytes before it learns its first merge.
SMALLEST_BPE = 257

# A vocabulary of a million tokens has fewer.
MOST_BYTES = 256 << 20

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

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON text."""
        document = {"unit": self.unit, "content": self._content()}
        Path(path).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Vocabulary:
        """Read what `save` wrote."""
        none = f"{path} is not a vocabulary that mnemoscope saved"
        try:
            document = read_json(path, "put it back", MOST_BYTES)
        except UserError as error:
            raise UserError(f"{none}: {str(error).replace(f'{path} ', 'it ')}") from error
        if not isinstance(document, dict) or not {"unit", "content"} <= set(document):
            raise UserError(none)
        unit, content = document["unit"], document["content"]
        kinds = {kind.unit: kind for kind in (Bytes, Alphabet, Merges)}
        if not isinstance(unit, str) or unit not in kinds:
            known = suggestion(str(unit)[:40], kinds)
            raise UserError(f"{path}: unknown unit {str(unit)[:40]!r}; {known}")
        try:
            return kinds[unit]._from_content(content)
        # The tokenizers library raises bare Exception for a broken description.
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise UserError(f"{path} holds a broken {unit} vocabulary: {first}") from error


class Bytes(Vocabulary):
    """The 256 bytes of UTF-8."""

    unit = "bytes"

    @property
    def size(self) -> int:
        """How many token ids there are."""
        return 256

    def encode(self, text: str) -> Ints:
        """Return the bytes of a text."""
        return np.frombuffer(_utf(text, "utf-8"), dtype=np.uint8).astype(np.int64)

    def _text(self, ids: NDArray[np.integer[Any]]) -> str:
        return ids.astype(np.uint8).tobytes().decode("utf-8", errors="replace")

    def _content(self) -> None:
        return None

    @classmethod
    def _from_content(cls, content: Any) -> Bytes:
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

        return cls(Tokenizer.from_str(json.dumps(content)))


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
