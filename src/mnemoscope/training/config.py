"""What can be said of a training run before it starts. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import yaml
from pydantic import Field, model_validator

from mnemoscope.core.aliases import now_called, stored
from mnemoscope.core.bounded import parse_yaml
from mnemoscope.core.capacity import require
from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import find, parts_of, registered
from mnemoscope.data.batch import Task
from mnemoscope.memories.config import ModelConfig
from mnemoscope.models.footprint import describe, training_bytes


class Training(Config):
    """How a model is trained; the same for every task and memory."""

    steps: int = Field(1000, ge=1, description="optimiser steps")
    batch: int = Field(32, ge=1, description="rows per step, over all processes")
    lr: float = Field(1e-3, gt=0, description="highest learning rate")
    schedule: Literal["cosine", "inverse_sqrt", "constant"] = Field(
        "cosine", description="what follows the warm-up"
    )
    warmup: int = Field(50, ge=0, description="steps over which the learning rate rises")
    weight_decay: float = Field(0.01, ge=0, description="AdamW's decay of matrices")
    clip: float = Field(1.0, gt=0, description="largest norm of the gradient")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="probability spread evenly over all outputs"
    )
    segment: int | None = Field(
        None, ge=1, description="tokens read at once; none = whole episodes, 128 of running text"
    )
    tbptt: int = Field(1, ge=1, description="segments back through which gradients flow")
    accumulate: int = Field(1, ge=1, description="parts a step is cut into, to save memory")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto = bfloat16 where the accelerator has it"
    )
    compile: bool = Field(False, description="torch.compile the model")
    device: str = Field("auto", description="auto, cpu, cuda, mps")
    seed: int = Field(0, ge=0, description="root of all randomness")
    evaluate_every: int = Field(200, ge=1, description="steps between evaluations on held-out data")
    evaluate_batches: int = Field(4, ge=1, description="held-out batches per evaluation")
    checkpoint_every: int = Field(200, ge=1, description="steps between checkpoints")
    keep: int = Field(2, ge=1, description="checkpoints kept")

    @model_validator(mode="after")
    def _fits(self) -> Training:
        if self.batch % self.accumulate:
            raise ValueError(f"batch {self.batch} cannot be cut into {self.accumulate} equal parts")
        return self


@dataclass(frozen=True)
class RunConfig:
    """A run is this and nothing else: the same config gives the same weights."""

    task_name: str
    task: Task
    memory: str
    model: ModelConfig
    training: Training

    @classmethod
    def of(cls, task: str, memory: str, options: dict[str, Any]) -> RunConfig:
        """Put options, given by plain name, where they belong: task, model or training.

        A name that two parts share can be written in full, for example ``model.width``.
        """
        task, memory, kinds = _kinds(task, memory)
        parts: dict[str, dict[str, Any]] = {part: {} for part in kinds}
        for key, value in options.items():
            part, name = _place(key, kinds)
            if name in parts[part]:
                raise UserError(f"option {name!r} is given twice, once as {part}.{name}")
            parts[part][name] = value
        built = kinds["task"].make(**parts["task"])
        if "vocab" not in parts["model"]:
            parts["model"]["vocab"] = built.vocab
        if built.outputs is not None and "outputs" not in parts["model"]:
            parts["model"]["outputs"] = built.outputs
        if "source_vocab" in kinds["model"].model_fields and "source_vocab" not in parts["model"]:
            parts["model"]["source_vocab"] = built.source_vocab
        return cls(
            task_name=task,
            task=built,
            memory=memory,
            model=kinds["model"].make(**parts["model"]),
            training=Training.make(**parts["training"]),
        )

    def check(self) -> None:
        """Raise `UserError` when the parts do not fit each other. Loads the task's data."""
        sourced = self.task.models == "translator"
        if self.model.reads_source != sourced:
            needs = "needs a model that reads a source" if sourced else "has no source to read"
            raise UserError(f"the task {self.task_name!r} {needs}: choose another model")
        if sourced and self.training.segment is not None:
            raise UserError("a translation is read whole: leave segment unset")
        if self.model.looks_ahead and not self.task.hides_answers:
            raise UserError(
                f"a model that looks ahead reads the answers of {self.task_name!r} off its input: "
                "set causal=true, or ask for hidden words with objective=masked"
            )
        vocab, longest = self.task.vocab, self.task.longest
        source_vocab = getattr(self.model, "source_vocab", None)
        if source_vocab is not None and source_vocab < (self.task.source_vocab or 0):
            raise UserError(
                f"the source uses {self.task.source_vocab} token ids but the model knows only "
                f"{source_vocab} of them: leave source_vocab unset or raise it"
            )
        if self.model.vocab < vocab:
            raise UserError(
                f"the task uses {vocab} token ids but the model's vocabulary has only "
                f"{self.model.vocab}: leave vocab unset or raise it"
            )
        answers, outputs = self.task.outputs or vocab, self.model.outputs or self.model.vocab
        if outputs < answers:
            raise UserError(f"the task asks for {answers} outputs, the model has {outputs}")
        if self.model.readout == "last" and not self.task.asks_once:
            raise UserError(
                f"{self.task_name!r} asks at more than the last token: train with readout='every'"
            )
        in_one_piece = self.training.segment is None and not self.task.carries
        if getattr(self.model, "gate", False) and (in_one_piece or self.training.tbptt == 1):
            raise UserError(
                "a gate decides what later segments can read, and learns through them alone: set "
                f"{'segment, and ' if in_one_piece else ''}tbptt to 2 or more"
            )
        if longest is not None and longest > (self.model.reach or longest):
            raise UserError(
                f"one episode of {self.task_name!r} has {longest} tokens, longer than the context "
                f"of {self.model.reach}: raise context or shorten the task (lag, length)"
            )
        if longest is None and self.model.limit is not None:
            raise UserError(
                "a text has no end but learned positions do: choose rotary, sinusoidal or none"
            )
        require(self.bytes, f"training {describe(self.model)} on {self._step}")
        # Data too short for the batch shows here and not an hour later.
        seed = self.training.seed
        try:
            self.task.batch(0, self.training.batch, seed=seed, length=self.stretch)
            self.task.batch(0, self.held_out_rows, seed=seed, split="valid", length=self.segment)
        # Sizes that no memory holds and no number of numpy's counts.
        except (MemoryError, OverflowError, ValueError) as error:
            raise UserError(
                f"cannot make a batch of {self.training.batch} rows of {self.task_name!r}: {error}"
            ) from error

    @property
    def segment(self) -> int:
        """Tokens of an endless stream read at once."""
        return self.training.segment or 128

    @property
    def stretch(self) -> int:
        """Tokens of an endless stream that one step reads and learns through."""
        return self.segment * self.training.tbptt

    @property
    def bytes(self) -> int:
        """About how much memory a step of training takes."""
        settings, longest = self.training, self.task.longest or self.stretch
        at_once = longest if settings.segment is None else min(longest, self.stretch)
        # Tokens, targets and ages; tasks shuffle their vocabulary.
        data = 8 * settings.batch * (3 * longest + self.task.vocab)
        return data + training_bytes(self.model, settings.batch // settings.accumulate, at_once)

    @property
    def _step(self) -> str:
        return f"{self.training.batch} rows of {self.task.longest or self.stretch} tokens"

    @property
    def held_out_rows(self) -> int:
        """Rows of a held-out batch; few of a text, since its held-out part is short."""
        return min(self.training.batch, 8 if self.task.carries else 64)

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules outside the registry that its names lead to: who opens it must trust them."""
        paths = [name for name in (self.task_name, self.memory) if ":" in name]
        return tuple(dict.fromkeys(parts_of(path)[0] for path in paths))

    def plain(self) -> dict[str, dict[str, Any]]:
        """All options, resolved, as values that JSON can hold."""
        return {
            "task": {"name": self.task_name, **self.task.model_dump(mode="json")},
            "model": {
                "name": self.memory,
                **self.model.model_dump(mode="json", exclude={"memory"}),
            },
            "training": self.training.model_dump(mode="json"),
        }

    def to_yaml(self) -> str:
        """The whole config as YAML, as it lies in the run's folder."""
        return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)

    @classmethod
    def from_yaml(
        cls, text: str, where: str = "config", changes: dict[str, Any] | None = None
    ) -> RunConfig:
        """Read what `to_yaml` wrote, or what somebody wrote by hand, with some options changed."""
        content = parse_yaml(text, where)
        if not isinstance(content, dict) or not {"task", "model"} <= set(content):
            raise UserError(f"{where} needs the parts task, model and (optionally) training")
        extra = sorted(map(str, set(content) - {"task", "model", "training"}))
        if extra:
            hint = suggestion(extra[0], ["task", "model", "training"])
            raise UserError(f"{where} has an unknown part {extra[0]!r}; {hint}")
        parts = {}
        for part in ("task", "model", "training"):
            values = content.get(part) or {}
            own = None if part == "training" else "name"
            if not isinstance(values, dict) or (own and not isinstance(values.get(own), str)):
                raise UserError(f"{where}: {part} needs named values, among them its name")
            parts[part] = {k: v for k, v in values.items() if k != own}
        names = content["task"]["name"], content["model"]["name"]
        try:
            *_, kinds = _kinds(*names)
        except UserError as error:
            raise type(error)(f"{where}: {error}") from error
        # Written in full, so that a change replaces the value from the file.
        options = {
            f"{part}.{name}": value
            for part, values in parts.items()
            for name, value in stored(kinds[part].model_fields, values).items()
        }
        for key, value in (changes or {}).items():
            options[".".join(_place(key, kinds))] = value
        return cls.of(*names, options)


def _kinds(task: str, model: str) -> tuple[str, str, dict[str, Any]]:
    """Task and model as they are registered, and the three parts of a config as classes."""
    kind = find("task", task)
    parts = {"task": kind, "model": find(kind.models, model), "training": Training}
    return registered("task", task), registered(kind.models, model), parts


def _place(key: str, kinds: dict[str, type[Config]]) -> tuple[str, str]:
    """Find the part of the config an option belongs to."""
    part, dot, name = key.partition(".")
    word = name if dot and part in kinds else key
    meant = {part: now_called(kind.model_fields, word) for part, kind in kinds.items()}
    if dot and part in kinds:
        return part, meant[part]
    owners = [part for part, kind in kinds.items() if meant[part] in kind.model_fields]
    if len(owners) == 1:
        return owners[0], meant[owners[0]]
    if owners:
        full = " or ".join(f"{owner}.{key}" for owner in owners)
        raise UserError(f"option {key!r} could mean {full}: write it in full")
    known = [name for kind in kinds.values() for name in kind.model_fields]
    raise UserError(f"unknown option {key!r}; {suggestion(key, known)}")
