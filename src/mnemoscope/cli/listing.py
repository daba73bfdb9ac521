"""``mnemoscope list``: what there is, and the options of one of them."""

from __future__ import annotations

import itertools
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.app import app
from mnemoscope.cli.options import examples
from mnemoscope.core.aliases import canonical
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import KINDS, find

PLURALS = {
    "memories": "memory",
    "translators": "translator",
    "encoders": "encoder",
    "tasks": "task",
    "lenses": "lens",
    "studies": "study",
}


@app.command(
    name="list",
    help_epilogue=examples(
        "mnemoscope list",
        "mnemoscope list memories",
        "mnemoscope list lstm",
        "mnemoscope list training",
    ),
)
def list_names(name: str | None = None, /) -> None:
    """Show memories, translators, tasks, lenses and studies, or the options of one of them.

    Parameters
    ----------
    name
        A kind (memories, translators, tasks, lenses, studies), a name from the list, or "training".
    """
    console = Console()
    kinds = [PLURALS[name]] if name in PLURALS else list(KINDS)
    if name is None or name in PLURALS:
        for kind in kinds:
            table = Table(title=_plural(kind), title_justify="left", box=None, show_header=False)
            for key, entry in KINDS[kind].items():
                table.add_row(f"[bold]{key}", escape(entry.line))
            console.print(table, "")
        console.print("Options of one of them: [bold]mnemoscope list NAME")
        return None
    meant = {kind: canonical(kind, name) for kind in KINDS}
    known_as = [kind for kind in KINDS if kind != "lens" and meant[kind] in KINDS[kind]]
    for kind in known_as:  # a study may have the name of its task
        name = meant[kind]
        twice = len(known_as) > 1 or name in KINDS["lens"]
        shown = f"{kind} {name}" if twice else name
        _show_options(console, shown, KINDS[kind][name].line, find(kind, name))
    name = meant["lens"]
    if name in KINDS["lens"]:
        _show_lens(console, name, f"lens {name}" if known_as else name)
    if known_as or name in KINDS["lens"]:
        return None
    if name == "training":
        from mnemoscope.training.config import Training

        return _show_options(console, name, "how any model is trained", Training)
    known = [*PLURALS, "training", *itertools.chain(*KINDS.values())]
    raise UserError(f"unknown name {name!r}; {suggestion(name, known)}")


def _plural(kind: str) -> str:
    return next(plural for plural, one in PLURALS.items() if one == kind)


def _show_lens(console: Console, name: str, shown: str) -> None:
    line = KINDS["lens"][name].line
    if name != "retention":
        console.print(f"[bold]{shown}[/bold]: {escape(line)}")
        return
    from mnemoscope.lenses.retention.episodes import RetentionOptions

    _show_options(console, shown, line, RetentionOptions)


def _show_options(console: Console, name: str, line: str, kind: Any) -> None:
    console.print(f"[bold]{name}[/bold]: {escape(line)}")
    table = Table(box=None)
    for title in ("option", "type", "default", "meaning"):
        table.add_column(title, overflow="fold")
    for option, *facts in kind.options():
        if option != "memory":
            table.add_row(f"--{option.replace('_', '-')}", *(escape(fact) for fact in facts))
    console.print(table)
