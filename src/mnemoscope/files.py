"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from mnemoscope.errors import UserError


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
