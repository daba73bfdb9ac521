"""Does it help a language model to carry its memory through a whole book?

Models of equal parameters and equal bytes of state learn to predict the next token of books, and
then read books that none of them has seen. What the state brings is measured by taking it away:
blanked, or exchanged for that of another passage. How much there was to gain is told by a floor,
which carries nothing, and a ceiling, which attends to everything that it has read of late.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT, MEMORY_NAMES
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find
from mnemoscope.data.documents import read_documents
from mnemoscope.data.text import Text
from mnemoscope.data.vocabulary import SMALLEST_BPE, Unit
from mnemoscope.memories.config import ModelConfig, check_heads
from mnemoscope.studies.books.losses import CEILING, FLOOR, RECOVERABLE, Losses
from mnemoscope.studies.books.page import page as books_page
from mnemoscope.studies.books.parts import Parts, part_books
from mnemoscope.studies.books.passages import (
    PROBE,
    asked_text,
    bigram_bits,
    count_words,
    cut,
    cut_for_rates,
    lengths,
    sizes,
    starts,
)
from mnemoscope.studies.books.result import BooksModel, BooksResult, ReadPassage
from mnemoscope.studies.books.trainings import Trainings
from mnemoscope.studies.contenders import carrying, check_contenders
from mnemoscope.studies.study import Device, LearningRate, ShapedStudy, Steps, TrainPrecision, label
from mnemoscope.studies.trials import training_of
from mnemoscope.training.config import RunConfig

RATE = 4  # tokens that a compressed vector holds
TAU = 0.75
# Variants that the study has words for: of which memory, and what readers of the page will see.
VARIANTS = {
    FLOOR: ("transformer_xl", "no memory"),
    CEILING: ("transformer_xl", "full attention"),
    "infinite-fixed": ("infinite", f"{label('infinite')}, τ = {TAU}"),
    "infinite-sticky": ("infinite", f"{label('infinite')}, sticky"),
}
# Options of models that read BPE tokens of novels. Segments are so short because longer ones leave
# too little to gain for models that have learnt so little.
NOVELS: dict[str, Any] = {
    "unit": "bpe", "width": 128, "layers": 3, "segment": 32, "vectors": 32, "context": 256,
    "batch": 64, "steps": 1500, "learning_rates": (4e-3, 8e-3, 1.6e-2), "read": 1 << 13,
    "passages": 8, "anew": 1 << 13, "stop": True,
    "models": (
        "none", "ceiling", "transformer_xl", "compressive", "infinite", "infinite-sticky",
    ),
}  # fmt: skip


class Books(ShapedStudy):
    """Does memory help to read books?

    A language model carries a memory through whole books. Does that lower its loss on books it has
    never seen, how much of what full attention would gain does a memory recover at a small size,
    and is the gain really the memory's?
    """

    Result = BooksResult
    page = staticmethod(books_page)
    presets = {
        "novels": NOVELS,
        "wikitext": {
            **NOVELS, "valid": ("test",), "tuned": ("valid",), "passages": None,
            "line_ends": True,
        },
        "paper": {
            "width": 512, "layers": 8, "heads": 8, "segment": 512, "vectors": 1024, "steps": 60_000,
            "batch": 32, "lr": 4e-4, "read": 1 << 20, "warm": 1 << 14, "context": 4096,
        },
    }  # fmt: skip

    lr: LearningRate = 1e-2
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (), description="tried for every model instead of lr, on books that are not reported"
    )
    tried_steps: int = Field(150, ge=1, description="steps of a training that tries a rate")
    device: Device = "auto"
    precision: TrainPrecision = "auto"
    source: str | None = Field(
        None, description="a folder of texts, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    valid: Annotated[tuple[str, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="books to hold out, by name; none = drawn"
    )
    tuned: Annotated[tuple[str, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="books to try rates on, by name; none = a short one"
    )
    held_out: float = Field(0.15, gt=0, lt=1, description="share of the text to draw books for")
    models: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        (
            "none",
            "ceiling",
            "transformer_xl",
            "compressive",
            "infinite",
            "infinite-fixed",
            "infinite-sticky",
        ),
        min_length=1,
        description="which to compare: any memory, or " + ", ".join(VARIANTS),
    )
    unit: Unit = Field("bytes", description="what a token is: bytes, characters or bpe")
    vocabulary_size: int = Field(
        2048, ge=SMALLEST_BPE, description="most tokens BPE may learn; only for bpe"
    )
    segment: int = Field(64, ge=1, description="tokens read at once")
    vectors: int = Field(64, ge=4, description="vectors that a layer may carry")
    anew: int | None = Field(
        None,
        ge=2,
        description="tokens after which a row begins anew in training too; none = a whole book",
    )
    context: int = Field(512, ge=2, description="tokens that the ceiling carries")
    steps: Steps = 800
    batch: int = Field(16, ge=1, description="segments per step")
    seeds: int = Field(3, ge=1, description="trainings per model")
    read: int = Field(1 << 15, ge=2, description="tokens read of every passage")
    passages: int | None = Field(
        4, ge=1, description="passages of a held-out book, if it has as many; none = all of it"
    )
    warm: int = Field(1 << 10, ge=0, description="tokens read before controls count")
    line_ends: bool = Field(
        False, description="count the end of a line as a word, as WikiText's perplexities do"
    )
    stop: bool = Field(
        False,
        description="train no memory where the ceiling does not surely gain "
        f"{RECOVERABLE:g} nats a token",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_contenders(self.models, VARIANTS)
        check_heads(self.width, self.heads, None)
        if self.vectors % 2 or self._chunk < 8:
            raise ValueError(
                f"segment {self.segment} and half of vectors {self.vectors} need a common divisor "
                "of at least 8, the tokens that are written to a signal at once"
            )
        if self.read < max(8 * self.segment, 2 * self.warm):
            raise ValueError(
                f"read {self.read} is too short: make it at least eight segments and twice warm"
            )
        if CEILING in self.models and self.context <= self.vectors:
            raise ValueError(
                f"context {self.context} must be more than the vectors {self.vectors} that others "
                f"carry: raise it, or leave {CEILING} out of models"
            )
        if self.stop and not {FLOOR, CEILING} <= set(self.models):
            raise ValueError(f"stop compares {FLOOR} and {CEILING}: let both take part")
        return self

    @property
    def _chunk(self) -> int:
        """Tokens written to a signal at once: with it none wait to be written."""
        return math.gcd(self.segment, self.vectors // 2)

    def _memory(self, name: str) -> tuple[str, dict[str, Any]]:
        """A contender's memory, with ``vectors`` vectors a layer however it divides them."""
        memory, half = VARIANTS[name][0] if name in VARIANTS else name, self.vectors // 2
        options = carrying(
            find("memory", memory),
            self.vectors,
            half,
            chunk=self._chunk,
            rate=RATE,
            # A key and a value are two vectors; a token sees itself without carrying anything.
            context=half + 1,
        )
        changed: dict[str, dict[str, Any]] = {
            FLOOR: {"mem_len": 0},
            CEILING: {"mem_len": self.context},
            "infinite-fixed": {"contraction": TAU},
            "infinite-sticky": {"sticky": True, "bins": half},
        }
        return memory, options | changed.get(name, {})

    def configs(self, vocab: int = 256) -> dict[str, ModelConfig]:
        """Every contender, with as many parameters as a plain Transformer-XL.

        Floor and ceiling come first: without a gain between them no memory can show any.
        """
        from mnemoscope.studies.sizes import as_large_as

        names = sorted(self.models, key=lambda name: name not in (FLOOR, CEILING))
        return as_large_as(
            self._memory("transformer_xl"),
            {name: self._memory(name) for name in names},
            {"vocab": vocab, **self.some("width", "layers", "heads")},
        )

    def run(self, folder: Path, jobs: int) -> BooksResult:
        """Train every model × seed and let each read the books that were held out.

        Each is trained at the best of its rates; floor and ceiling before all others.
        """
        parts = part_books(
            read_documents(self.source), self.valid, self.held_out, self.tuned, self._tries
        )
        task = Text.make(**self.some("source", "unit", "vocabulary_size", "anew"), **parts.of_text)
        result = self._begun(task, parts)
        configs = self.configs(task.vocab)
        trainings = Trainings(self, task, configs, folder / "runs", jobs)
        first = [name for name in configs if name in (FLOOR, CEILING)]
        later = [name for name in configs if name not in first]
        result = trainings.more(result, first, later)
        if self.stop and not Losses(result).enough:
            return replace(result, stopped=bool(later))
        return trainings.more(result, later, None if first else ())

    @property
    def _tries(self) -> bool:
        return bool(self.learning_rates)

    def _begun(self, task: Text, parts: Parts) -> BooksResult:
        """The result before any training."""
        vocabulary = task.vocabulary
        passages = cut(parts.reported, self.read, self.passages, self.segment, vocabulary)
        tokens, probed = (lengths(passages, self.segment, every) for every in (1, PROBE))
        if not probed[:, starts(tokens.shape[1], self.segment) >= self.warm].any():
            raise UserError(
                f"the passages held out end after {int(tokens[0].sum())} tokens, which leaves none "
                f"after a warm-up of {self.warm}; lower warm, or hold out longer books"
            )
        if parts.tuned:  # too short shows here, and not after trainings
            cut_for_rates(parts.tuned, self.read, self.segment, vocabulary)
        train = task.tokens("train")
        widths = vocabulary.widths[train]
        return BooksResult(
            **self.some("segment", "warm", "unit", "line_ends", "tried_steps"),
            probe=PROBE,
            trained_bytes=round(self.steps * self.batch * self.segment * float(widths.mean())),
            training_text=int(widths.sum()),
            passages=tuple(
                ReadPassage(
                    one.book,
                    tuple(every.tolist()),
                    tuple(some.tolist()),
                    () if self.unit == "bytes" else tuple(count.tolist()),
                    count_words(asked_text(one, self.segment, vocabulary), self.line_ends),
                )
                for one, every, some, count in zip(
                    passages,
                    sizes(passages, self.segment),
                    sizes(passages, self.segment, PROBE),
                    tokens,
                    strict=True,
                )
            ),
            models={},
            trials=(),
            bigram=bigram_bits(train, passages, task.vocab),
            vocab=task.vocab,
            context=self.context if CEILING in self.models else None,
            recent=self.vectors // 2,
            tuned=tuple(book.title for book in parts.tuned),
        )

    def config(
        self, task: Text, name: str, model: ModelConfig, steps: int, lr: float, seed: int
    ) -> RunConfig:
        """A training of a contender."""
        settings = training_of(
            self,
            steps=steps,
            evaluate_every=steps,
            checkpoint_every=max(200, steps // 5),
            lr=lr,
            seed=seed,
            segment=self.segment,
        )
        return RunConfig("text", task, self._memory(name)[0], model, settings)

    def facts(self, name: str, config: ModelConfig, lr: float) -> BooksModel:
        """What the page says of a contender."""
        from mnemoscope.studies.sizes import count

        return BooksModel(
            label=VARIANTS[name][1] if name in VARIANTS else label(name),
            parameters=count(config),
            width=config.width,
            mem_len=getattr(config, "mem_len", None),
            older=getattr(config, "compressed_len", 0) or getattr(config, "basis", 0),
            mlp_ratio=getattr(config, "mlp_ratio", None),
            lr=lr,
        )
