"""The folder of runs as the page sees it; looked through at most once a second, for all pages."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from mnemoscope.scope import records, run_index

Json = dict[str, Any]

KEPT = 1.0
# Points of a training curve; more than a screen has columns.
MOST_POINTS = 600


class Library:
    """Studies, runs and models below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._found = run_index.RunIndex([], False)
        self._when = 0.0

    def _items(self, kind: str) -> list[run_index.Item]:
        with self._lock:
            if not self._when or time.monotonic() - self._when > KEPT:
                self._found = run_index.scan(self.root)
                self._when = time.monotonic()
            return [item for item in self._found.items if item.kind == kind]

    def all(self) -> Json:
        """All there is, in a few words each."""
        return {
            "root": records.shown(self.root.name or str(self.root)),
            "studies": [run_index.study_of(item) for item in self._items("study")],
            "runs": [run_index.run_of(item) for item in self._items("run")],
            "huggingface": [item.id for item in self._items("huggingface")],
            **{kind: [item.id for item in self._items(kind)] for kind in run_index.ATTACHED},
            "cut": self._found.cut,
        }

    def news(self) -> Json:
        """What can change while a page is open: how far studies and runs are."""
        studies = [run_index.study_of(item) for item in self._items("study")]
        runs = [
            {"id": item.id, "step": records.progress(item.path).step}
            for item in self._items("run")
            if not records.is_file(item.path / "model.safetensors")
        ]
        return {"studies": studies, "runs": runs, "items": len(self._found.items)}

    def study(self, name: str) -> Json:
        """One study with all its runs."""
        item = run_index.find(self.root, name, "study")
        prefix = "" if name == "." else f"{name}/"
        runs = [run for run in self._items("run") if run.name.startswith(f"{prefix}runs/")]
        return {
            **run_index.study_of(item),
            "runs": [run_index.run_of(run) for run in runs],
            "config": records.text(item.path / "study.yaml"),
        }

    def run(self, name: str) -> Json:
        """One run with its training curves."""
        item = run_index.find(self.root, name, "run")
        return {
            **run_index.run_of(item),
            "config": records.text(item.path / "config.yaml"),
            "curves": curves(records.metrics(item.path)),
        }


def curves(entries: list[Json]) -> Json:
    """Loss by step, in training and on held-out data, thinned out to what can be seen."""
    found: Json = {}
    for name in ("loss", "valid_loss", "valid_accuracy"):
        points = [
            [entry["step"], value]
            for entry in entries
            if (value := records.measured(entry, name)) is not None
        ]
        every = -(-len(points) // MOST_POINTS)
        if points:
            found[name] = points[:: every or 1]
    return found
