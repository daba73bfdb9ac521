"""``mnemoscope list``: what there is, and the options of one of them."""

from __future__ import annotations

import itertools

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.app import app
from mnemoscope.cli.options import examples, show_options
from mnemoscope.core.aliases import canonical
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import KINDS, options_of

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
    known_as = [kind for kind in KINDS if meant[kind] in KINDS[kind]]
    for kind in known_as:  # a study may have the name of its task
        shown = f"{kind} {meant[kind]}" if len(known_as) > 1 else meant[kind]
        line = KINDS[kind][meant[kind]].line
        show_options(console, shown, line, options_of(kind, meant[kind]))
    if known_as:
        return None
    if name == "training":
        from mnemoscope.training.config import Training

        return show_options(console, name, "how any model is trained", Training)
    known = [*PLURALS, "training", *itertools.chain(*KINDS.values())]
    raise UserError(f"unknown name {name!r}; {suggestion(name, known)}")


def _plural(kind: str) -> str:
    return next(plural for plural, one in PLURALS.items() if one == kind)
