"""The command line: ``python -m benchmarks [NAME | all] [--json] [--quick]``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import BENCHMARKS, ONE_THREAD
from mnemoscope.core.errors import suggestion


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark or all of them, or list them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("name", nargs="?", help="which benchmark to run, or all; none = list them")
    parser.add_argument(
        "--json", action="store_true", help="print the ratios as JSON, leave RESULTS.md alone"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small and rough: a try, never written to RESULTS.md"
    )
    chosen = parser.parse_args(arguments)
    if chosen.name is None:
        print("\n".join(BENCHMARKS))
        return 0
    if chosen.name == "all":
        return run_all(BENCHMARKS, as_json=chosen.json, quick=chosen.quick)
    if chosen.name not in BENCHMARKS:
        hint = suggestion(chosen.name, [*BENCHMARKS, "all"])
        print(f"unknown benchmark {chosen.name!r}; {hint}", file=sys.stderr)
        return 2
    _run(chosen.name, as_json=chosen.json, quick=chosen.quick)
    return 0


def run_all(names: Iterable[str], *, as_json: bool, quick: bool) -> int:
    """Run one after the other, each in a fresh process; one that fails does not stop the rest."""
    flags = [*(["--json"] if as_json else []), *(["--quick"] if quick else [])]
    ratios: dict[str, float] = {}
    failed = []
    for name in names:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", name, *flags],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE if as_json else None,
            text=True,
        )
        if done.returncode:
            failed.append(name)
        elif as_json:
            ratios.update(json.loads(done.stdout))
    if as_json:
        print(json.dumps(ratios))
    if failed:
        print(f"failed, and left as they were: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str, *, as_json: bool, quick: bool) -> None:
    # Not at the top: torch takes seconds to import, and a mistyped name should not wait for it.
    os.environ.update(ONE_THREAD)
    from rich.console import Console

    from benchmarks import measure, results
    from benchmarks.provenance import Provenance

    benchmark = importlib.import_module(BENCHMARKS[name])
    with measure.one_thread():
        origin = Provenance.here()  # before it runs: files may change while it does
        rows: list[measure.Row] = benchmark.run(quick)
    if as_json:
        print(json.dumps({row.key: round(row.ratio.value, 4) for row in rows}))
        return
    clock = getattr(benchmark, "CLOCK", results.CPU)
    Console().print(results.table(benchmark.TITLE, rows, clock))
    if not quick:
        section = results.section(name, benchmark.TITLE, benchmark.SETTING, rows, origin, clock)
        results.replace(results.PATH, name, section)


if __name__ == "__main__":
    sys.exit(main())
