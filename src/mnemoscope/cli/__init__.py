"""The command ``mnemoscope``: one file for each kind of thing it does.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from functools import partial

from rich.console import Console
from rich.markup import escape

from mnemoscope.cli import lens, listing, machine, runs, scope, translation  # noqa: F401
from mnemoscope.cli.app import app
from mnemoscope.cli.documents import documents
from mnemoscope.cli.past import past
from mnemoscope.errors import InterruptedRunError, UserError

app.command(documents)
app.command(past)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake gives one message and exit code 2, no traceback."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    # Where the user stands, after all that is installed: a memory in a file of their own.
    sys.path.append(os.getcwd())
    complain = partial(Console(stderr=True, emoji=False).print, soft_wrap=True)
    try:
        app(arguments)
    except InterruptedRunError as error:
        complain(escape(str(error)))
        sys.exit(130)
    except UserError as error:
        complain(f"[bold red]error:[/bold red] {escape(str(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        complain("stopped; what was done is kept, and the same command goes on with it")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone, as in ``mnemoscope list | head``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
