"""What lies in the folder of runs: studies, runs, models. Reads small files only, never torch."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from mnemoscope.errors import UserError
from mnemoscope.registry import KINDS, model_kind
from mnemoscope.scope.folder import inside

Json = dict[str, Any]

DEEPEST, MOST = 4, 2000
# Larger files of settings than this nobody wrote by hand.
MOST_BYTES = 1 << 20
# What was written to so recently is being worked on, in seconds.
RECENT = 60
# Where Linux lists what is held; a study holds its folder while it runs.
LOCKS = Path("/proc/locks")
SKIPPED = {"checkpoints", "figures"}
# Plain values only, by the C library where there is one: ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Item:
    """A folder that means something: a study, a run, a model or a document memory."""

    kind: str
    name: str
    path: Path


def scan(root: Path) -> list[Item]:
    """All items below ``root``, in the order of their names."""
    found: list[Item] = []
    for item in _walk(root.resolve(), root.resolve(), 0):
        found.append(item)
        if len(found) == MOST:
            break
    return found


def _walk(root: Path, folder: Path, depth: int) -> Iterator[Item]:
    try:
        with os.scandir(folder) as found:
            # A link may lead out of the folder of runs, or round in a circle.
            names = sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))
        kind = kind_of(files_of(folder))
    except OSError:
        return
    if kind is not None:
        yield Item(kind, folder.relative_to(root).as_posix(), folder)
    if depth == DEEPEST or kind in ("run", "huggingface"):
        return
    for name in names:
        if not name.startswith(".") and name not in SKIPPED:
            yield from _walk(root, folder / name, depth + 1)


def files_of(folder: Path) -> set[str]:
    """Names of the files in a folder; settings that are a link may be those of somebody else."""
    with os.scandir(folder) as found:
        return {
            entry.name
            for entry in found
            if entry.is_file(follow_symlinks=False)
            or (entry.is_symlink() and not entry.name.endswith(".yaml"))
        }


def kind_of(files: set[str]) -> str | None:
    """What a folder with these files is."""
    if "study.yaml" in files:
        return "study"
    if "config.yaml" in files:
        return "run"
    if "documents.safetensors" in files:
        return "documents"
    weights = any(name.endswith(".safetensors") for name in files)
    return "huggingface" if "config.json" in files and weights else None


def settings(path: Path) -> Json:
    """A small YAML file as plain values; {} when it is not one."""
    try:
        about = path.stat()
    except OSError:
        return {}
    return {} if about.st_size > MOST_BYTES else _settings(path, about.st_mtime_ns)


@lru_cache(maxsize=2 * MOST)
def _settings(path: Path, written: int) -> Json:
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def metrics(folder: Path) -> list[Json]:
    """What a run has logged so far; a line that is being written is left out."""
    try:
        with open(folder / "metrics.jsonl", encoding="utf-8", errors="replace") as file:
            lines = file.read(16 * MOST_BYTES).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("step"), int):
            found.append(entry)
    return found


def run_of(item: Item) -> Json:
    """A run in a few words: what it learns, with what, how far it is."""
    config = settings(item.path / "config.yaml")
    task, model, training = (_dict(config.get(key)) for key in ("task", "model", "training"))
    memory = str(model.get("name", "?"))
    labels = {name: one.label for kind in KINDS.values() for name, one in kind.items()}
    steps = training.get("steps")
    finished = (item.path / "model.safetensors").is_file()
    weights = finished or any((item.path / "checkpoints").glob("*"))
    return {
        "id": item.name,
        "task": str(task.get("name", "?")),
        "memory": memory,
        "label": labels.get(memory) or memory,
        "text": (item.path / "vocabulary.json").is_file(),
        "step": last_step(item.path),
        "steps": steps if isinstance(steps, int) else None,
        "finished": finished,
        "running": not finished and _fresh(item.path / "metrics.jsonl"),
        # What reads a whole source at once has no stream to watch.
        "openable": weights and model_kind(memory) == "memory",
    }


def study_of(item: Item) -> Json:
    """A study in a few words: what it asks, how far its runs are."""
    config = settings(item.path / "study.yaml")
    name = str(config.get("study", "?"))
    entry = KINDS["study"].get(name)
    runs = [path.parent for path in sorted(item.path.glob("runs/*/config.yaml"))][:MOST]
    done = [path for path in runs if (path / "examined.json").is_file()]
    finished = (item.path / "result.json").is_file()
    logs = [path / "metrics.jsonl" for path in runs if path not in done]
    return {
        "id": item.name,
        "study": name,
        "question": entry.line if entry else "",
        "begun": len(runs),
        "done": len(done),
        "finished": finished,
        "running": not finished and (_held(item.path) or any(_fresh(log) for log in logs)),
        "page": (item.path / "report.html").is_file(),
        # A page that is written again while the study runs has to be shown again.
        "written": _written(item.path / "report.html"),
        "figures": figures(item.path),
        "active": [
            {"id": f"{item.name}/runs/{path.name}".removeprefix("./"), "step": last_step(path)}
            | {"steps": _dict(settings(path / "config.yaml").get("training")).get("steps")}
            for path in runs
            if not finished and path not in done and _fresh(path / "metrics.jsonl")
        ][:8],
    }


def figures(folder: Path) -> list[Json]:
    """Pictures and tables that a study has written, by name."""
    names: dict[str, list[str]] = {}
    for path in sorted((folder / "figures").glob("*")):
        if path.suffix in (".svg", ".png", ".csv"):
            names.setdefault(path.stem, []).append(path.suffix[1:])
    return [{"name": name, "formats": formats} for name, formats in names.items()][:200]


def last_step(folder: Path) -> int:
    """The newest step a run has logged, from the end of its log."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            step = json.loads(line)["step"]
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError, RecursionError):
            continue
        return step if isinstance(step, int) else 0
    return 0


def find(root: Path, name: str, kind: str) -> Item:
    """One item by the name it has on the page."""
    path = inside(root, name)
    if kind_of(files_of(path) if path.is_dir() else set()) != kind:
        raise UserError(f"{name[:80]!r} is no {kind}")
    return Item(kind, name, path)


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _held(path: Path) -> bool:
    """Whether a process works on it. Looking must not hold it too, or the study would refuse."""
    try:
        about, locks = path.stat(), LOCKS.read_text()
    except OSError:
        return False
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    return any(place in line.split() for line in locks.splitlines())


def _fresh(path: Path) -> bool:
    return time.time() - _written(path) < RECENT
