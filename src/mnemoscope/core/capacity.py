"""What this machine has room for: asked before anything large is made. Imports no torch."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mnemoscope.core.errors import UserError

# Set to anything but 0, it lets everything pass.
OVERSIZE = "MNEMOSCOPE_OVERSIZE"
# What a container may use, in the two versions of Linux's control groups.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def machine_bytes() -> int | None:
    """Bytes of memory that the machine, or the container, has; None when nobody can say."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
    return min((size for size in found if size > 0), default=None)


def require(needed: int, what: str) -> None:
    """Raise `UserError` when ``what`` needs more bytes than there are."""
    have = machine_bytes()
    if have is None or needed <= have or os.environ.get(OVERSIZE, "0") != "0":
        return
    raise UserError(
        f"{what} needs about {told_bytes(needed)} of memory, this machine has {told_bytes(have)}: "
        f"make it smaller, or set {OVERSIZE}=1 to try all the same"
    )


def told_bytes(size: int) -> str:
    """A number of bytes as a person would say it: ``24 GB``."""
    power = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
    count = size / 1000**power
    return f"{count:.{3 if 100 <= count < 1000 else 2}g} {_UNITS[power]}"
