"""Trainings of every memory, killed at any moment or given damaged files."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from campaign.children import Child
from campaign.table import Row
from mnemoscope.core.registry import MEMORIES
from mnemoscope.training.config import RunConfig

SMALL = {"lag": 4, "width": 8, "batch": 4, "checkpoint_every": 3, "evaluate_every": 20}
# A child is killed at most so often before it is left alone.
MOST_KILLS = 3


def config_of(memory: str, steps: int = 60) -> str:
    return RunConfig.of("copy", memory, {**SMALL, "steps": steps}).to_yaml()


class Reference:
    """A training that nobody disturbs: its weights, and about how long it takes."""

    def __init__(self, home: Path, memory: str, steps: int = 60) -> None:
        self.memory, self.config = memory, config_of(memory, steps)
        self.folder = home / f"whole-{memory}"
        began = time.monotonic()
        code, said = Child(self.folder, self.config).end()
        assert code == 0, said
        self.seconds = time.monotonic() - began

    def equal(self, folder: Path) -> bool:
        mine, whole = (one / "model.safetensors" for one in (folder, self.folder))
        return mine.is_file() and mine.read_bytes() == whole.read_bytes()


def references(home: Path, memories: Sequence[str] = tuple(MEMORIES)) -> list[Reference]:
    # The first process waits for torch to be loaded, and would say nothing of the others.
    Child(home / "first", config_of("rnn", 1)).end()
    return [Reference(home, memory) for memory in memories]


def kills(home: Path, whole: Sequence[Reference], count: int, draw: random.Random) -> Iterator[Row]:
    """SIGKILL at a random moment, up to three times in a row, then resumed to the end."""
    left = count
    rows = {one.memory: Row(f"SIGKILL, training of {one.memory}") for one in whole}
    number = 0
    while left > 0:
        reference = whole[number % len(whole)]
        folder = home / f"killed-{number}"
        number += 1
        made = 0
        for _ in range(min(left, draw.randint(1, MOST_KILLS))):
            moment = draw.uniform(0, reference.seconds)
            made += Child(folder, reference.config).kill_after(moment)
        code, said = Child(folder, reference.config).end()
        row = rows[reference.memory]
        for _ in range(made):
            row.add(code == 0 and reference.equal(folder), said)
        left -= made
        shutil.rmtree(folder, ignore_errors=True)
    yield from rows.values()


def torn(content: bytes, draw: random.Random) -> bytes:
    """The beginning is new, the rest was never written."""
    place = draw.randrange(len(content) + 1)
    return content[:place] + bytes(len(content) - place)


def truncated(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def flipped(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return b"?"
    place = draw.randrange(len(content))
    return (
        content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]
    )


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "torn": torn,
    "truncated": truncated,
    "flipped": flipped,
}


def files(home: Path, whole: Sequence[Reference], count: int, draw: random.Random) -> Iterator[Row]:
    """A file of a stopped run is damaged or gone; it is resumed, or refused with a message.

    After a message that file is put right, which is the least that any message asks for.
    """
    stopped: dict[str, Path] = {}
    for reference in whole:
        folder = home / f"stopped-{reference.memory}"
        while not list(folder.glob("checkpoints/step-000000[3-9]?")):
            Child(folder, reference.config).kill_after(draw.uniform(0.6, 1.0) * reference.seconds)
            if (folder / "model.safetensors").is_file():
                (folder / "model.safetensors").unlink()
        stopped[reference.memory] = folder
    rows = {name: Row(f"{name} file of a run") for name in (*DAMAGES, "missing")}
    for number in range(count):
        reference = whole[number % len(whole)]
        fault, row = draw.choice(list(rows.items()))
        folder = home / f"damaged-{number}"
        shutil.copytree(stopped[reference.memory], folder)
        path = draw.choice(sorted(one for one in folder.rglob("*") if one.is_file()))
        before = path.read_bytes()
        if fault == "missing":
            path.unlink()
        else:
            path.write_bytes(DAMAGES[fault](before, draw))
        where = path.relative_to(folder)
        code, said = Child(folder, None).end()
        told = code == 2 and bool(said)
        if told:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(before)
            code, said = Child(folder, None).end()
        row.add(code == 0 and reference.equal(folder), f"{reference.memory} {where}: {said}", told)
        shutil.rmtree(folder)
    yield from rows.values()


def disks(home: Path, whole: Sequence[Reference]) -> Iterator[Row]:
    """A disk that takes no more, and a folder that nobody may write to."""
    full, closed = Row("full disk"), Row("read-only folder")
    for reference in whole:
        folder = home / f"full-{reference.memory}"
        code, said = Child(folder, reference.config, limit=2000).end()
        told = code == 2 and ("cannot write" in said)
        code, again = Child(folder, reference.config).end()
        full.add(told and code == 0 and reference.equal(folder), said or again, told)

        folder = home / f"closed-{reference.memory}"
        Child(folder, reference.config).kill_after(0.7 * reference.seconds)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o555)
        code, said = Child(folder, reference.config, drop=True).end()
        told = code == 2 and "cannot " in said
        fine = told or code == 0  # it had come to its end before
        folder.chmod(0o755)
        code, again = Child(folder, reference.config).end()
        closed.add(fine and code == 0 and reference.equal(folder), said or again, told)
    yield full
    yield closed


def two_writers(home: Path, whole: Sequence[Reference]) -> Iterator[Row]:
    """Two processes at the same training: one is refused, the other one ends right."""
    row = Row("two writers of one run")
    for reference in whole:
        folder = home / f"twice-{reference.memory}"
        Child(folder, reference.config).kill_after(0.5 * reference.seconds)
        ends = [one.end() for one in [Child(folder, reference.config) for _ in range(2)]]
        told = any(code == 2 and said for code, said in ends)
        fine = all(code == 0 or (code == 2 and said) for code, said in ends)
        code, _ = Child(folder, reference.config).end()
        row.add(fine and code == 0 and reference.equal(folder), str(ends), told)
    yield row
