"""The trainings of the study `books`: rates are tried first, then each model has its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnemoscope.data.text import Text
from mnemoscope.memories.config import ModelConfig
from mnemoscope.studies.books.result import (
    BooksResult,
    BooksTrial,
    Examined,
)
from mnemoscope.studies.rates import Tried, TriedRate, best_rate
from mnemoscope.studies.trials import Trial, run_trials

if TYPE_CHECKING:
    from mnemoscope.studies.books.study import Books

# Trainings that try a rate have a seed of their own: none of them is reported.
TRIED_SEED = 1000


@dataclass(frozen=True)
class Trainings:
    """Who is trained on what, and where."""

    study: Books
    task: Text
    configs: Mapping[str, ModelConfig]
    folder: Path
    jobs: int

    def more(
        self, result: BooksResult, names: Sequence[str], later: Sequence[str] | None
    ) -> BooksResult:
        """The result with some models more, each trained at the best of its rates.

        How long all will take is said first, together with those that come ``later``; None: it was
        said before.
        """
        rest = None if later is None else self._tries(later) + self._finals(result, later)
        if self.study.learning_rates and names:
            told = None if rest is None else self._finals(result, names) + rest
            result, rest = self._tried(result, names, told), None
        return self._trained(result, names, rest) if names else result

    def _tried(
        self, result: BooksResult, names: Sequence[str], later: list[Trial] | None
    ) -> BooksResult:
        from mnemoscope.studies.books.measure import examine_rate

        ask = partial(examine_rate, **self.study.some("read", "segment"))
        seen = run_trials(
            self._tries(names), self.folder, ask, self.jobs, "books, choosing rates",
            kind=Tried, later=later,
        )  # fmt: skip
        plan = [(name, rate) for name in names for rate in self.study.learning_rates]
        found = (TriedRate(*one, outcome) for one, outcome in zip(plan, seen, strict=True))
        return replace(result, tried=(*result.tried, *found))

    def _trained(
        self, result: BooksResult, names: Sequence[str], later: list[Trial] | None
    ) -> BooksResult:
        from mnemoscope.studies.books.measure import examine

        trials = self._finals(result, names)
        ask = partial(
            examine, **self.study.some("read", "passages", "segment"), recent=result.recent
        )
        seen = run_trials(trials, self.folder, ask, self.jobs, "books", kind=Examined, later=later)
        plan = [(name, seed) for name in names for seed in range(self.study.seeds)]
        facts = {
            name: self.study.facts(name, self.configs[name], self._rate(result, name))
            for name in names
        }
        found = (
            BooksTrial(*one, trial.name, outcome)
            for one, trial, outcome in zip(plan, trials, seen, strict=True)
        )
        return replace(result, models={**result.models, **facts}, trials=(*result.trials, *found))

    def _tries(self, names: Sequence[str]) -> list[Trial]:
        steps = self.study.tried_steps
        return [
            self._trial(f"rate-{name}-lr{rate:g}", name, steps, rate, TRIED_SEED)
            for name in names
            for rate in self.study.learning_rates
        ]

    def _finals(self, result: BooksResult, names: Sequence[str]) -> list[Trial]:
        steps = self.study.steps
        return [
            self._trial(f"{name}-seed{seed}", name, steps, self._rate(result, name), seed)
            for name in names
            for seed in range(self.study.seeds)
        ]

    def _trial(self, home: str, name: str, steps: int, rate: float, seed: int) -> Trial:
        config = self.configs[name]
        return Trial(home, self.study.config(self.task, name, config, steps, rate, seed))

    def _rate(self, result: BooksResult, name: str) -> float:
        """The best rate so far; where none was tried, the first that will be."""
        rates = self.study.learning_rates or (self.study.lr,)
        return best_rate(result.tried, name, rates[0])
