"""How many bits does each memory keep for the bytes it carries, and for how long?

All memories learn to say the value last stored under a key, in several state sizes each; then the
lens `retention` asks them, by age, by items stored and by overwrites. The learning rate is swept
for every memory at its middle size with one seed; all sizes and seeds are trained at the best one.

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import MEMORY_NAMES, find
from mnemoscope.data.recall import Recall
from mnemoscope.lenses.retention.episodes import RetentionOptions, questions
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Share, Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training


@dataclass(frozen=True)
class Contestant:
    """A memory of the study: what it is called, its kin, its options, and what sets its size.

    ``turned`` is the option of the model, ``sizes`` the option of the study with its values.
    """

    memory: str
    label: str
    family: str
    options: dict[str, Any]
    turned: str
    sizes: str


HEADS = {"heads": 2, "mlp_ratio": 2.0}
VECTOR, TOKENS, QUEUE, SIGNAL = "one vector", "every token", "a queue", "a signal"
CONTESTANTS = {
    "rnn": Contestant("rnn", "RNN", VECTOR, {}, "width", "widths"),
    "lstm": Contestant("lstm", "LSTM", VECTOR, {}, "width", "widths"),
    "gru": Contestant("gru", "GRU", VECTOR, {}, "width", "widths"),
    "transformer": Contestant("transformer", "Transformer", TOKENS, HEADS, "width", "token_widths"),
    # A grid is crossed in two steps, so sparse attention needs a second layer.
    "strided": Contestant(
        "sparse", "strided", TOKENS, HEADS | {"layers": 2}, "width", "token_widths"
    ),
    "fixed": Contestant(
        "sparse",
        "fixed",
        TOKENS,
        HEADS | {"layers": 2, "pattern": "fixed"},
        "width",
        "token_widths",
    ),
    "transformer_xl": Contestant(
        "transformer_xl", "Transformer-XL", QUEUE, HEADS, "mem_len", "kept"
    ),
    "compressive": Contestant("compressive", "Compressive", QUEUE, HEADS, "mem_len", "kept"),
    "infinite": Contestant("infinite", "∞-former", SIGNAL, HEADS, "mem_len", "kept"),
    "sticky": Contestant("infinite", "sticky", SIGNAL, HEADS | {"sticky": True}, "mem_len", "kept"),
}


class RetentionStudy(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "What is kept, for how long, in how many bytes?"
    question: ClassVar[str] = (
        "Values are stored under keys, some of them twice; noise follows, and then a key asks for "
        "its value. How many bits of all that does each memory still know, by age, and how many "
        "bytes does it carry for that?"
    )
    live: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "smoke": {
            "widths": (8, 16), "token_widths": (4, 8), "kept": (8, 16), "steps": 2, "batch": 4,
            "seeds": 2, "pairs": 3, "overwrites": 1, "length": 24, "ages": (1, 4, 16),
            "learning_rates": (1e-3, 1e-2), "episodes": 8, "lengths": (8, 32),
        },
        "paper": {
            "widths": (16, 32, 64, 128, 256, 512), "token_widths": (16, 32, 64, 128),
            "kept": (8, 16, 32, 64, 128, 256),
            "keys": 64, "values": 64, "pairs": 64, "overwrites": 32, "length": 1024, "stride": 32,
            "segment": 64, "steps": 30_000, "batch": 64, "learning_rates":
            (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), "seeds": 5, "episodes": 1024,
            "ages": tuple(2**power + 1 for power in range(14)),
            "lengths": tuple(2**power for power in range(4, 15)),
        },
    }  # fmt: skip

    memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        tuple(CONTESTANTS), min_length=1, description="which memories to compare"
    )
    widths: Annotated[tuple[int, ...], DISTINCT] = Field(
        (16, 32, 64), min_length=1, description="sizes of RNN, LSTM and GRU"
    )
    token_widths: Annotated[tuple[int, ...], DISTINCT] = Field(
        (8, 16, 32),
        min_length=1,
        description="sizes of the Transformer and the sparse ones; the last is the width of all "
        "that have a cache",
    )
    kept: Annotated[tuple[int, ...], DISTINCT] = Field(
        (8, 16, 32),
        min_length=1,
        description="sizes of the others: tokens cached, and vectors of what is older",
    )
    keys: int = Field(8, ge=1, description="different keys")
    values: int = Field(8, ge=2, description="different values")
    pairs: int = Field(8, ge=1, description="most pairs stored in an episode")
    overwrites: int = Field(4, ge=0, description="most of them written twice")
    length: int = Field(48, ge=8, description="tokens of an episode in training")
    segment: int = Field(16, ge=1, description="tokens read at once")
    stride: int = Field(8, ge=2, description="of the sparse patterns")
    steps: int = Field(700, ge=1, description="optimiser steps per model")
    batch: int = Field(32, ge=1, description="episodes per step")
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (3e-3, 1e-2, 3e-2), min_length=1, description="the sweep, for every memory"
    )
    seeds: int = Field(3, ge=1, description="trainings per memory and size")
    ages: Annotated[tuple[int, ...], DISTINCT] = Field(
        # Odd, because at multiples of a stride sparse attention sees what it sees nowhere else.
        (1, 3, 7, 13, 23, 41, 83, 167),
        min_length=2,
        description="ages in the test",
    )
    episodes: int = Field(128, ge=2, description="test episodes per question")
    lengths: tuple[int, ...] = Field(
        (16, 64, 256, 1024), min_length=2, description="lengths at which the cost is measured"
    )
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name in self.memories:
            if name not in CONTESTANTS:
                raise ValueError(f"unknown memory {name!r}; {suggestion(name, CONTESTANTS)}")
        if list(self.lengths) != sorted(set(self.lengths)) or self.lengths[0] < 1:
            raise ValueError("lengths must be increasing, from 1 on")
        try:
            task = self.task()
            questions(task, self.asked())
        except UserError as error:
            raise ValueError(str(error)) from error
        return self

    def task(self) -> Recall:
        """What is learnt: up to so many pairs, up to so many of them overwritten."""
        return Recall.make(
            keys=self.keys,
            values=self.values,
            pairs=self.pairs,
            queries=self.pairs,
            overwrites=self.overwrites,
            length=self.length,
            joined=True,
            fewest=1,
        )

    def asked(self) -> RetentionOptions:
        """What the lens asks: within the trained numbers of items, beyond the trained ages."""
        items = tuple(2**power for power in range(20) if 2**power <= self.pairs)
        twice = (0, *(count for count in items if count <= self.overwrites))
        return RetentionOptions.make(
            ages=self.ages,
            items=items,
            overwrites=twice,
            pairs=max(1, self.pairs // 2, self.overwrites),
            rest=self.length - self.pairs - self.overwrites,
            episodes=self.episodes,
            batch=self.episodes,
            segment=self.segment,
            resamples=200,
            seed=2,
        )

    def sizes(self, name: str) -> tuple[int, ...]:
        """What a memory's size is turned through."""
        found: tuple[int, ...] = getattr(self, CONTESTANTS[name].sizes)
        return found

    def model(self, name: str, size: int) -> Any:
        """The config of a memory in one size."""
        one = CONTESTANTS[name]
        kind = find("memory", one.memory)
        options = {"vocab": self.task().vocab, "width": self.token_widths[-1]}
        options |= one.options | {one.turned: size}
        turned_too = {"compressed_len": size, "basis": size, "chunk": size, "bins": 2 * size}
        if one.memory == "infinite":
            del turned_too["compressed_len"]
        if not one.options.get("sticky"):
            del turned_too["bins"]
        turned_too |= {"stride": self.stride, "summaries": max(1, self.stride // 4)}
        options |= {key: value for key, value in turned_too.items() if key in kind.model_fields}
        if "context" in kind.model_fields:
            options["context"] = max(1024, self.length, 2 * self.ages[-1])
        return kind.make(**options)

    def trial(self, name: str, size: int, rate: float, seed: int) -> Trial:
        """One training."""
        one = CONTESTANTS[name]
        model = self.model(name, size)
        # What has a cache sees a whole segment at once: only segments make it use its memory.
        whole = "mem_len" not in type(model).model_fields
        training = Training.make(
            steps=self.steps,
            batch=self.batch,
            lr=rate,
            warmup=min(20, self.steps),
            seed=seed,
            segment=None if whole else self.segment,
            tbptt=1 if whole else -(-self.length // self.segment),
            evaluate_every=self.steps,
            evaluate_batches=4,
            checkpoint_every=max(200, self.steps // 5),
            keep=1,
            device=self.device,
        )
        config = RunConfig("recall", self.task(), one.memory, model, training)
        return Trial(f"{name}-{one.turned}{size}-lr{rate:g}-seed{seed}", config)

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Sweep the learning rate, then train every size and seed, and ask them all."""
        return self.run_live(folder, jobs, lambda result: None)

    def run_live(self, folder: Path, jobs: int, share: Share) -> dict[str, Any]:
        """The same, handing out what there is after every training."""
        from mnemoscope.lenses.retention.cost import cost
        from mnemoscope.open import open_stream
        from mnemoscope.studies.sizes import count

        result = self._outline()
        for name, facts in result["memories"].items():
            models = [self.model(name, size) for size in self.sizes(name)]
            facts["parameters"] = [count(model) for model in models]
            facts["costs"] = [
                _plain(cost(open_stream(model.build()), self.lengths, self.segment))
                for model in models
            ]
        examine = partial(ask, asked=self.asked())

        def train(places: list[tuple[str, int, float, int]]) -> None:
            trials = [self.trial(*place) for place in places]
            known = dict(zip((trial.name for trial in trials), places, strict=True))
            rows: dict[str, dict[str, Any]] = {row["run"]: row for row in result["trials"]}

            def keep(run: str, values: dict[str, Any]) -> None:
                name, size, rate, seed = known[run]
                rows[run] = {"memory": name, "size": size, "lr": rate, "seed": seed, "run": run}
                rows[run] |= values
                result["trials"] = list(rows.values())
                self._choose(result)
                share(result)

            run_trials(trials, folder / "runs", examine, jobs, "retention", keep)

        # Seed after seed, so that a page half-way shows every memory.
        train(
            [
                (name, self._middle(name), rate, 0)
                for rate in self.learning_rates
                for name in self.memories
            ]
        )
        train(
            [
                (name, size, result["memories"][name]["lr"], seed)
                for seed in range(self.seeds)
                for name in self.memories
                for size in self.sizes(name)
                if (seed, size) != (0, self._middle(name))
            ]
        )
        order = [self.trial(**place).name for place in self._places(result)]
        rank = {run: number for number, run in enumerate(order)}
        result["trials"].sort(key=lambda row: rank[row["run"]])
        return result

    def _middle(self, name: str) -> int:
        sizes = self.sizes(name)
        return sizes[len(sizes) // 2]

    def _places(self, result: dict[str, Any]) -> list[dict[str, Any]]:
        """Every training in the order of a page, whatever the order in which they finished."""
        places = []
        for name in self.memories:
            rates = [*self.learning_rates]
            for size in self.sizes(name):
                for seed in range(self.seeds):
                    swept = seed == 0 and size == self._middle(name)
                    for rate in rates if swept else [result["memories"][name]["lr"]]:
                        places.append({"name": name, "size": size, "rate": rate, "seed": seed})
        return places

    def _outline(self) -> dict[str, Any]:
        memories = {
            name: {
                "label": CONTESTANTS[name].label,
                "family": CONTESTANTS[name].family,
                "turned": CONTESTANTS[name].turned,
                "sizes": list(self.sizes(name)),
                "middle": self._middle(name),
                "lr": None,
            }
            for name in self.memories
        }
        sizes = sum(len(self.sizes(name)) for name in self.memories)
        swept = len(self.memories) * (len(self.learning_rates) - 1)
        return {
            "values": self.values,
            "pairs": self.pairs,
            "age_pairs": self.asked().pairs,
            "trained": self.length,
            "segment": self.segment,
            "seeds": self.seeds,
            "episodes": self.episodes,
            "planned": sizes * self.seeds + swept,
            "memories": memories,
            "trials": [],
        }

    def _choose(self, result: dict[str, Any]) -> None:
        """The learning rate with the lowest held-out loss at the middle size, so far."""
        for name, facts in result["memories"].items():
            losses = {
                row["lr"]: row.get("choosing", float("inf"))
                for row in result["trials"]
                if row["memory"] == name and row["size"] == facts["middle"] and row["seed"] == 0
            }
            if losses:
                facts["lr"] = min(losses, key=lambda rate: losses[rate])

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.retention import page as retention_page

        return retention_page.tell(result)


def ask(folder: Path, asked: RetentionOptions) -> dict[str, Any]:
    """Ask a trained model everything; plain values."""
    from mnemoscope.lenses.retention.lens import Retention
    from mnemoscope.open import open_stream
    from mnemoscope.training.machine import join
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    model = run.model().to(join(run.config.training.device).device)
    assert isinstance(run.config.task, Recall)
    found = Retention(open_stream(model), run.config.task, asked).ask()
    losses = [entry["valid_loss"] for entry in run.metrics() if "valid_loss" in entry]
    return {
        "curves": {curve.along: _plain(curve) for curve in found.curves},
        "half_life": found.half_life.value,
        "horizon": found.horizon.value,
        "capacity": found.capacity,
        "bytes": found.bytes,
        "flops": found.flops,
        "choosing": losses[-1],
        "seconds": sum(entry.get("seconds", 0.0) for entry in run.metrics()),
    }


def _plain(found: Any) -> dict[str, Any]:
    """The fields of a result as JSON has them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(found).items()
    }
