"""Checkpoints: one folder a step, complete or not there at all, never trusted without a look.

checkpoints/step-00000200/
  model.safetensors        weights
  optimizer.safetensors    AdamW's moments, and the names of weights that decay
  memory-0-0.safetensors   state carried by process 0, part 0 (tasks that go on)
  complete.json            step, processes, the config, a digest of every file; written last
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.core import bounded
from mnemoscope.core.errors import UserError
from mnemoscope.core.stored import FORMAT, check_format
from mnemoscope.memories.state import State, read_tensors, write_tensors
from mnemoscope.training.machine import LostProcessError
from mnemoscope.training.record import is_record

log = logging.getLogger(__name__)

# Nothing else lies in a checkpoint, whatever complete.json says.
_FILE = re.compile(r"(model|optimizer|memory-\d{1,6}-\d{1,6})\.safetensors")
_MOST_PARTS = 10**6
# Under which optimizer.safetensors names the weights that decay.
DECAYS = "decays"
# What AdamW keeps of every weight.
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class ProcessMismatchError(UserError):
    """A run that carries states continues only with as many processes as it had."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to continue as if it had never stopped.

    ``config`` is what `RunConfig.plain` gave, ``decays`` names the weights that decay; each is None
    in checkpoints of versions that kept none.
    """

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    states: list[State | None] = field(default_factory=list)
    config: dict[str, Any] | None = None
    decays: list[str] | None = None


def save(
    root: Path,
    checkpoint: Checkpoint,
    keep: int,
    rank: int = 0,
    processes: int = 1,
    wait: Callable[[], None] = lambda: None,
    again: str = "",
) -> Path:
    """Write a checkpoint below ``root`` and drop all but the newest ``keep``.

    Process 0 writes what all share; every process writes its own states. ``wait`` holds until
    all processes have come that far; ``again`` is the command that continues the run.
    """
    folder = root / f"step-{checkpoint.step:08d}"
    partial = folder.with_name(folder.name + ".partial")
    try:
        if rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        wait()
        for part, state in enumerate(checkpoint.states):
            if state is not None:
                state.save(partial / f"memory-{rank}-{part}.safetensors")
        if rank == 0:
            write_tensors(partial / "model.safetensors", checkpoint.model, {})
            named = {} if checkpoint.decays is None else {DECAYS: "\n".join(checkpoint.decays)}
            write_tensors(partial / "optimizer.safetensors", checkpoint.optimizer, named)
        wait()
        if rank == 0:
            facts: dict[str, Any] = {
                "format": FORMAT,
                "step": checkpoint.step,
                "processes": processes,
                "parts": len(checkpoint.states),
                "files": {file.name: _digest(file) for file in partial.iterdir()},
            }
            if checkpoint.config is not None:
                facts["config"] = checkpoint.config
            bounded.write_sealed(partial / "complete.json", facts)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(partial, folder)
            # Whatever lies after this step was not fit to continue from, or the run would have.
            older = [other for other in _folders(root) if other < folder]
            for other in set(_folders(root)) - {folder, *older[: keep - 1]}:
                shutil.rmtree(other)
        wait()
    except LostProcessError:
        raise  # nothing is wrong with the disk
    except (OSError, UserError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(
            f"cannot write checkpoint {folder}: {error}. Checkpoints written before are intact; "
            f"make room and continue with: {again or f'mnemoscope resume {root.parent}'}"
        ) from error
    return folder


def newest(root: Path, rank: int = 0, processes: int | None = None) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, None when there is none.

    A disk that does not answer is no damage: it is an error, and nothing is given up.
    """
    for folder in _folders(root):
        try:
            return load(folder, rank, processes)
        except ProcessMismatchError:
            raise
        except (FileNotFoundError, UserError) as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and not isinstance(cause, IsADirectoryError):
                raise UserError(f"{error}. Nothing was changed") from error
            log.warning("checkpoint %s cannot be used, trying the one before: %s", folder, error)
        except OSError as error:
            raise UserError(
                f"cannot read checkpoint {folder}: {error}. Nothing was changed"
            ) from error
    return None


def load(folder: Path, rank: int = 0, processes: int | None = None) -> Checkpoint:
    """Read one checkpoint and check every file in it.

    ``processes`` is how many want to continue from it, None when only the weights matter.
    """
    facts = _checked(folder)
    carried = [name for name in facts["files"] if name.startswith("memory-")]
    if carried and processes not in (None, facts["processes"]):
        raise ProcessMismatchError(
            f"{folder} holds the states of {facts['processes']} processes, this run has "
            f"{processes}: resume with as many processes as before"
        )
    states: list[State | None] = []
    for part in range(facts["parts"]):
        name = f"memory-{rank}-{part}.safetensors"
        states.append(State.load(folder / name) if name in carried else None)
    model, _ = read_tensors(folder / "model.safetensors")
    optimizer, named = read_tensors(folder / "optimizer.safetensors")
    decays = named[DECAYS].split("\n") if DECAYS in named else None
    return Checkpoint(facts["step"], model, optimizer, states, facts.get("config"), decays)


def recorded(root: Path) -> tuple[int, dict[str, Any], Path] | None:
    """Step, config and complete.json of the newest checkpoint that says what it was made with.

    For who wants to know what a config.yaml said: the files beside it are not looked at.
    """
    for folder in _folders(root):
        try:
            facts = _facts(folder / "complete.json")
        except UserError:
            continue  # damaged, which is said when it is to be used
        if "config" in facts:
            return facts["step"], facts["config"], folder / "complete.json"
    return None


def _checked(folder: Path) -> dict[str, Any]:
    """What complete.json says, once every file has proved to be as it was written.

    Every process looks at the files of all, so that all of them choose the same checkpoint.
    """
    facts = _facts(folder / "complete.json")
    for name, digest in facts["files"].items():
        if _digest(folder / name) != digest:
            raise UserError(f"{folder / name} is damaged: it is not what was written")
    return facts


def _facts(path: Path) -> dict[str, Any]:
    """What complete.json says, if its seal and its form are those of one that was written here."""
    remedy = "delete its folder, the one before is used"
    facts = bounded.read_sealed(path, remedy)
    if not isinstance(facts, dict):
        raise UserError(f"{path} is damaged (it says what no checkpoint says): {remedy}")
    check_format(facts.get("format", 0), str(path))
    counts = [facts.get(name) for name in ("step", "processes", "parts")]
    files = facts.get("files")
    if (
        not all(type(count) is int and 0 <= count <= 2**62 for count in counts)
        or facts["parts"] > _MOST_PARTS
        or not isinstance(files, dict)
        or not {"model.safetensors", "optimizer.safetensors"} <= set(files)
        or not all(_FILE.fullmatch(name) for name in files)
        or not is_record(facts.get("config", {}))
    ):
        raise UserError(f"{path} is damaged (it says what no checkpoint says): {remedy}")
    return facts


def _digest(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is damaged: it is not a regular file")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _folders(root: Path) -> list[Path]:
    """Complete checkpoints, newest first."""
    return sorted((path for path in root.glob("step-????????") if path.is_dir()), reverse=True)


def pack(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's tensors under flat names, ``7.exp_avg``."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, entry in state.items() for name, value in entry.items()}


def unpack(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `pack` took out; raises `UserError` when it is of other weights."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        known = index.isdecimal() and len(index) < 10 and int(index) < len(weights)
        shape = () if name == "step" else weights[int(index)].shape if known else None
        if not known or name not in _MOMENTS or value.shape != shape:
            raise UserError(f"the optimiser has no place for {key!r} of {tuple(value.shape)}")
        state.setdefault(int(index), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
