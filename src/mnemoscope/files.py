"""Files that are written whole or not at all, and held by one process at a time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mnemoscope.errors import UserError


@contextmanager
def held(path: Path, doing: str, wanted: bool = True) -> Iterator[None]:
    """Keep other processes from doing the same at the same time; the system lets go with us."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        wanted = False
    if not wanted:
        yield
        return
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process is {doing}: wait for it, or stop it first") from None
        yield


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
