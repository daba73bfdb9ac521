"""Which process is it, and is it certainly gone? For claims that are left behind by a kill."""

from __future__ import annotations

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

# What tells two running systems apart that have the same host name, and two containers on one.
_IDENTITIES = ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")


@cache
def machine() -> str:
    """A digest of what process numbers are unique in: this host, since it was started."""
    facts = [socket.gethostname()]
    for name in _IDENTITIES:
        path = Path(name)
        try:
            facts.append(os.readlink(path) if path.is_symlink() else path.read_text())
        except OSError:  # not Linux: the name of the host has to do
            facts.append("")
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()


def gone(where: str, process: int) -> bool:
    """Whether a process has certainly ended; of another machine nobody can say.

    A number that was given to another process since looks alive.
    """
    if where != machine() or os.name != "posix" or process < 1:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is somebody else's
        return False
    try:
        # Dead, but nobody has asked for its exit code yet.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return False
