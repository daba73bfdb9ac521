"""What can be seen: a folder for each lens. ``lenses.Information`` and the like are its classes."""

from __future__ import annotations

from typing import Any

from mnemoscope.core.registry import LENSES, find, parts_of

_NAMES = {parts_of(entry.path)[1]: name for name, entry in LENSES.items()}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'mnemoscope.lenses' has no attribute {name!r}")
    return find("lens", _NAMES[name])


def __dir__() -> list[str]:
    return __all__
