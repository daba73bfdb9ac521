"""The bytes of a file, unpacked if they are gzip: as many as there may be, and not one more."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from mnemoscope.core.bounded import opened
from mnemoscope.core.errors import UserError

# Of one file, unpacked. All of it goes through memory several times over; and a few megabytes of
# gzip can hold a thousand times as much.
MOST_BYTES = 2 << 30
_GZIP_MAGIC = b"\x1f\x8b"
_PIECE = 1 << 20


def read_unpacked(path: Path) -> bytes:
    """Return what a regular file holds, gzip or not; pipes and what is too large are refused."""
    with opened(path) as file:
        packed = file.read(2) == _GZIP_MAGIC or path.suffix == ".gz"
        file.seek(0)
        if not packed and os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise _too_large(path)
        return _unpacked(file, path) if packed else file.read()


def _unpacked(file: BinaryIO, path: Path) -> bytes:
    pieces, size = [], 0
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            while piece := unpacked.read(_PIECE):
                size += len(piece)
                if size > MOST_BYTES:
                    raise _too_large(path)
                pieces.append(piece)
    # A cut or damaged gzip file shows itself in any of these three.
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file: {error}") from error
    return b"".join(pieces)


def _too_large(path: Path) -> UserError:
    return UserError(
        f"{path} holds more than the {MOST_BYTES} bytes allowed: part it into several files"
    )
