"""Does it help a language model to carry its memory through a whole book?

Models of equal parameters and equal bytes of state learn to predict the next byte of books, and
then read books that none of them has seen. What the state brings is measured by taking it away:
blanked, or exchanged for that of another passage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORY_NAMES, find
from mnemoscope.core.seeds import derive
from mnemoscope.data.documents import Document, choose, read_documents
from mnemoscope.data.text import Text
from mnemoscope.memories.config import ModelConfig, check_heads
from mnemoscope.studies.books.page import page as books_page
from mnemoscope.studies.books.passages import PROBE, bigram_bits, cut, lengths, starts
from mnemoscope.studies.books.result import (
    BooksModel,
    BooksResult,
    BooksTrial,
    Examined,
    ReadPassage,
)
from mnemoscope.studies.contenders import carrying, check_contenders, known_options
from mnemoscope.studies.study import Device, LearningRate, ShapedStudy, Steps, label
from mnemoscope.studies.trials import Trial, run_trials, training_of
from mnemoscope.training.config import RunConfig

RATE = 4  # tokens that a compressed vector holds
TAU = 0.75
# Variants that the study has words for: of which memory, and what readers of the page will see.
VARIANTS = {
    "none": ("transformer_xl", "no memory"),
    "infinite-fixed": ("infinite", f"{label('infinite')}, τ = {TAU}"),
    "infinite-sticky": ("infinite", f"{label('infinite')}, sticky"),
}
# Documents shorter than this are never drawn: there is nothing to carry a memory through.
SHORTEST = 4096


class Books(ShapedStudy):
    """Does memory help to read books?

    A language model carries a memory through whole books. Does that lower its loss on books it has
    never seen, which memory does it best at the same size, and is the gain really the memory's?
    """

    Result = BooksResult
    page = staticmethod(books_page)
    presets = {
        "paper": {
            "width": 512, "layers": 8, "heads": 8, "segment": 512, "vectors": 1024, "steps": 60_000,
            "batch": 32, "lr": 4e-4, "read": 1 << 20, "warm": 1 << 14,
        },
    }  # fmt: skip

    lr: LearningRate = 1e-2
    device: Device = "auto"
    source: str | None = Field(
        None, description="a folder of texts, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    valid: Annotated[tuple[str, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="books to hold out, by name; none = drawn"
    )
    held_out: float = Field(0.15, gt=0, lt=1, description="share of the text to draw books for")
    models: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        ("none", "transformer_xl", "compressive", "infinite", "infinite-fixed", "infinite-sticky"),
        min_length=1,
        description="which to compare: any memory, or " + ", ".join(VARIANTS),
    )
    segment: int = Field(64, ge=1, description="bytes read at once")
    vectors: int = Field(64, ge=4, description="vectors that a layer may carry")
    steps: Steps = 800
    batch: int = Field(16, ge=1, description="segments per step")
    seeds: int = Field(3, ge=1, description="trainings per model")
    read: int = Field(1 << 15, ge=2, description="bytes read of every passage")
    passages: int = Field(4, ge=1, description="passages of a held-out book, if it has as many")
    warm: int = Field(1 << 10, ge=0, description="bytes read before controls count")

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
            "none": {"mem_len": 0},
            "infinite-fixed": {"contraction": TAU},
            "infinite-sticky": {"sticky": True, "bins": half},
        }
        return memory, options | changed.get(name, {})

    def configs(self) -> dict[str, ModelConfig]:
        """Every contender, with as many parameters as a plain Transformer-XL."""
        from mnemoscope.studies.sizes import count

        shape = {"vocab": 256, **self.some("width", "layers", "heads")}
        memory, options = self._memory("transformer_xl")
        budget = count(find("memory", memory).make(**shape, **options))
        return {name: self._fitted(name, budget, shape) for name in self.models}

    def _fitted(self, name: str, budget: int, shape: dict[str, int]) -> ModelConfig:
        from mnemoscope.studies.sizes import fitted, sized

        memory, options = self._memory(name)
        kind = find("memory", memory)
        given = known_options(kind, shape) | options
        if "mlp_ratio" in kind.model_fields:
            return fitted(memory, budget, **given)
        del given["width"]  # nothing else of it can grow to the budget
        return sized(memory, budget, **given)

    def run(self, folder: Path, jobs: int) -> BooksResult:
        """Train every model × seed and let each read the books that were held out."""
        from mnemoscope.studies.books.measure import examine

        documents = read_documents(self.source)
        books = choose(documents, self.valid) if self.valid else draw(documents, self.held_out)
        passages = cut(books, self.read, self.passages, self.segment)
        task = Text.make(source=self.source, unit="bytes", valid=[book.name for book in books])
        training_text = len(task.tokens("train"))
        read, probed = lengths(passages, self.segment), lengths(passages, self.segment, PROBE)
        if not probed[:, starts(read.shape[1], self.segment) >= self.warm].any():
            raise UserError(
                f"the passages held out end after {int(read[0].sum())} bytes, which leaves none "
                f"after a warm-up of {self.warm}; lower warm, or hold out longer books"
            )
        configs = self.configs()
        plan = [(name, seed) for name in configs for seed in range(self.seeds)]
        trials = [
            Trial(f"{name}-seed{seed}", self._config(task, name, configs[name], seed))
            for name, seed in plan
        ]
        ask = partial(examine, read=self.read, passages=self.passages)
        found = run_trials(trials, folder / "runs", ask, jobs, "books", kind=Examined)
        return BooksResult(
            **self.some("segment", "warm"),
            probe=PROBE,
            trained_bytes=self.steps * self.batch * self.segment,
            training_text=training_text,
            passages=tuple(
                ReadPassage(one.book, tuple(every.tolist()), tuple(some.tolist()))
                for one, every, some in zip(passages, read, probed, strict=True)
            ),
            models={name: _facts(name, config) for name, config in configs.items()},
            bigram=bigram_bits(task.tokens("train"), passages),
            trials=tuple(
                BooksTrial(*one, trial.name, outcome)
                for one, trial, outcome in zip(plan, trials, found, strict=True)
            ),
        )

    def _config(self, task: Text, name: str, model: ModelConfig, seed: int) -> RunConfig:
        training = training_of(self, seed=seed, **self.some("lr", "segment"))
        return RunConfig("text", task, self._memory(name)[0], model, training)


def draw(documents: Sequence[Document], share: float) -> list[Document]:
    """Draw books to hold out, always the same: at least two, and ``share`` of the text."""
    long = [one for one in documents if len(one.text) >= SHORTEST]
    if len(long) < 2 or len(documents) < 3:
        raise UserError(
            f"whole books are held out, drawn from those of {SHORTEST} characters or more: of "
            f"{len(documents)} documents {len(long)} are; give at least three, two of them long, "
            "or name those to hold out with valid"
        )
    wanted = share * sum(len(one.text) for one in documents)
    rng = np.random.default_rng(derive(0, "held out books"))
    drawn: list[Document] = []
    for place in rng.permutation(len(long)).tolist():
        enough = len(drawn) >= 2 and sum(len(one.text) for one in drawn) >= wanted
        if enough or len(drawn) == len(documents) - 1:
            break
        drawn.append(long[place])
    return sorted(drawn, key=lambda one: one.name)


def _facts(name: str, config: ModelConfig) -> BooksModel:
    from mnemoscope.studies.sizes import count

    return BooksModel(
        label=VARIANTS[name][1] if name in VARIANTS else label(name),
        parameters=count(config),
        width=config.width,
        mem_len=getattr(config, "mem_len", None),
        older=getattr(config, "compressed_len", 0) or getattr(config, "basis", 0),
        mlp_ratio=getattr(config, "mlp_ratio", None),
    )
