"""Claim files: of all who could work on something, on any machine that sees the folder, one does.

A claim is the file ``NAME.1``, made exclusively; the next one is ``NAME.2``, and so on. Who holds
a claim writes a byte into it now and then, and a last word when it is done. A claim whose holder
has stopped writing is taken over by making the file with the next number: of several who want to,
one succeeds, and a holder that was only asleep finds that file when it wakes, and ends.

Whether somebody still writes is judged by looking twice, on the watcher's own steady clock: what
time it is on either machine does not matter. No locks: file systems of networks may not have them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from mnemoscope.core.errors import UserError
from mnemoscope.core.processes import gone, machine

log = logging.getLogger(__name__)

# The folder of claims, beside what is claimed.
FOLDER = ".claims"
# Seconds without a sign of life after which a claim may be taken over; signs come far more often.
PATIENCE = 60.0
BEATS = 12
# What claims on a whole study are called, one for each process that works on it.
_PRESENT = "at-work-"
_BEAT, _RELEASED = b".", b" released\n"
# No claim of ours is longer: a byte every five seconds is half a megabyte a month.
_MOST_BYTES = 1 << 24


@dataclass(frozen=True)
class Holder:
    """Who works on something: host, process, since when; by which engine."""

    host: str = "?"
    process: int = 0
    machine: str = ""
    since: str = ""
    patience: float = PATIENCE
    engine: str = ""

    @classmethod
    def here(cls, patience: float = PATIENCE, engine: str = "") -> Holder:
        """This process, from now on."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), os.getpid(), machine(), now, patience, engine)

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}" + (
            f", since {self.since}" * bool(self.since)
        )


@dataclass(frozen=True)
class Seen:
    """A claim as it was read: its number, who holds it, and every byte."""

    number: int
    holder: Holder
    content: bytes

    @property
    def released(self) -> bool:
        """Whether its holder has said that it is done."""
        return self.content.endswith(_RELEASED)

    @property
    def over(self) -> bool:
        """Whether nobody works on it, as far as this can be known at once."""
        return self.released or gone(self.holder.machine, self.holder.process)


class ClaimedError(Exception):
    """Somebody else works on it."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder)
        self.holder = holder


def newest(folder: Path, name: str) -> Seen | None:
    """The claim that counts: the one with the highest number; None when there is none."""
    number = 0
    while os.path.lexists(_path(folder, name, number + 1)):
        number += 1
    return _read(_path(folder, name, number), number) if number else None


def _path(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}.{number}"


def _read(path: Path, number: int) -> Seen | None:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES)
    except FileNotFoundError:  # taken away since it was seen
        return None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    return Seen(number, _holder(content), content)


def is_over(path: Path) -> bool:
    """Whether a file is a claim that nobody holds any more."""
    seen = _read(path, 0)
    return seen is None or seen.over


def _holder(content: bytes) -> Holder:
    """Who a claim says holds it; one that a kill left without words is nobody's."""
    first, _, _ = content.partition(b"\n")
    try:
        found = json.loads(first)
        return Holder(
            str(found["host"])[:255],
            int(found["process"]),
            str(found["machine"]),
            str(found["since"])[:40],
            float(found["patience"]),
            str(found["engine"])[:40],
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return Holder()


class Watch:
    """Looks at claims of others again and again, and says which of them may be taken over."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Path, str], tuple[Seen, float]] = {}

    def free(self, folder: Path, name: str) -> int | None:
        """The number of a claim that nobody holds any more, 0 for none; None while one is held."""
        now, found = time.monotonic(), newest(folder, name)
        if found is None or found.over:
            return found.number if found else 0
        before, since = self._seen.get((folder, name), (None, now))
        if before != found:
            self._seen[folder, name] = found, now
            return None
        return found.number if now - since > found.holder.patience else None

    def alive(self, folder: Path, name: str) -> Holder | None:
        """Who holds a claim, None when nobody does; waits for the next sign of life."""
        first = newest(folder, name)
        # A process that is here needs no heartbeat to show that it lives.
        if first is not None and not first.over and first.holder.machine == machine():
            return first.holder
        while (found := newest(folder, name)) is not None and self.free(folder, name) is None:
            if first is not None and found != first:
                return found.holder
            time.sleep(found.holder.patience / BEATS / 5)
        return None


class Claim:
    """Something that this process works on, while the context lasts."""

    def __init__(self, folder: Path, name: str, holder: Holder, stale: int = 0) -> None:
        self.folder, self.name, self.holder, self.stale = folder, name, holder, stale
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Take it, or raise `ClaimedError`; ``stale`` is a number judged to be nobody's."""
        last = newest(self.folder, self.name)
        if last is not None and not last.over and last.number != self.stale:
            raise ClaimedError(last.holder)
        self.number = (last.number if last else 0) + 1
        self._path = _path(self.folder, self.name, self.number)
        self._make(last)
        if last is not None and not last.over:
            # Whoever was only asleep looks at its claim when it wakes: time for it to end.
            time.sleep(2 * last.holder.patience / BEATS)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        return self

    def _make(self, last: Seen | None) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            # Somebody was faster.
            faster = newest(self.folder, self.name)
            raise ClaimedError(faster.holder if faster else Holder()) from None
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror or error}") from error
        try:
            os.write(handle, json.dumps(asdict(self.holder)).encode() + b"\n")
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror or error}") from error
        finally:
            os.close(handle)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        try:
            self._append(_RELEASED)
        except OSError as problem:  # whoever wants it has to wait until it looks abandoned
            log.warning("%s cannot be released: %s", self._path, problem.strerror or problem)

    def _live(self) -> None:
        """Show that this process lives, and end it if somebody had to think that it does not."""
        beat = self.holder.patience / BEATS
        shown = time.monotonic()
        while not self._ended.wait(beat):
            if os.path.lexists(_path(self.folder, self.name, self.number + 1)):
                return self._lost("another process has taken it over")
            try:
                self._append(_BEAT)
                shown = time.monotonic()
            except OSError as problem:
                if time.monotonic() - shown > self.holder.patience / 2:
                    return self._lost(f"{self._path} cannot be written ({problem.strerror})")
        return None

    def _append(self, what: bytes) -> None:
        # Opened each time: on a network, closing is what shows it to others.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, what)
        finally:
            os.close(handle)

    def _lost(self, why: str) -> None:
        """End at once, at any moment: two must not write the same files."""
        sys.stderr.write(
            f"{self.name}: {why}, so process {self.holder.process} on {self.holder.host} ends. "
            "What it had done up to the last checkpoint is kept; the same command continues\n"
        )
        sys.stderr.flush()
        os._exit(1)


@contextmanager
def present(folder: Path, engine: str, shares: bool, patience: float) -> Iterator[None]:
    """Be seen to work on a study; refuse unless alone, or among others who share it too."""
    home = folder / FOLDER
    own = Claim(home, f"{_PRESENT}{secrets.token_hex(6)}", Holder.here(patience, engine))
    try:
        with own:
            for name in {path.stem for path in home.glob(f"{_PRESENT}*.1")} - {own.name}:
                _check_other(folder, name, engine if shares else "")
            yield
    finally:
        _path(home, own.name, 1).unlink(missing_ok=True)


def _check_other(folder: Path, name: str, sharing: str) -> None:
    """Raise `UserError` for one who works on the folder and does not share it with us."""
    home = folder / FOLDER
    seen = newest(home, name)
    if seen is None or (seen.holder.engine == sharing and not seen.over):
        return
    other = Watch().alive(home, name)
    if other is None:
        _path(home, name, 1).unlink(missing_ok=True)
        return
    raise UserError(
        f"another process is working on {folder} ({other}, engine {other.engine}): wait for it, or "
        "stop it first. To share the work on one folder, start all of them with --engine shared"
    )
