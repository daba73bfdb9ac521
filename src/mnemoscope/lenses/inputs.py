"""What lenses are given, made from models and texts: captured activations, fixed-length texts,
token ids of equal length, a translator's pairs.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor

from mnemoscope.activations.batches import encode, to_batches
from mnemoscope.activations.capture import Observed, capture, estimate, side_by_side
from mnemoscope.activations.fixed_length import FixedLengthTexts, cut
from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.lenses.lens import Lens, PairOptions, Result, TextOptions
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.models.translator import Translator
from mnemoscope.open import Reader, open_reader
from mnemoscope.training.run import Run

log = logging.getLogger(__name__)

# Characters of text that a token to be read is worth; most tokens have four.
PER_TOKEN = 64
BATCH = 32


@dataclass(frozen=True, eq=False)
class Tokenised:
    """Some of the texts as token ids, and who reads them.

    ids      token ids of each text that is read
    numbers  which of the texts that were given they are
    length   tokens read at once
    """

    readers: list[Reader]
    ids: list[Ints]
    numbers: list[int]
    length: int

    def captured(self, sites: Sequence[str]) -> Iterator[Observed]:
        """Batches of one model, or of several side by side (A/…, B/…), behind a progress bar."""
        options: dict[str, Any] = {"sites": list(sites), "length": self.length}
        first, *others = self.readers
        if others:
            named = dict(zip("ABCDEFGH", self.readers, strict=False))
            stream = side_by_side(named, self.ids, **options)
        else:
            stream = capture(first, self.ids, **options)
        total = len(to_batches(first, self.ids, self.length, BATCH))
        with progress("reading", total) as show:
            for number, seen in enumerate(stream, start=1):
                yield seen
                show(number, "")


def tokenise(
    models: Sequence[Any], texts: Sequence[str], options: TextOptions, sites: Sequence[str]
) -> Tokenised:
    """Open models that cut text into the same tokens, and choose texts of about so many tokens."""
    readers = [open_reader(model) for model in models]
    limit = _at_once(readers, options.length)
    lines = _thinned(texts, PER_TOKEN * max(options.tokens, 2 * limit))
    ids = dict(zip(lines, encode(readers, [*lines.values()]), strict=True))
    numbers = list(ids)
    chosen = [numbers[n] for n in _spread(len(ids), sum(map(len, ids.values())) / options.tokens)]
    few = [ids[n][: options.tokens] for n in chosen]
    log.info("%s", estimate(readers[0], to_batches(readers[0], few, limit, BATCH), sites))
    return Tokenised(readers, few, chosen, limit)


class CaptureLens(Lens):
    """A lens on activations that are captured while one model reads, or several side by side."""

    @classmethod
    def made(cls, given: Tokenised, texts: Sequence[str], options: Any) -> Self:
        """A fresh lens with these options, for texts that are about to be read."""
        return cls(**options.chosen())

    @abstractmethod
    def observe(self, seen: Observed) -> None:
        """Take in one batch."""

    @classmethod
    def measure(cls, models: Sequence[Any], texts: Sequence[str], options: Any) -> Result:
        """Capture models that read texts."""
        given = tokenise(models, texts, options, options.sites)
        lens = cls.made(given, texts, options)
        for seen in given.captured(options.sites):
            lens.observe(seen)
        return lens.result()


def _at_once(readers: Sequence[Reader], length: int) -> int:
    return min([length, *(one.limit for one in readers if one.limit is not None)])


def _thinned(texts: Sequence[str], most: int) -> dict[int, str]:
    """Texts by their numbers, evenly spread, with about ``most`` characters in all.

    To cut a whole library into tokens, of which a few are read, would take longer than reading.
    """
    numbers = _spread(len(texts), sum(map(len, texts)) / most)
    return {number: texts[number][:most] for number in numbers}


def _spread(count: int, step: float) -> list[int]:
    """Every ``step``-th of ``count``, at least one."""
    step = max(1.0, step)
    return [int(number * step) for number in range(max(1, int(count / step)))]


@dataclass(frozen=True, eq=False)
class FixedLength:
    """A model, texts for it, and into how many texts of which length they are to be cut."""

    reader: Reader
    texts: list[str]
    length: int
    count: int

    def cut(self) -> FixedLengthTexts:
        """Token ids, all of one length."""
        return cut(self.reader, self.texts, self.length, self.count)


class FixedLengthLens(Lens):
    """A lens on one model that reads texts of one length."""

    @classmethod
    def made(cls, given: FixedLength, options: Any) -> Self:
        """A fresh lens with these options."""
        return cls(**options.chosen())

    @abstractmethod
    def read(self, given: FixedLength, options: Any) -> None:
        """Observe the model while it reads."""

    @classmethod
    def measure(cls, models: Sequence[Any], texts: Sequence[str], options: Any) -> Result:
        """Let one model read texts of one length, about so many tokens in all."""
        reader = open_reader(models[0])
        length = _at_once([reader], options.length)
        lines = _thinned(texts, PER_TOKEN * max(options.tokens, 2 * length))
        count = max(2, options.tokens // length)
        given = FixedLength(reader, list(lines.values()), length, count)
        lens = cls.made(given, options)
        lens.read(given, options)
        return lens.result()


class NativeLens(FixedLengthLens):
    """A lens on layers of one kind, which only models of this package have.

    needs   what it says to a model without them
    batch   texts read at once
    """

    needs: ClassVar[str]
    batch: ClassVar[int] = BATCH

    @abstractmethod
    def check_layers(self, model: SequenceModel) -> Any:
        """The layers it looks at, or `UserError`."""

    @abstractmethod
    def observe(self, model: SequenceModel, tokens: Tensor) -> None:
        """Read tokens (B, T) from the beginning of a stream."""

    def read(self, given: FixedLength, options: Any) -> None:
        """Observe the model batch by batch."""
        model = given.reader.model
        if not isinstance(model, SequenceModel):
            raise UserError(f"{self.needs}: {given.reader.name} is a model of transformers")
        if isinstance(model, SourceModel):
            raise UserError(f"{self.needs}: {given.reader.name} is a translator")
        self.check_layers(model)
        for tokens in given.cut().batches(self.batch):
            self.observe(model, tokens)


class PairLens(Lens):
    """A lens on a translator that reads a source and says a target."""

    Options, reads = PairOptions, "pairs"

    @abstractmethod
    def observe(self, translator: Translator, source: str, target: str) -> Any:
        """Read the source and say the target, whatever the model would have said itself."""

    @classmethod
    def measure(cls, models: Sequence[Any], texts: Sequence[str], options: Any) -> Result:
        """Let one translator say sentences; where no target is given, what it would say itself."""
        lens, translator = cls(), _translator(models[0], cls.title.lower())
        for text in [text for text in texts if text.strip()][: options.sentences]:
            source, tab, target = text.partition("\t")
            lens.observe(translator, source, target if tab else translator([source])[0][0].text)
        return lens.result()


def _translator(model: Any, needs: str) -> Translator:
    if isinstance(model, Translator):
        return model
    sentence = f"{needs} needs a translator, a run on the task translation"
    if not isinstance(model, str | Path):
        raise UserError(f"{sentence}: {type(model).__name__} is none")
    if not (Path(model) / "config.yaml").is_file():
        raise UserError(f"{sentence}: {model} is no run")
    run = Run.open(model)
    if run.config.task.models != "translator":
        raise UserError(f"{sentence}: {model} was trained on {run.config.task_name}")
    return run.translator()
