"""Texts that a page may pick: a folder of files, and passages out of them, never whole files."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

from mnemoscope.core.bounded import opened
from mnemoscope.core.errors import UserError
from mnemoscope.scope.folder import inside
from mnemoscope.scope.records import is_file, speakable

ENDINGS = (".txt", ".md", ".gz")
MOST_FILES, MOST_SEEN = 1000, 100_000
# Bytes of a file that can be looked at, unpacked; a small gzip file may hold a great deal.
MOST_BYTES = 16 << 20


def catalogue(folder: Path | None) -> list[str]:
    """Names of the texts in a folder, at most three levels deep."""
    if folder is None:
        return []
    root = folder.resolve()
    found, seen = [], 0
    for base, folders, files in os.walk(root):
        seen += 1 + len(files)
        if seen > MOST_SEEN:
            break
        depth = len(Path(base).relative_to(root).parts)
        folders[:] = sorted(one for one in folders if not one.startswith(".")) if depth < 3 else []
        for name in sorted(files):
            path = Path(base) / name
            if name.endswith(ENDINGS) and not name.startswith(".") and _plain(path):
                found.append(path.relative_to(root).as_posix())
    return sorted(found)[:MOST_FILES]


def _plain(path: Path) -> bool:
    """A file itself, and no link; of a name that a page can say."""
    return not os.path.islink(path) and is_file(path) and speakable(str(path))


def passage(folder: Path | None, name: str, start: float, length: int) -> dict[str, Any]:
    """``length`` characters of a text from the share ``start`` in [0, 1] of it on."""
    if folder is None or not name.endswith(ENDINGS):
        raise UserError(f"there is no text {name[:80]!r} here")
    path = inside(folder, name)
    try:
        with opened(path) as file:
            data = (gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file).read(MOST_BYTES)
    except (UserError, EOFError, zlib.error) as error:
        said = str(error).replace(str(path), path.name)
        raise UserError(f"cannot read {name[:80]!r}: {said}") from error
    if b"\0" in data:
        raise UserError(f"{name[:80]!r} is not text")
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n").removeprefix("\ufeff")
    at = min(int(len(text) * start), max(0, len(text) - length))
    # From the beginning of a line, if there is one near.
    line = text.find("\n", at, at + 200) + 1 if at else 0
    begin = line or at
    return {"name": name, "characters": len(text), "start": begin, "text": text[begin:][:length]}
