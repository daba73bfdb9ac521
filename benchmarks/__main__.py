"""The command line: ``python -m benchmarks [NAME] [--json] [--quick]``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence

from benchmarks import BENCHMARKS, ONE_THREAD
from mnemoscope.errors import suggestion


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark, or list them all; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("name", nargs="?", help="which benchmark to run; none = list them")
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
    if chosen.name not in BENCHMARKS:
        hint = suggestion(chosen.name, BENCHMARKS)
        print(f"unknown benchmark {chosen.name!r}; {hint}", file=sys.stderr)
        return 2
    _run(chosen.name, as_json=chosen.json, quick=chosen.quick)
    return 0


def _run(name: str, *, as_json: bool, quick: bool) -> None:
    # Not at the top: torch takes seconds to import, and a mistyped name should not wait for it.
    os.environ.update(ONE_THREAD)
    from rich.console import Console

    from benchmarks import measure, results

    benchmark = importlib.import_module(BENCHMARKS[name])
    with measure.one_thread():
        rows: list[measure.Row] = benchmark.run(quick)
    if as_json:
        print(json.dumps({row.key: round(row.ratio.median, 4) for row in rows}))
        return
    Console().print(results.table(benchmark.TITLE, rows))
    if not quick:
        section = results.section(name, benchmark.TITLE, benchmark.SETTING, rows)
        results.replace(results.PATH, name, section)


if __name__ == "__main__":
    sys.exit(main())
