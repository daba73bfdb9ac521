"""Where a memory is to be written: looked at before it learns, and not lost when writing fails."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mnemoscope.core.errors import UserError

# Beside the tensors there are names and options.
SPARE = 1 << 20


def check_destination(folder: str | Path, nbytes: int = 0) -> None:
    """Refuse a folder that could not be made, written to or hold so many bytes; leaves no trace."""
    folder = Path(folder)
    made: list[Path] = []
    try:
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise UserError(f"{folder} exists already: choose another --out")
        for one in _missing(folder):
            one.mkdir()
            made.append(one)
        probe = folder / f".{secrets.token_hex(16)}.part"
        try:
            probe.write_bytes(b"Is there room?")
        finally:
            probe.unlink(missing_ok=True)
        free = shutil.disk_usage(folder).free
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise UserError(f"cannot write to {str(folder)[:200]}: {_reason(error)}") from error
    finally:
        _remove(made)
    if free < nbytes + SPARE:
        raise UserError(
            f"{folder} needs {nbytes + SPARE:,} bytes, but only {free:,} are free: make room, or "
            "choose another --out"
        )


def keep(folder: str | Path, write: Callable[[Path], Path]) -> Path:
    """Call ``write(folder)``; when that fails, write to a temporary folder and say where."""
    folder = Path(folder)
    with suppress(OSError, ValueError):
        made = _missing(folder)
    try:
        return write(folder)
    # Whatever it is: what was learnt may have taken hours, and is gone with the process.
    except Exception as error:
        with suppress(OSError, UnboundLocalError):
            if folder in made:
                shutil.rmtree(folder)
            _remove(made[:-1])
        told = f"cannot write to {str(folder)[:200]}: {_reason(error)}"
        spare = Path(tempfile.mkdtemp(prefix="mnemoscope-"))
        try:
            write(spare)
        except Exception as again:
            shutil.rmtree(spare, ignore_errors=True)
            raise UserError(f"{told}; nor to {spare}: {_reason(again)}") from error
        raise UserError(
            f"{told}\nwhat was learnt is kept in {spare}: move it from there"
        ) from error


def _missing(folder: Path) -> list[Path]:
    """The folder and those above it that are not there, the highest first."""
    return [one for one in reversed([folder, *folder.parents]) if not one.exists()]


def _remove(made: list[Path]) -> None:
    for one in reversed(made):
        with suppress(OSError):  # somebody else has put something there meanwhile
            one.rmdir()


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
