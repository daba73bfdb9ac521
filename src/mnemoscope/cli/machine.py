"""``mnemoscope doctor``."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from mnemoscope.cli.app import app
from mnemoscope.cli.options import Options, examples, pairs
from mnemoscope.core.errors import UserError


@app.command(
    help_epilogue=examples(
        "mnemoscope doctor",
        "mnemoscope doctor --device mps",
        "mnemoscope doctor --engine ray --address auto",
    ),
)
def doctor(
    *options: Options,
    device: str = "auto",
    engine: str | None = None,
    out: Path | None = None,
) -> None:
    """Check this machine: versions, threads, the device against the CPU, folders, pages.

    With an engine: check instead that it computes a tiny trial as this process does. Options of
    the engine follow by name: see "mnemoscope list engines".

    Parameters
    ----------
    device
        The device to compare with the CPU: auto, cpu, cuda or mps.
    engine
        Try this one: local, shared, ray or slurm.
    out
        A folder that all machines of the engine see, for the tiny trials; by default the working
        folder. What is made in it is deleted again.
    """
    given = pairs(options)
    if engine is None and (given or out is not None):
        first = next(iter(given), "out").replace("_", "-")
        raise UserError(f"--{first} is no option without an engine: name one with --engine")
    # An engine that does not exist is told before torch is imported.
    from mnemoscope.studies.engines.engine import named

    chosen = None if engine is None else named(engine, given)
    from mnemoscope.doctor import examine, try_engine

    console = Console()
    failed = 0
    checks = examine(device) if chosen is None else [try_engine(chosen, out or Path.cwd())]
    for check in checks:
        mark = "[green]ok  [/green]" if check.well else "[red]FAIL[/red]"
        console.print(f"{mark} [bold]{check.name:<10}[/bold] {escape(check.found)}", soft_wrap=True)
        failed += not check.well
    if failed:
        raise UserError(f"{failed} checks failed; the lines marked FAIL say what to do")
