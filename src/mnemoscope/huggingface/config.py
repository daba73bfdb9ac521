"""What can be said of an attached memory before it exists. Imports no torch."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT, Config
from mnemoscope.core.errors import UserError
from mnemoscope.memories.infinite.config import Signal


class DocumentOptions(Config):
    """Memory by document, after one block of a causal language model."""

    layer: int = Field(-1, description="the block it stands behind; -1 = the last")
    entries: int = Field(64, ge=1, le=1 << 16, description="entries, each with one value vector")
    key_dim: int = Field(16, ge=1, le=1 << 16, description="numbers that represent a document")
    select: Literal["tanh", "relu", "sigmoid"] = Field(
        "tanh", description="how a representation opens entries"
    )
    depth: int = Field(
        1, ge=1, le=64, description="layers from representation to entries; 1 = linear"
    )
    start: Literal["orthogonal", "random", "small", "tfidf", "shingles", "hidden"] = Field(
        "orthogonal",
        description="first representations: drawn, or read off the text by its words (tfidf), runs "
        "of words (shingles) or hidden states (hidden)",
    )
    learned: bool = Field(True, description="let training move the representations")
    control: Literal["none", "all", "random", "disjoint", "bias"] = Field(
        "none",
        description="masks nobody learns, to compare with: all open, random, disjoint; or bias, "
        "one vector a document",
    )
    seed: int = Field(0, ge=0, lt=1 << 63, description="root of the randomness")


class Guidance(Config):
    """How strongly wrong documents are pushed away, how far, and which ones."""

    alpha: float = Field(0.1, ge=0, description="weight of the wrong document; 0 = no guidance")
    # Said below what it may be, for a number that is not finite as for a word.
    tau: Annotated[float, Field(allow_inf_nan=True)] | str = Field(
        "middle",
        description="loss wanted with the wrong document: a number, none+2 (two above the loss "
        "without memory), or middle (half-way from there to log of the vocabulary)",
    )
    negative: Literal["other", "random", "zero", "perturbed", "hardest"] = Field(
        "other", description="the wrong document: other, random, zero, perturbed, hardest"
    )
    form: Literal["absolute", "clamped"] = Field(
        "absolute", description="absolute as in the paper, clamped as in its released code"
    )

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if not math.isfinite(self.alpha):
            raise ValueError(f"alpha must be a finite number, not {self.alpha}")
        self.target(1.0, 2)
        return self

    def target(self, none: float, words: int) -> float:
        """The number τ stands for: ``none`` is the loss without memory."""
        if self.tau == "middle":
            return (none + math.log(words)) / 2
        name, plus, number = str(self.tau).partition("+")
        try:
            value = none + float(number) if (name, plus) == ("none", "+") else float(self.tau)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"tau must be a number, 'middle' or like 'none+2', not {self.tau!r}")
        return value

    def warn(self, none: float, words: int) -> None:
        """Warn of a τ that cannot do what it is for."""
        tau, most = self.target(none, words), math.log(words)
        if self.alpha and tau <= none:
            warnings.warn(
                f"tau={tau:.3f} is not above the loss without memory, {none:.3f}: guidance would "
                "teach the memory to help with the wrong document; raise tau",
                stacklevel=3,
            )
        if self.alpha and tau >= most:
            warnings.warn(
                f"tau={tau:.3f} is not below log of the vocabulary, {most:.3f}, the loss of a "
                "blind guess; lower tau",
                stacklevel=3,
            )


class Fitting(Config):
    """How a document memory is trained."""

    epochs: int = Field(100, ge=1, le=10**6, description="most times that every segment is read")
    stop: bool = Field(
        True,
        description="end sooner if all is recited, every token twice as likely as any other",
    )
    batch: int = Field(32, ge=1, le=1 << 16, description="segments per step")
    lr: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="learning rate, falling to a tenth; none = 0.01, for values times the size of "
        "the hidden states that they are added to",
    )
    clip: float = Field(5.0, gt=0, description="largest norm of the gradient")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="adam, or sgd with momentum")
    cache: Literal["auto", "on", "off"] = Field(
        "auto", description="keep hidden states below the memory instead of computing them anew"
    )
    cache_bytes: int = Field(2 << 30, ge=0, le=1 << 50, description="most bytes auto may keep")
    record: int = Field(
        0,
        ge=0,
        le=10**9,
        description="keep selection, representations and gradients every so many steps",
    )
    seed: int = Field(0, ge=0, lt=1 << 63, description="root of the randomness")
    silent: bool = Field(False, description="show no progress bar")


class InfiniteOptions(Signal):
    """A long-term memory for a causal language model: recent keys, and a signal behind them.

    The signal has all options that it has in an ∞-former.
    """

    layers: Annotated[tuple[int, ...] | None, DISTINCT] = Field(
        None, max_length=4096, description="blocks that read the signal; none = all of them"
    )
    window: int = Field(
        256, ge=2, le=1 << 20, description="tokens read with full attention, then written"
    )
    mem_len: int = Field(0, ge=0, description="keys and values kept when a new window begins")
    signal: bool = Field(True, description="write windows to the signal of the ∞-former")
    joint: bool = Field(
        False,
        description="let the model's own attention read the signal, in one softmax with its "
        "window; else a density of its own does, as published, and what it gives is added",
    )
    sinks: int = Field(
        0,
        ge=0,
        le=1 << 10,
        description="first keys of a text that every window sees too; most models need some",
    )
    pooling: int = Field(
        1,
        ge=1,
        description="means of so many older keys, as Compressive Transformer has them",
    )
    heads: int | None = Field(
        None, ge=1, le=1 << 16, description="heads that read; none = as the model has"
    )
    basis: int = Field(
        64, ge=2, le=4096, description="basis functions, hence vectors, of the signal"
    )
    seed: int = Field(0, ge=0, lt=1 << 63, description="root of the randomness")

    @model_validator(mode="after")
    def _keeps(self) -> Self:
        if not self.signal and not self.mem_len:
            raise ValueError("neither signal nor mem_len: there would be no memory")
        if self.joint:
            self._check_joint()
        if self.slots and self.slots < self.window:
            name = "basis" if self.joint else "mem_len"
            raise ValueError(
                f"{name}={self.slots} must be at least window={self.window}: the last window is "
                "kept whole"
            )
        if self.slots == 0 and self.mem_len >= self.window:
            raise ValueError(
                f"mem_len={self.mem_len} must be less than window={self.window}, or set sinks"
            )
        if self.pooling > 1 and (self.joint or not self.sinks or self.window % self.pooling):
            raise ValueError(
                f"pooling={self.pooling} needs mem_len and sinks, and a window that it divides"
            )
        return self

    def _check_joint(self) -> None:
        if not self.signal or self.mem_len:
            raise ValueError("joint needs the signal and no mem_len: its last window is kept whole")
        read_otherwise = {*Signal.model_fields, "heads"} - {"basis", "sticky"}
        changed = {n for n in read_otherwise if getattr(self, n) != self.defaults()[n]}
        if changed:
            raise ValueError(
                f"joint has no use for {min(changed)}: the model's own attention reads the signal"
            )

    @property
    def slots(self) -> int:
        """Vectors a layer that the model's own attention reads of earlier windows, sinks apart."""
        return self.basis if self.joint else self.mem_len if self.sinks else 0

    @property
    def keep(self) -> Literal["even", "attended", "recent", "pooled"]:
        """What the slots keep."""
        if self.joint:
            return "attended" if self.sticky else "even"
        return "recent" if self.pooling == 1 else "pooled"

    @property
    def of_signal(self) -> dict[str, Any]:
        """What was chosen for the signal; the rest is as an ∞-former has it."""
        chosen = self.model_dump(mode="json", include=set(Signal.model_fields))
        return {name: value for name, value in chosen.items() if value != self.defaults()[name]}


class InfiniteFitting(Config):
    """How a long-term memory is trained."""

    steps: int = Field(300, ge=0, le=10**9, description="windows that are learnt from")
    lr: float = Field(1e-3, gt=0, allow_inf_nan=False, description="learning rate of Adam")
    learn: Literal["memory", "all"] = Field("memory", description="memory alone, or the model too")
    tbptt: int = Field(
        1, ge=1, le=4096, description="windows that gradients flow back through; a gate needs 2"
    )
    rows: int = Field(8, ge=1, le=4096, description="texts read side by side")
    cache: Literal["auto", "on", "off"] = Field(
        "auto", description="keep hidden states below the memory instead of computing them anew"
    )
    cache_bytes: int = Field(2 << 30, ge=0, le=1 << 50, description="most bytes auto may keep")
    cache_file: Path | None = Field(
        None, description="where kept hidden states lie, to be used again; none = in memory"
    )
    silent: bool = Field(False, description="show no progress bar")

    def check(self, options: InfiniteOptions) -> None:
        """Raise `UserError` when there is nothing to learn for a memory of these options."""
        if self.steps and self.learn == "memory" and options.joint:
            raise UserError("joint has no weights of its own: set learn to all, or steps to 0")
        if self.steps and self.learn == "memory" and not options.signal:
            raise UserError("a cache has no weights of its own: set learn to all, or steps to 0")


class TransformerXLOptions(InfiniteOptions):
    """The cache of Transformer-XL alone: keys and values of the last tokens, no signal."""

    mem_len: int = Field(128, ge=1, description="keys and values kept when a new window begins")
    signal: Literal[False] = Field(False, description="no signal")
