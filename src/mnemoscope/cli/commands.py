"""Every command, gathered; importing this file is what makes them known to the application.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

from mnemoscope.cli import (  # noqa: F401
    chat,
    check,
    example,
    lens,
    listing,
    machine,
    runs,
    scope,
    show,
    translation,
)
from mnemoscope.cli.app import app
from mnemoscope.cli.documents import documents
from mnemoscope.cli.infinite import infinite

app.command(documents)
app.command(infinite)

__all__ = ["app"]
