"""``mnemoscope doctor``."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from mnemoscope.cli.app import app
from mnemoscope.cli.options import examples
from mnemoscope.core.errors import UserError


@app.command(
    help_epilogue=examples(
        "mnemoscope doctor",
        "mnemoscope doctor --device mps",
    ),
)
def doctor(*, device: str = "auto") -> None:
    """Check this machine: versions, threads, the device against the CPU, folders, pages.

    Parameters
    ----------
    device
        The device to compare with the CPU: auto, cpu, cuda or mps.
    """
    from mnemoscope.doctor import examine

    console = Console()
    failed = 0
    for check in examine(device):
        mark = "[green]ok  [/green]" if check.well else "[red]FAIL[/red]"
        console.print(f"{mark} [bold]{check.name:<10}[/bold] {escape(check.found)}", soft_wrap=True)
        failed += not check.well
    if failed:
        raise UserError(f"{failed} checks failed; the lines marked FAIL say what to do")
