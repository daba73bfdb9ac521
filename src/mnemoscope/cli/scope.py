"""``mnemoscope scope``: open the live page."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from cyclopts import Parameter

from mnemoscope.cli.app import app
from mnemoscope.cli.options import examples
from mnemoscope.core.errors import UserError


@app.command(
    help_epilogue=examples(
        "mnemoscope scope",
        "mnemoscope scope runs/lag-quick --texts books",
        "mnemoscope scope --model models/small --port 8000 --no-open",
    ),
    default_parameter=Parameter(negative_iterable=()),
)
def scope(
    runs: Path = Path("runs"),
    /,
    *,
    model: list[str] | None = None,
    texts: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    open: bool = True,
) -> None:
    """Open the live page: studies and runs, and models watched while they read.

    Only this machine can reach it. With another --host the address ends with a token, and only
    those who know it are let in.

    Parameters
    ----------
    runs
        A folder of runs, studies, Hugging Face models and memories attached to them, or of folders
        of these.
    model
        One more model: a run, a Hugging Face folder, an attached memory, or a name on the hub.
    texts
        A folder of .txt, .md or .gz files to read from.
    host
        The address to listen at.
    port
        The port; 0 takes any that is free.
    open
        Show the page in the browser.
    """
    if not runs.is_dir() and not model:
        raise UserError(
            f"there is no folder {runs}: name one with runs, give --model, or train something"
        )
    if texts is not None and not texts.is_dir():
        raise UserError(f"there is no folder {texts}")
    for one in model or []:
        if (one.count("/") > 1 or Path(one).is_absolute()) and not Path(one).is_dir():
            raise UserError(f"there is no folder {one}")
    try:
        from mnemoscope.scope.serve import Page
    except ImportError as error:
        raise UserError(
            f"the live page needs {error.name}: pip install 'mnemoscope[scope]'"
        ) from error
    page = Page(runs, model or [], texts, host, port)
    sys.stdout.write(f"scope  {page.address}\nstop it with Ctrl-C\n")
    sys.stdout.flush()
    # Whether a stopped server returns or raises depends on where the signal finds it.
    with suppress(KeyboardInterrupt):
        page.answer(show=open)
    sys.stdout.write("\nclosed\n")
