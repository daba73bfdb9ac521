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
from mnemoscope.core.registry import KINDS, find, options_of

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
        "mnemoscope list engines",
    ),
)
def list_names(name: str | None = None, /) -> None:
    """Show memories, translators, tasks, lenses and studies, or the options of one of them.

    Parameters
    ----------
    name
        A kind (memories, translators, tasks, lenses, studies), a name from the list, "training" or
        "engines".
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
        if kind == "study":
            _show_presets(console, meant[kind])
    if known_as:
        return None
    if name == "training":
        from mnemoscope.training.config import Training

        return show_options(console, name, "how any model is trained", Training)
    if name == "engines":
        from mnemoscope.studies.engines.engine import ENGINES, kind_of

        for one in ENGINES:
            kind_of_engine = kind_of(one)
            line = (kind_of_engine.__doc__ or "").partition("\n")[0]
            show_options(console, f"--engine {one}", line, kind_of_engine)
        return None
    # A study may have the name of its task, which is to be named once.
    known = {*PLURALS, "training", "engines", *itertools.chain(*KINDS.values())}
    raise UserError(f"unknown name {name!r}; {suggestion(name, known)}")


def _show_presets(console: Console, name: str) -> None:
    """What each preset of a study changes, and what it took where that was measured."""
    from mnemoscope import shipped
    from mnemoscope.publish import typed

    made = shipped.load(name).made if name in shipped.shipped() else None
    spent = None if made is None else made.cpu_seconds
    table = Table("preset", "cost", "changes", box=None)
    for preset, changes in find("study", name).presets.items():
        cost = "not measured"
        if made is not None and spent is not None and f"--preset {preset}" in made.command:
            cost = f"{max(1, round(spent / 60))} CPU minutes"
        said = " ".join(f"--{key.replace('_', '-')} {typed(v)}" for key, v in changes.items())
        table.add_row(f"[bold]{preset}", cost, escape(said or "nothing: all as above"))
    console.print("", table)
    if made is not None and spent is not None:
        console.print(f"Measured: {escape(made.command)}", soft_wrap=True)


def _plural(kind: str) -> str:
    return next(plural for plural, one in PLURALS.items() if one == kind)
