"""Time several ways to do one thing so that a busy machine disturbs all of them alike.

They take turns (A, B, A, B …), and every round gives one ratio; the median over rounds is the
figure, the middle half of the rounds its spread. Time is process CPU time on one thread.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import ONE_THREAD
from mnemoscope.core.statistics import Interval

ROOT = Path(__file__).parents[1]
Times = dict[str, list[float]]


@dataclass(frozen=True)
class Row:
    """One comparison: its key in the JSON, what it says, and how it came out.

    ``ratio`` is the median over rounds, and the quartiles between which half of them lie.
    """

    key: str
    what: str
    ours: str
    theirs: str
    ratio: Interval
    goal: str = ""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread, then put back what was."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def interleave(ways: Mapping[str, Callable[[], object]], rounds: int) -> Times:
    """CPU seconds of each way in each round, after one round that warms up and does not count."""
    times: Times = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            start = time.process_time()
            work()
            spent = time.process_time() - start
            if number > 0:
                times[name].append(spent)
    return times


def peak_memory() -> int:
    """Kilobytes of this process at its peak.

    Linux starts a child's `ru_maxrss` from its parent's size, so a small child of a large parent
    would seem to need nothing; what `/proc` says begins anew with every program.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_child(code: str, *arguments: str) -> str:
    """Return what a fresh Python prints that does nothing else."""
    # Where it starts is where it finds `benchmarks`.
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a process of its own failed:\n{done.stderr}")
    return done.stdout


def ratio(over: list[float], under: list[float]) -> Interval:
    """Compare two ways round by round."""
    rounds = [a / b for a, b in zip(over, under, strict=True)]
    low, median, high = statistics.quantiles(rounds, n=4, method="inclusive")
    return Interval(median, low, high)


def compared(
    key: str,
    what: str,
    times: Times,
    ours: str = "ours",
    theirs: str = "theirs",
    *,
    goal: str = "",
    tokens: int = 0,
    slower: bool = False,
) -> Row:
    """A row on two ways: how many times as fast ours is, or ``slower``, how many times as long.

    With ``tokens`` a round, rates are shown instead of times.
    """

    def shown(name: str) -> str:
        return tokens_per_second(times[name], tokens) if tokens else milliseconds(times[name])

    over, under = (ours, theirs) if slower else (theirs, ours)
    return Row(key, what, shown(ours), shown(theirs), ratio(times[over], times[under]), goal)


def milliseconds(times: list[float]) -> str:
    """The median as text, for a table."""
    return f"{1e3 * statistics.median(times):.0f} ms"


def tokens_per_second(times: list[float], tokens: int) -> str:
    """The rate at the median time as text, for a table."""
    return f"{tokens / statistics.median(times):,.0f} tokens/s"
