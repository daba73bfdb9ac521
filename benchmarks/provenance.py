"""Where a row comes from: the processor, what torch makes of it, the versions and the commit."""

from __future__ import annotations

import datetime
import platform
import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks.measure import ROOT

UNKNOWN = "unknown"
PACKAGES = ("mnemoscope", "torch", "transformers")


@dataclass(frozen=True)
class Provenance:
    """What a reader needs to measure a row again, or to know why it came out otherwise."""

    processor: str
    instructions: str  # torch's kernels, and with them the ratios, depend on them
    threads: int
    versions: str
    date: str
    commit: str

    @classmethod
    def here(cls) -> Provenance:
        """This process, now."""
        return cls(
            processor=processor(),
            instructions=torch.backends.cpu.get_cpu_capability(),
            threads=torch.get_num_threads(),
            versions=_versions(),
            date=datetime.date.today().isoformat(),
            commit=commit(ROOT),
        )


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the processor; its architecture where nobody tells the name."""
    name = _named_by_linux(cpuinfo) if cpuinfo.exists() else ""
    if not name and platform.system() == "Darwin":
        name = _said("sysctl", "-n", "machdep.cpu.brand_string") or ""
    # Names come with runs of blanks, and a bar would end a cell of the table.
    name = " ".join((name or platform.processor() or platform.machine()).replace("|", " ").split())
    return name or UNKNOWN


def commit(root: Path) -> str:
    """The short hash of what is checked out in ``root``, "+changes" when files are not as in it.

    The results themselves do not count: the first section written would spoil all others.
    """
    top = _said("git", "-C", str(root), "rev-parse", "--show-toplevel")
    # Unpacked somewhere inside another repository, that one's commit would say nothing.
    if top is None or Path(top).resolve() != root.resolve():
        return UNKNOWN
    head = _said("git", "-C", str(root), "rev-parse", "--short", "HEAD")
    results = ":(exclude)benchmarks/RESULTS.md"
    changes = _said("git", "-C", str(root), "status", "--porcelain", "--", ".", results)
    if not head or changes is None:
        return UNKNOWN
    return f"{head}+changes" if changes else head


def _named_by_linux(cpuinfo: Path) -> str:
    # Line by line: the file grows with the cores, and the first one is like the others.
    with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if found := re.match(r"model name\s*:\s*(\S.*)", line):
                return found[1]
    return ""


def _said(*command: str) -> str | None:
    """What a program prints, None when it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _versions() -> str:
    known = [f"{package} {version(package)}" for package in PACKAGES]
    return ", ".join([f"Python {platform.python_version()}", *known])
