"""What lies in the folder of runs: studies, runs, models. Reads small files only, never torch."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS, model_kind
from mnemoscope.scope import records
from mnemoscope.scope.folder import inside
from mnemoscope.studies.engines.claims import FOLDER as CLAIMS
from mnemoscope.studies.engines.claims import newest

Json = dict[str, Any]

DEEPEST, MOST = 4, 2000
# Folders that are read; whoever has more opens one of them.
MOST_FOLDERS = 20_000
# What was written to so recently is being worked on, in seconds.
RECENT = 60
# Where Linux lists what is held; a study holds its folder while it runs.
LOCKS = Path("/proc/locks")
# Kinds of names that models go by.
MODELS = ("memory", "translator", "encoder")
# Memories that were attached to a Hugging Face model, by the file that holds them.
ATTACHED = {"documents": "documents.safetensors", "infinite": "endless.safetensors"}
SKIPPED = {"checkpoints", "figures"}
# Files that say what a folder is.
MARKERS = (".yaml", ".json", ".safetensors")


@dataclass(frozen=True)
class Item:
    """A folder that means something: a study, a run, a model or a document memory."""

    kind: str
    name: str
    path: Path

    @property
    def id(self) -> str:
        """Its name as a page can say it."""
        return records.whole(self.name)

    @property
    def problem(self) -> str | None:
        """Why a page cannot ask for it."""
        if records.speakable(self.name):
            return None
        return "its name is not UTF-8: rename the folder"


@dataclass(frozen=True)
class RunIndex:
    """Items in the order of their names; ``cut`` when there are more than a page shows."""

    items: list[Item]
    cut: bool


def scan(root: Path) -> RunIndex:
    """All items below ``root``."""
    found: list[Item] = []
    budget = iter(range(MOST_FOLDERS))
    for item in _walk(root.resolve(), root.resolve(), 0, budget):
        if len(found) == MOST:
            return RunIndex(found, True)
        found.append(item)
    return RunIndex(found, next(budget, None) is None)


def _walk(root: Path, folder: Path, depth: int, budget: Iterator[int]) -> Iterator[Item]:
    if next(budget, None) is None:
        return
    try:
        with os.scandir(folder) as found:
            # A link may lead out of the folder of runs, or round in a circle.
            some = islice((one for one in found if one.is_dir(follow_symlinks=False)), MOST_FOLDERS)
            names = sorted(entry.name for entry in some)
        kind = kind_of(files_of(folder))
    except OSError:
        return
    if kind is not None:
        yield Item(kind, folder.relative_to(root).as_posix(), folder)
    if depth == DEEPEST or kind in ("run", "huggingface"):
        return
    for name in names:
        if not name.startswith(".") and name not in SKIPPED:
            yield from _walk(root, folder / name, depth + 1, budget)


def files_of(folder: Path) -> set[str]:
    """Names of the files that say what a folder is; settings that are a link may be those of
    somebody else.
    """
    with os.scandir(folder) as found:
        return {
            entry.name
            for entry in found
            if entry.name.endswith(MARKERS)
            and (
                entry.is_file(follow_symlinks=False)
                or (entry.is_symlink() and not entry.name.endswith(".yaml"))
            )
        }


def kind_of(files: set[str]) -> str | None:
    """What a folder with these files is."""
    if "study.yaml" in files:
        return "study"
    if "config.yaml" in files:
        return "run"
    for kind, file in ATTACHED.items():
        if file in files:
            return kind
    weights = any(name.endswith(".safetensors") for name in files)
    return "huggingface" if "config.json" in files and weights else None


def run_of(item: Item) -> Json:
    """A run in a few words: what it learns, with what, how far it is, or why nobody can tell."""
    config = records.settings(item.path / "config.yaml")
    labels = {name: one.label for kind in MODELS for name, one in KINDS[kind].items()}
    finished = records.is_file(item.path / "model.safetensors")
    weights = finished or bool(records.names(item.path / "checkpoints", 1))
    log = item.path / "metrics.jsonl"
    progress = records.progress(item.path)
    problem = item.problem or config.problem or progress.problem
    return {
        "id": item.id,
        "task": config.task,
        "memory": config.memory,
        "label": labels.get(config.memory) or config.memory,
        "kind": model_kind(config.memory),
        "step": progress.step,
        "steps": config.steps,
        "loss": progress.loss,
        "tested": progress.tested,
        "written": _written(log) or _written(item.path / "config.yaml"),
        "finished": finished,
        "running": not finished and _fresh(log),
        "openable": weights and problem is None,
        "problem": problem,
    }


def study_of(item: Item) -> Json:
    """A study in a few words: what it asks, how far its runs are."""
    config = records.settings(item.path / "study.yaml")
    entry = KINDS["study"].get(config.study)
    folders = [item.path / "runs" / name for name in records.names(item.path / "runs", MOST)]
    runs = [path for path in folders if records.is_file(path / "config.yaml")]
    done = {path for path in runs if records.is_file(path / "examined.json")}
    finished = records.is_file(item.path / "result.json")
    logs = [path / "metrics.jsonl" for path in runs if path not in done]
    return {
        "id": item.id,
        "study": config.study,
        "question": entry.line if entry else "",
        "begun": len(runs),
        "done": len(done),
        "finished": finished,
        "running": not finished and (_held(item.path) or any(_fresh(log) for log in logs)),
        "page": records.is_file(item.path / "report.html"),
        # A page that is written again while the study runs has to be shown again.
        "written": _written(item.path / "report.html"),
        "figures": figures(item.path),
        "active": [
            {
                "id": records.whole(f"{item.name}/runs/{path.name}".removeprefix("./")),
                "step": records.progress(path).step,
                "steps": records.settings(path / "config.yaml").steps,
                **_holder(path),
            }
            for path in runs
            if not finished and path not in done and _fresh(path / "metrics.jsonl")
        ][:8],
        "problem": item.problem or config.problem,
    }


def _holder(run: Path) -> Json:
    """Who trains it, on which machine, and since when, if somebody has claimed it."""
    try:
        claim = newest(run.parent / CLAIMS, run.name)
    except UserError:
        return {}
    if claim is None or claim.released:
        return {}
    holder = claim.holder
    return {"by": records.shown(f"{holder.host}, process {holder.process}"), "since": holder.since}


def figures(folder: Path) -> list[Json]:
    """Pictures and tables that a study has written, by name."""
    found: dict[str, list[str]] = {}
    for name in records.names(folder / "figures", MOST):
        stem, _, suffix = name.rpartition(".")
        if suffix in ("svg", "png", "csv") and stem and records.speakable(name):
            found.setdefault(stem, []).append(suffix)
    return [{"name": name, "formats": formats} for name, formats in found.items()][:200]


def find(root: Path, name: str, kind: str) -> Item:
    """One item by the name it has on the page."""
    path = inside(root, name)
    try:
        found = kind_of(files_of(path))
    except OSError:  # no folder, or one that nobody may look into
        found = None
    if found != kind:
        raise UserError(f"{name[:80]!r} is no {kind}")
    return Item(kind, name, path)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _held(path: Path) -> bool:
    """Whether a process works on it. Looking must not hold it too, or the study would refuse."""
    try:
        about, locks = path.stat(), LOCKS.read_text()
    except (OSError, ValueError):
        return False
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    return any(place in line.split() for line in locks.splitlines())


def _fresh(path: Path) -> bool:
    return time.time() - _written(path) < RECENT
