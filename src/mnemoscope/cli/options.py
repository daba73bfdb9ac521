"""What all commands share: options that are given by name, and examples below the help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.core.aliases import renamed
from mnemoscope.core.errors import UserError, suggestion

if TYPE_CHECKING:
    from mnemoscope.core.config import Config

# ``--name value`` pairs that belong to a task, a model, a memory, a training or a study.
Options = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]

# Given on every command that builds or opens a model; the live page has none.
Trust = Annotated[
    list[str] | None,
    Parameter(
        negative=(),
        help=(
            "A module that memories and tasks named module:Name may be imported from, which runs "
            "its code; several are separated by commas."
        ),
    ),
]


def examples(*lines: str) -> str:
    """Lines that show how a command is typed, for the end of its help."""
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def pairs(tokens: Sequence[str]) -> dict[str, str]:
    """Read ``--lag 50 --width=64`` as options; hyphens in names are underscores in Python."""
    found: dict[str, str] = {}
    rest = iter(tokens)
    for token in rest:
        if not token.startswith("--"):
            raise UserError(f"unexpected {token!r}: options are given as --name value")
        name, equals, value = token[2:].partition("=")
        if not equals:
            value = next(rest, "--")
            if value.startswith("--"):
                raise UserError(f"option --{name} needs a value, for example --{name} 1")
        key = name.replace("-", "_")
        if key in found:
            raise UserError(f"option --{name} is given twice")
        found[key] = value
    return found


def within(name: str, value: int | None, least: int, most: int) -> None:
    """Refuse a number that is not from ``least`` to ``most``, by the name of its option."""
    if value is not None and not least <= value <= most:
        raise UserError(f"--{name} must be from {least} to {most}, not {value}")


def check_file(path: Path) -> None:
    """Refuse a path that is no file to be read, before anything else is done."""
    try:
        there = path.is_file()
    except (OSError, ValueError):  # too long a name, or a NUL in it
        there = False
    if not there:
        raise UserError(f"there is no file {str(path)[:200]}")


def configs(given: dict[str, str], *kinds: type[Config]) -> list[Any]:
    """Give every option to the config that has it, and make one of each kind."""
    known = {name for kind in kinds for name in kind.model_fields}
    given = renamed(known, given)
    for name in given:
        if name not in known:
            raise UserError(f"unknown option --{name}; {suggestion(name, known)}")
    return [
        kind.make(**{name: value for name, value in given.items() if name in kind.model_fields})
        for kind in kinds
    ]


def show_options(console: Console, name: str, line: str, kind: type[Config]) -> None:
    """Print what a named thing is, and its options."""
    console.print(f"[bold]{name}[/bold]: {escape(line)}")
    table = Table(box=None)
    for title in ("option", "type", "default", "meaning"):
        table.add_column(title, overflow="fold")
    for option, *facts in kind.options():
        if option != "memory":
            table.add_row(f"--{option.replace('_', '-')}", *(escape(fact) for fact in facts))
    console.print(table)
