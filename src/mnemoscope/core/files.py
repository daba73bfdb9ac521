"""Files that are written whole or not at all, and held by one process at a time."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from mnemoscope.core.errors import UserError

log = logging.getLogger(__name__)

_locks: ContextVar[bool] = ContextVar("locks", default=True)


@contextmanager
def unlocked() -> Iterator[None]:
    """Hold nothing meanwhile: on file systems of networks locks may hang, or outlive a machine.

    For who has made sure in another way that nobody else is at work.
    """
    before = _locks.set(False)
    try:
        yield
    finally:
        _locks.reset(before)


@contextmanager
def held(path: Path, doing: str, wanted: bool = True) -> Iterator[None]:
    """Keep other processes from doing the same at the same time; the system lets go with us.

    ``path`` is a file or a folder. What is held is what lies there now, so it should be something
    that nobody replaces while work goes on.
    """
    handle = _hold(path, doing) if wanted and _locks.get() else None
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _hold(path: Path, doing: str) -> int | None:
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        return None
    while True:
        try:
            handle = os.open(path, os.O_RDONLY)
        except PermissionError as error:
            raise UserError(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and holding, somebody may have put another file in its place.
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
            os.close(handle)
        except BlockingIOError:
            os.close(handle)
            raise UserError(f"another process is {doing}: wait for it, or stop it first") from None
        except FileNotFoundError:
            os.close(handle)
            raise
        except OSError as error:  # some file systems of networks have no locks
            os.close(handle)
            log.warning("%s cannot be held (%s): start nothing else there", path, error.strerror)
            return None


def write_whole(path: Path, content: bytes) -> Path:
    """Write ``content`` so that a reader sees the old file or the new one, never half of it."""
    # Beside the target, because a rename is atomic only within one file system.
    draft = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(content)
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return path
