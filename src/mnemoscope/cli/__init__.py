"""The command ``mnemoscope``: one file for each kind of thing it does.

Nothing is imported here before `main` runs, so that Ctrl-C is understood from the first moment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

STOPPED = "stopped; what was done is kept, and the same command continues it"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake gives one message and exit code 2, no traceback."""
    try:
        _run(arguments)
    except KeyboardInterrupt:
        _stop(STOPPED)
    except BrokenPipeError:
        # The reader of our output has gone, as in ``mnemoscope list | head``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        # A library that is interrupted while it is imported may say that it cannot be.
        if not _interrupted(error):
            raise
        _stop(STOPPED)


def _run(arguments: Sequence[str] | None) -> None:
    import logging

    from mnemoscope.cli.commands import app
    from mnemoscope.core.errors import InterruptedRunError, UserError

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    # How much a lens is about to read is said before it begins.
    logging.getLogger("mnemoscope.lenses.inputs").setLevel(logging.INFO)
    # What a model of transformers has to say while it runs is not what was asked for.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    try:
        app(arguments)
    except InterruptedRunError as error:
        _stop(str(error))
    except UserError as error:
        if _interrupted(error):
            _stop(STOPPED)
        from rich.console import Console
        from rich.markup import escape

        said = f"[bold red]error:[/bold red] {escape(str(error))}"
        Console(stderr=True, emoji=False).print(said, soft_wrap=True)
        sys.exit(2)


def _stop(said: str) -> None:
    """End as after Ctrl-C. Of the processes that torchrun started, one speaks."""
    # Pressed again, it must not interrupt the last line.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.environ.get("RANK", "0") == "0":
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()
    sys.exit(130)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
