"""Does it help a language model to carry its memory through a whole book?

Models of equal parameters and equal bytes of state learn to predict the next byte of books, and
then read books that none of them has seen. What the state brings is measured by taking it away:
blanked, or exchanged for that of another passage.

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import MEMORY_NAMES, find
from mnemoscope.core.seeds import derive
from mnemoscope.data.documents import Document, choose, read_documents
from mnemoscope.data.text import Text
from mnemoscope.memories.config import MOST_LAYERS, ModelConfig
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Study, label
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training

# The contenders, by the names that readers of the page will see.
LABELS = {
    "none": "no memory",
    "transformer_xl": label("transformer_xl"),
    "compressive": label("compressive"),
    "infinite": label("infinite"),
    "infinite-fixed": f"{label('infinite')}, τ = 0.75",
    "infinite-sticky": f"{label('infinite')}, sticky",
}
RATE = 4  # tokens that the Compressive Transformer squeezes into one vector
TAU = 0.75
# Documents shorter than this are never drawn: there is nothing to carry a memory through.
SHORTEST = 4096


class Books(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "Does memory help to read books?"
    question: ClassVar[str] = (
        "A language model reads books byte by byte, one segment at a time, and carries a memory "
        "from segment to segment. Does that lower its loss on books it has never seen, which "
        "memory does it best at the same size, and is the gain really the memory's?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {
            "width": 512,
            "layers": 8,
            "heads": 8,
            "segment": 512,
            "vectors": 1024,
            "steps": 60_000,
            "batch": 32,
            "lr": 4e-4,
            "read": 1 << 20,
            "warm": 1 << 14,
        },
    }

    source: str | None = Field(
        None, description="a folder of texts, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    valid: Annotated[tuple[str, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="books to hold out, by name; none = drawn"
    )
    held_out: float = Field(0.15, gt=0, lt=1, description="share of the text to draw books for")
    models: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        tuple(LABELS), min_length=1, description="which models to compare"
    )
    width: int = Field(64, ge=1, description="width of every model")
    layers: int = Field(2, ge=1, le=MOST_LAYERS, description="layers of every model")
    heads: int = Field(4, ge=1, description="attention heads")
    segment: int = Field(64, ge=1, description="bytes read at once")
    vectors: int = Field(64, ge=4, description="vectors that a layer may carry")
    steps: int = Field(800, ge=1, description="optimiser steps per model")
    batch: int = Field(16, ge=1, description="segments per step")
    lr: float = Field(1e-2, gt=0, description="highest learning rate")
    seeds: int = Field(3, ge=1, description="trainings per model")
    read: int = Field(1 << 15, ge=2, description="bytes read of every passage")
    passages: int = Field(4, ge=1, description="passages of a held-out book, if it has as many")
    warm: int = Field(1 << 10, ge=0, description="bytes read before controls count")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in self.models:
            if name not in LABELS:
                raise ValueError(f"unknown model {name!r}; {suggestion(name, LABELS)}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
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
        """Tokens written at once: with it nothing waits in the cache beyond its size."""
        return math.gcd(self.segment, self.vectors // 2)

    def _memory(self, name: str) -> tuple[str, dict[str, Any]]:
        """A contender's memory, with ``vectors`` vectors a layer however it divides them."""
        half = self.vectors // 2
        signal: dict[str, Any] = {"mem_len": half, "basis": half, "chunk": self._chunk}
        return {
            "none": ("transformer_xl", {"mem_len": 0}),
            "transformer_xl": ("transformer_xl", {"mem_len": self.vectors}),
            "compressive": ("compressive", {"mem_len": half, "compressed_len": half, "rate": RATE}),
            "infinite": ("infinite", signal),
            "infinite-fixed": ("infinite", {**signal, "contraction": TAU}),
            "infinite-sticky": ("infinite", {**signal, "sticky": True, "bins": half}),
        }[name]

    def configs(self) -> dict[str, ModelConfig]:
        """Every contender, with as many parameters as a plain Transformer-XL."""
        from mnemoscope.studies.sizes import count, fitted

        shape = {"vocab": 256, "width": self.width, "layers": self.layers, "heads": self.heads}
        memory, options = self._memory("transformer_xl")
        budget = count(find("memory", memory).make(**shape, **options))
        contenders = {name: self._memory(name) for name in self.models}
        return {
            name: fitted(memory, budget, **shape, **options)
            for name, (memory, options) in contenders.items()
        }

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train every model × seed and let each read the books that were held out."""
        from mnemoscope.studies.books.passages import PROBE, cut, lengths, starts
        from mnemoscope.studies.sizes import count

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
        trials = {
            (name, seed): Trial(f"{name}-seed{seed}", self._run_config(task, config, seed))
            for name, config in configs.items()
            for seed in range(self.seeds)
        }
        examine = partial(listen, read=self.read, passages=self.passages)
        found = run_trials(list(trials.values()), folder / "runs", examine, jobs, "books")
        return {
            "segment": self.segment,
            "warm": self.warm,
            "probe": PROBE,
            "vectors": self.vectors,
            "trained_bytes": self.steps * self.batch * self.segment,
            "training_text": training_text,
            "passages": [
                {"book": one.book, "bytes": every.tolist(), "probed": some.tolist()}
                for one, every, some in zip(passages, read, probed, strict=True)
            ],
            "models": {
                name: {"parameters": count(config), "options": _options(config)}
                for name, config in configs.items()
            },
            "trials": [
                {"model": name, "seed": seed, "run": trial.name, **values}
                for ((name, seed), trial), values in zip(trials.items(), found, strict=True)
            ],
        }

    def _run_config(self, task: Text, model: ModelConfig, seed: int) -> RunConfig:
        training = Training.make(
            steps=self.steps,
            batch=self.batch,
            lr=self.lr,
            segment=self.segment,
            seed=seed,
            evaluate_every=self.steps,
            checkpoint_every=max(200, self.steps // 5),
            keep=1,
            device=self.device,
        )
        return RunConfig("text", task, model.memory, model, training)

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.books import page as books_page

        return books_page.tell(result)


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


def listen(folder: Path, read: int, passages: int) -> dict[str, Any]:
    """Let a trained model read what was held out, its state carried and tampered with."""
    from mnemoscope.studies.books import passages as reading
    from mnemoscope.training.machine import join
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    task = run.config.task
    assert isinstance(task, Text)
    assert task.valid is not None
    books = choose(read_documents(task.source), task.valid)
    segment = run.config.segment
    model = run.model().to(join(run.config.training.device).device)
    heard = reading.read(model, reading.cut(books, read, passages, segment), segment)
    return heard | {"seconds": sum(entry.get("seconds", 0.0) for entry in run.metrics())}


def _options(config: ModelConfig) -> dict[str, Any]:
    names = ("mem_len", "compressed_len", "basis", "chunk", "mlp_ratio")
    return {name: getattr(config, name) for name in names if hasattr(config, name)}
