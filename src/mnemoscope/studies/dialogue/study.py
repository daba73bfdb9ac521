"""Does a memory keep what a document said, when a conversation about it comes to speak of it?

A model reads a document far longer than its window, then a conversation about it; what is said
next must draw on the document. No document at all is the floor, attention over all of it the
ceiling, and every memory lies somewhere between: its share of what can be recovered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT, MEMORY_NAMES
from mnemoscope.core.registry import find
from mnemoscope.data.dialogue.corpus import recognise
from mnemoscope.data.dialogue.script import check_against_window
from mnemoscope.data.dialogue.task import Control
from mnemoscope.data.dialogue.task import Dialogue as Task
from mnemoscope.memories.config import ModelConfig, check_heads
from mnemoscope.studies.contenders import carrying, check_contenders
from mnemoscope.studies.dialogue.checks import check_pretrained, check_running_text
from mnemoscope.studies.dialogue.contestants import (
    BY_NAME,
    CEILING,
    FLOOR,
    LABELS,
    VARIANTS,
    Variant,
    variants,
)
from mnemoscope.studies.dialogue.facts import shown_conversation, unigram
from mnemoscope.studies.dialogue.groups import Groups
from mnemoscope.studies.dialogue.metrics import require_scorers
from mnemoscope.studies.dialogue.page import page as dialogue_page
from mnemoscope.studies.dialogue.result import (
    DialogueModel,
    DialogueResult,
    DialogueTrial,
    Examined,
    Warmed,
)
from mnemoscope.studies.study import (
    Device,
    Diverged,
    Precision,
    ShapedStudy,
    Steps,
    TrainPrecision,
    label,
)
from mnemoscope.studies.trials import Trial, run_trials, sweep_then_seeds, training_of
from mnemoscope.training.config import RunConfig

# What is read before a conversation: its own document, none, another conversation's.
CONTROLS: tuple[Control, ...] = ("own", "none", "another")
# The test's own seed: its conversations are none of those that are trained or validated on.
TEST_SEED = 1

Seen = dict[tuple[str, float, int], Examined | Diverged]


class DialogueStudy(ShapedStudy):
    """What does a memory keep of the document that a conversation is about?

    A document longer than the window is read into the memory, then a conversation about it. Of
    what seeing all of the document would save, how much does each memory save at the same size?
    """

    Result = DialogueResult
    page = staticmethod(dialogue_page)
    presets = {
        "corpus": {
            "width": 160, "layers": 4, "heads": 8, "window": 128, "vectors": 128, "tbptt": 4,
            "steps": 4000, "batch": 16, "warmup": 200, "learning_rates": (3e-4, 1e-3, 3e-3),
            "dropout": 0.1, "conversations": None, "warm_steps": 1000,
        },
    }  # fmt: skip

    width: int = Field(48, ge=1, description="width of every model")
    device: Device = "auto"
    precision: TrainPrecision = "auto"
    source: str | None = Field(
        None,
        description="the folder of CMU-DoG or Topical-Chat, or a JSON file or folder of your own; "
        "none = made up",
    )
    model: str | None = Field(
        None,
        description="a pretrained Hugging Face model to read a source with, in place of training: "
        "a folder or a name",
    )
    dtype: Precision = "float32"
    rating: int | None = Field(
        None, description="for model: only conversations that the corpus rates so; none = all"
    )
    document_entries: int = Field(
        512, ge=1, description=f"for {BY_NAME}: entries that all documents share"
    )
    document_epochs: int = Field(
        40, ge=1, description=f"for {BY_NAME}: most times that documents are read to learn them"
    )
    memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        ("window", "transformer_xl", "compressive", "infinite", "infinite_fixed",
         "infinite_sticky", "gru"),
        min_length=1,
        description="who takes part: any memory, or " + ", ".join(VARIANTS)
        + f"; with model also {BY_NAME}",
    )  # fmt: skip
    window: int = Field(8, ge=1, description="tokens read at once; documents must be longer")
    vectors: int = Field(32, ge=4, description="vectors that a layer may carry")
    contraction: float = Field(0.75, gt=0, lt=1, description="τ where it is fixed")
    rate: int = Field(4, ge=1, description="tokens the Compressive Transformer compresses into one")
    vocabulary_size: int = Field(
        2048, ge=256, description="most tokens BPE may learn from a source"
    )
    document_tokens: int = Field(2048, ge=1, description="longer documents of a source are cut")
    conversation_tokens: int = Field(
        1024, ge=4, description="turns of a source beyond are left out"
    )
    sections: int = Field(3, ge=1, description="made up: sections of a document")
    facts: int = Field(2, ge=1, description="made up: facts in a section")
    filler: int = Field(1, ge=0, description="made up: sentences without a fact after each fact")
    asked: int = Field(4, ge=1, description="made up: facts that are asked for")
    names: int = Field(12, ge=1, description="made up: names that facts are about")
    values: int = Field(8, ge=2, description="made up: different answers")
    joined: bool = Field(True, description="made up: write a fact as one word")
    tbptt: int | None = Field(
        None, ge=1, description="windows back through which gradients flow; none = all"
    )
    steps: Steps = 400
    batch: int = Field(32, ge=1, description="conversations per step")
    warmup: int = Field(30, ge=0, description="steps over which the learning rate rises")
    warm_steps: int = Field(
        0, ge=0, description="steps on running text first: the documents to train on, and texts"
    )
    texts: str | None = Field(
        None, description="a file or folder of text for these steps, beside the documents"
    )
    piece: int = Field(256, ge=2, description="tokens of a row of running text")
    warm_rate: float = Field(1e-3, gt=0, description="highest learning rate on running text")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (3e-3, 1e-2), min_length=1, description="tried for every contestant, chosen on valid"
    )
    seeds: int = Field(3, ge=1, description="trainings per contestant")
    least_gain: float = Field(
        0.05,
        ge=0,
        description="stop rule: nats per token of document words that seeing all of the document "
        "must save; with less, no memory is trained",
    )
    conversations: int | None = Field(
        128, ge=2, description="conversations of the test; none = all of a source, 64 made up"
    )
    shown: int = Field(3, ge=0, description="conversations to read on the page")
    spoken: int = Field(
        100,
        ge=0,
        description="of a source: replies that models give themselves, to be scored; a pretrained "
        "one gives none unless this is set",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_contenders(self.memories, (*VARIANTS, BY_NAME))
        check_heads(self.width, self.heads, "rotary")
        if self.vectors % 2:
            raise ValueError(f"vectors {self.vectors} must be even: half are for the last tokens")
        check_running_text(self)
        check_pretrained(self)
        return self

    def task(self, document: Control = "own") -> Task:
        """What is learnt: the replies, after the own document, none, or another one's."""
        if self.source is not None:
            cut = self.some("vocabulary_size", "document_tokens", "conversation_tokens")
            return Task.make(source=self.source, document=document, **cut)
        options = self.some("sections", "facts", "filler", "asked", "names", "values", "joined")
        return Task.make(document=document, **options)

    @cached_property
    def _variants(self) -> dict[str, Variant]:
        return variants(self.contraction)

    @property
    def _chunk(self) -> int:
        """Tokens written to a signal at once: with it none wait to be written."""
        return math.gcd(self.window, self.vectors // 2)

    def memory(self, name: str) -> tuple[str, dict[str, Any]]:
        """A contestant's memory, with ``vectors`` vectors a layer however it divides them."""
        if name in (FLOOR, CEILING):
            return "transformer", {"context": self.task().longest + 1}
        variant = self._variants.get(name)
        memory = name if variant is None else variant.memory
        options = carrying(
            find("memory", memory),
            self.vectors,
            self.vectors // 2,
            chunk=self._chunk,
            rate=self.rate,
            # A key and a value are two vectors; a token sees itself without carrying anything.
            context=self.vectors // 2 + 1,
        )
        return memory, options | dict(variant.options if variant else {})

    def configs(self, names: Sequence[str]) -> dict[str, ModelConfig]:
        """Every contestant, with as many parameters as a plain Transformer-XL."""
        from mnemoscope.studies.sizes import as_large_as

        return as_large_as(
            self.memory("transformer_xl"),
            {name: self.memory(name) for name in names},
            {"vocab": self.task().vocab, **self.some("width", "layers", "heads", "dropout")},
        )

    def trial(self, name: str, model: ModelConfig, rate: float, seed: int) -> Trial:
        """One training: floor and ceiling read whole conversations, all others window by window."""
        task = self.task("none" if name == FLOOR else "own")
        cut: dict[str, Any] = {}
        if name not in (FLOOR, CEILING):
            whole = math.ceil(task.longest / self.window)
            cut = {"segment": self.window, "tbptt": self.tbptt or whole}
        training = training_of(
            self, lr=rate, seed=seed, warmup=min(self.warmup, self.steps), evaluate_batches=8, **cut
        )
        home = name.replace(":", ".")  # a path of somebody else's memory
        config = RunConfig("dialogue", task, self.memory(name)[0], model, training)
        return Trial(f"{home}-lr{rate:g}-seed{seed}", config)

    def run(self, folder: Path, jobs: int) -> DialogueResult:
        """Train floor and ceiling; if there is something to recover, then all contestants."""
        if self.model is not None:
            from mnemoscope.studies.dialogue.pretrained import measure_pretrained

            return measure_pretrained(self, folder)
        if self.source and self.spoken:
            require_scorers()
        task = self.task()
        held = task.conversations("test", self.conversations, seed=TEST_SEED)
        written = task.written(held, "own")
        warnings = check_against_window(written, self.window)
        task.written(held, "another")  # that there are no two documents shows before hours of it
        configs = self.configs((FLOOR, CEILING, *self.memories))
        warm = self._warmed((FLOOR, CEILING), configs, folder, jobs)
        seen, rates = self._trained((FLOOR, CEILING), configs, folder, jobs, "dialogue, bounds")
        groups = Groups(written)
        stopped = _gain(seen, rates, groups) < self.least_gain
        if not stopped:
            warm |= self._warmed(self.memories, configs, folder, jobs)
            more, others = self._trained(self.memories, configs, folder, jobs, "dialogue")
            seen, rates = seen | more, rates | others
        return DialogueResult(
            source=Path(self.source).name if self.source else "",
            corpus=recognise(self.source) if self.source else "",
            **self.some("window", "vectors", "least_gain", "seeds"),
            chance=task.majority,
            unigram=unigram(task, written),
            stopped=stopped,
            warm_steps=self.warm_steps,
            texts=Path(self.texts).name if self.texts else "",
            warmed=warm,
            groups=groups.names,
            conversations=groups.read(held),
            warnings=warnings,
            models={name: self._facts(name, configs[name], rate) for name, rate in rates.items()},
            trials=tuple(
                DialogueTrial(*key, self.trial(key[0], configs[key[0]], *key[1:]).name, outcome)
                for key, outcome in seen.items()
            ),
            shown=tuple(
                shown_conversation(task.text_of, one.document.sections, one.speakers, read)
                for one, read in zip(held[: self.shown], written, strict=False)
            ),
        )

    def _warmed(
        self, names: Sequence[str], configs: dict[str, ModelConfig], folder: Path, jobs: int
    ) -> dict[str, Warmed]:
        """Let models read running text first, if that is asked for."""
        from mnemoscope.studies.dialogue.warm_up import warm_up

        return warm_up(self, names, configs, folder / "runs", jobs) if self.warm_steps else {}

    def _trained(
        self,
        names: Sequence[str],
        configs: dict[str, ModelConfig],
        folder: Path,
        jobs: int,
        words: str,
    ) -> tuple[Seen, dict[str, float]]:
        """Choose every rate on the valid part, and train the other seeds with it."""
        from mnemoscope.studies.dialogue.measure import examine
        from mnemoscope.studies.dialogue.warm_up import starting

        ask = partial(
            examine,
            **self.some("conversations", "shown"),
            # Made-up answers are one word, and scored as such.
            spoken=self.spoken if self.source else 0,
        )

        runs = folder / "runs"

        def begun(name: str, rate: float, seed: int) -> Trial:
            trial = self.trial(name, configs[name], rate, seed)
            if not self.warm_steps:
                return trial
            return replace(trial, start=starting(self, name, configs[name], seed, runs))

        def train(trials: list[Trial], later: list[Trial] | None) -> list[Examined | Diverged]:
            return run_trials(trials, runs, ask, jobs, words, kind=Examined, later=later)

        return sweep_then_seeds(
            names,
            self.learning_rates,
            self.seeds,
            begun,
            train,
            lambda one: one.valid if isinstance(one, Examined) else math.inf,
        )

    def _facts(self, name: str, config: ModelConfig, rate: float) -> DialogueModel:
        from mnemoscope.studies.sizes import count, state_bytes

        variant = self._variants.get(name)
        said = LABELS.get(name) or (variant.label if variant else label(name))
        # States are compared at the end of a window.
        read = math.ceil(self.task().longest / self.window) * self.window
        carried = state_bytes(config, read, self.window)
        return DialogueModel(said, count(config), config.width, carried, rate)


def _gain(seen: Seen, rates: dict[str, float], groups: Groups) -> float:
    """What seeing all of the document saves on its words, in nats per token: mean of the seeds."""
    place, counts = groups.names.index("document"), groups.counts
    means = []
    for name, control in ((FLOOR, "none"), (CEILING, "own")):
        found = [
            np.array(one.nats[control])[:, place].sum() / max(1.0, counts[:, place].sum())
            for (model, rate, _), one in seen.items()
            if model == name and rate == rates[name] and isinstance(one, Examined)
        ]
        means.append(np.mean(found) if found else np.nan)
    # Of trainings that all diverged nothing is known: continue as if there were nothing to gain.
    return float(np.nan_to_num(means[0] - means[1], nan=-np.inf))
