"""Names of files that come from a page, and the one folder they may lead into."""

from __future__ import annotations

from pathlib import Path

from mnemoscope.core.errors import UserError

# Longer than any path that a file system here takes.
LONGEST = 1024


def inside(root: Path, name: str) -> Path:
    """The file or folder ``name`` of ``root``; "." is the folder itself.

    One that leads out of it, by a link too, is refused. Nor is anything hidden shown, such as a
    draft that is being written.
    """
    refused = UserError(f"there is no {name[:80]!r} here")
    hidden = name != "." and any(part.startswith(".") for part in name.split("/"))
    if len(name) > LONGEST or "\0" in name or hidden:
        raise refused
    try:
        base = root.resolve()
        path = (base / name).resolve()
        found = path.is_relative_to(base) and path.exists()
    # A link that leads in a circle, a name that is too long, a folder nobody may look into.
    except (OSError, RuntimeError, ValueError):
        raise refused from None
    if not found:
        raise refused
    return path
