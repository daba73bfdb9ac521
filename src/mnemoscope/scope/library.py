"""The folder of runs as the page sees it; looked through at most once a second, for all pages."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from mnemoscope.scope import shelf

Json = dict[str, Any]

KEPT = 1.0
# Points of a training curve; more than a screen has columns.
MOST_POINTS = 600


class Library:
    """Studies, runs and models below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._found: list[shelf.Item] = []
        self._when = 0.0

    def _items(self, kind: str) -> list[shelf.Item]:
        with self._lock:
            if not self._when or time.monotonic() - self._when > KEPT:
                self._found = shelf.scan(self.root)
                self._when = time.monotonic()
            return [item for item in self._found if item.kind == kind]

    def all(self) -> Json:
        """All there is, in a few words each."""
        return {
            "root": self.root.name or str(self.root),
            "studies": [shelf.study_of(item) for item in self._items("study")],
            "runs": [shelf.run_of(item) for item in self._items("run")],
            "huggingface": [item.name for item in self._items("huggingface")],
            "documents": [item.name for item in self._items("documents")],
        }

    def news(self) -> Json:
        """What can change while a page is open: how far studies and runs are."""
        studies = [shelf.study_of(item) for item in self._items("study")]
        runs = [
            {"id": item.name, "step": shelf.last_step(item.path)}
            for item in self._items("run")
            if not (item.path / "model.safetensors").is_file()
        ]
        return {"studies": studies, "runs": runs, "items": len(self._found)}

    def study(self, name: str) -> Json:
        """One study with all its runs."""
        item = shelf.find(self.root, name, "study")
        prefix = "" if name == "." else f"{name}/"
        runs = [run for run in self._items("run") if run.name.startswith(f"{prefix}runs/")]
        config = item.path / "study.yaml"
        return {
            **shelf.study_of(item),
            "runs": [shelf.run_of(run) for run in runs],
            "config": config.read_text(encoding="utf-8", errors="replace")[: shelf.MOST_BYTES],
        }

    def run(self, name: str) -> Json:
        """One run with its training curves."""
        item = shelf.find(self.root, name, "run")
        config = item.path / "config.yaml"
        return {
            **shelf.run_of(item),
            "config": config.read_text(encoding="utf-8", errors="replace")[: shelf.MOST_BYTES],
            "curves": curves(shelf.metrics(item.path)),
        }


def curves(entries: list[Json]) -> Json:
    """Loss by step, in training and on held-out data, thinned out to what can be seen."""
    found: Json = {}
    for name in ("loss", "valid_loss", "valid_accuracy"):
        points = [
            [entry["step"], float(entry[name])]
            for entry in entries
            if isinstance(entry.get(name), int | float) and abs(entry[name]) < 1e30
        ]
        every = -(-len(points) // MOST_POINTS)
        if points:
            found[name] = points[:: every or 1]
    return found
