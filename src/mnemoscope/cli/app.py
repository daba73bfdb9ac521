"""The application that all commands belong to."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

from cyclopts import App, ArgumentCollection

from mnemoscope import __version__
from mnemoscope.core.errors import UserError, shown

# What systems allow, in bytes: of a path, and of each name in it.
_LONGEST_PATH, _LONGEST_NAME = 4096, 255


def refuse_nonsense(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse values that no option can mean, before any of them is used: ``""``, ``nan``, NUL."""
    for argument in arguments:
        kinds = {argument.hint, *get_args(argument.hint)}
        for token in argument.tokens:
            problem = _problem(token.value, kinds)
            if problem:
                raise UserError(f"{argument.name}: {shown(token.value)} {problem}")


def _problem(value: str, kinds: set[Any]) -> str | None:
    if "\0" in value:
        return "holds a NUL character"
    if Path in kinds:
        if not value.strip():
            return "is empty: name a file or folder"
        size = len(value.encode(errors="surrogateescape"))
        names = (part.encode(errors="surrogateescape") for part in Path(value).parts)
        if size > _LONGEST_PATH or any(len(name) > _LONGEST_NAME for name in names):
            return "is longer than the name of a file can be"
    try:
        if float in kinds and not math.isfinite(float(value)):
            return "is not a finite number"
        if int in kinds and float(value) % 1:
            return "is not a whole number"
        if int in kinds and not -(2**64) < int(value) < 2**64:
            return "is out of range: at most 2**64 - 1"
    except (ValueError, OverflowError):  # not a number at all, which the command says better
        return None
    return None


app = App(
    name="mnemoscope",
    version=__version__,
    help_format="plaintext",
    # Ctrl-C is for `mnemoscope.cli.main`, which says what has become of the work.
    suppress_keyboard_interrupt=False,
    help="Build memory into sequence models, and see what they remember.",
    help_epilogue=(
        "Start with: mnemoscope study retention  ·  What there is: mnemoscope list  ·  "
        "Is all well here: mnemoscope doctor"
    ),
    config=refuse_nonsense,
)
