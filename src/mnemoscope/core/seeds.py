"""One root seed, many named streams: what a number is for decides it, never when it is drawn."""

from __future__ import annotations

import hashlib


def derive(seed: int, *purpose: int | str) -> int:
    """Return a 63-bit seed that depends on the root seed and on every word of ``purpose``."""
    text = "/".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
