"""``mnemoscope show``: open a page that is already known, without training anything."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.app import app
from mnemoscope.cli.options import examples


@app.command(
    help_epilogue=examples(
        "mnemoscope show",
        "mnemoscope show retention",
        "mnemoscope show runs/lag-quick --no-open",
    ),
)
def show(name: str | None = None, /, *, out: Path | None = None, open: bool = True) -> None:
    """Draw the page of a result that comes with the package, or of a study's or lens's folder.

    Parameters
    ----------
    name
        A result, or the folder of a study or lens; without one, all results are listed.
    out
        Folder for the page; by default runs/shipped-NAME, or the folder itself.
    open
        Show it in a browser.
    """
    from mnemoscope import shipped
    from mnemoscope.scope.shipped_pages import question

    console = Console()
    if name is None:
        table = Table("result", "question", "CPU minutes", box=None)
        for one in shipped.shipped():
            found = shipped.load(one)
            spent = found.made.cpu_seconds
            minutes = "" if spent is None else f"{max(1, round(spent / 60))}"
            table.add_row(one, escape(question(found.kind, found.name)), minutes)
        console.print(table, "", "The page of one of them: [bold]mnemoscope show NAME")
        return
    shown = shipped.show(name, out)
    console.print(f"[bold]page[/bold]  {escape(str(shown.page.absolute()))}", soft_wrap=True)
    if open:
        shown.open()
