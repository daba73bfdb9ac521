"""The application that all commands belong to."""

from __future__ import annotations

from cyclopts import App

from mnemoscope import __version__

app = App(
    name="mnemoscope",
    version=__version__,
    help_format="plaintext",
    # Whoever presses Ctrl-C is told what is kept and how to go on, see `main`.
    suppress_keyboard_interrupt=False,
    help="Build memory into sequence models, and see what they remember.",
    help_epilogue=(
        "Start with: mnemoscope study retention  ·  What there is: mnemoscope list  ·  "
        "Is all well here: mnemoscope doctor"
    ),
)
