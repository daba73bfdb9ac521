"""A path that leads nowhere is told at once, with what lies nearby. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path

from mnemoscope.core.errors import UserError, shown, suggestion

# What people call folders of runs and models: a name that begins so is no name on a hub.
FOLDERS = ("runs", "results", "models", "model", "memories", "checkpoints", "outputs", "output")
# Names that a message lists.
MOST = 8


def refuse_missing(source: str | Path) -> None:
    """Raise `UserError` for what can only be a path of this machine, and is not there.

    A name with at most one slash may be one on the Hugging Face hub, unless it begins as folders
    here do: nobody is to wait for a network because of a slip.
    """
    path = Path(os.path.expanduser(source))
    # Of os.path, whose questions have an answer whatever the name: too long, or with a NUL in it.
    if os.path.lexists(path):
        return
    begun = len(path.parts) > 1 and (path.parts[0] in FOLDERS or os.path.isdir(path.parent))
    local = isinstance(source, Path) or path.is_absolute() or source.startswith((".", "~"))
    if local or begun or len(path.parts) > 2:
        said = shown(str(source), quoted=False)
        raise UserError(f"there is no {said}; {_nearby(path)}")


def _nearby(path: Path) -> str:
    """What is there, in the innermost folder on the way that exists."""
    home = next(one for one in path.parents if os.path.isdir(one))
    where = "the folder you are in" if home == Path() else str(home)
    try:
        names = sorted(one.name for one in home.iterdir() if not one.name.startswith("."))
    except OSError as error:
        return f"{where} cannot be read: {error.strerror}"
    # The first name on the way that is not there.
    wanted = path.parts[len(home.parts)]
    hint = suggestion(wanted, names)
    if hint.startswith("did you mean"):
        return f"in {where}, {hint}"
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{where} holds {', '.join(names[:MOST]) or 'nothing'}{more}"
