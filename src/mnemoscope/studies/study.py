"""What every study is: a config with presets that can be run and that can tell what it saw."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import KINDS, model_kind
from mnemoscope.report.document import Section

# Takes a result that is not whole yet, to show it.
Share = Callable[[dict[str, Any]], None]


def label(memory: str) -> str:
    """The name people know a memory's model, or a translator, by."""
    entry = KINDS[model_kind(memory)].get(memory)
    return (entry.label if entry else "") or memory


class Study(Config):
    """A question, as data: which models, which data, how long.

    `run` computes and leaves everything in its folder, so that it can be stopped and run again;
    `tell` turns what was computed into sections of a page, words included.
    """

    title: ClassVar[str]
    question: ClassVar[str]
    # What each preset changes; "quick" is the default and must do on a laptop.
    presets: ClassVar[dict[str, dict[str, Any]]]
    # Whether `tell` can make a page of what there is before all of it is there.
    live: ClassVar[bool] = False

    @classmethod
    def preset(cls, name: str = "quick", **overrides: Any) -> Self:
        """Return the named preset with some options changed."""
        if name not in cls.presets:
            raise UserError(f"unknown preset {name!r}; {suggestion(name, cls.presets)}")
        return cls.make(**{**cls.presets[name], **overrides})

    @abstractmethod
    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Compute the result, as plain values that JSON can hold."""

    def run_live(self, folder: Path, jobs: int, share: Share) -> dict[str, Any]:
        """The same; a live study hands out its result so far whenever there is more of it."""
        return self.run(folder, jobs)

    @abstractmethod
    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
