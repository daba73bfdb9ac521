"""Build memory into sequence models, and see what they remember.

Names are fetched when they are first used, so that ``import mnemoscope`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mnemoscope import lenses as lenses
    from mnemoscope.activations.capture import capture as capture
    from mnemoscope.api import Published as Published
    from mnemoscope.api import attach as attach
    from mnemoscope.api import build as build
    from mnemoscope.api import check as check
    from mnemoscope.api import generate as generate
    from mnemoscope.api import lens as lens
    from mnemoscope.api import load as load
    from mnemoscope.api import resume as resume
    from mnemoscope.api import show as show
    from mnemoscope.api import stream as stream
    from mnemoscope.api import study as study
    from mnemoscope.api import train as train
    from mnemoscope.api import translator as translator
    from mnemoscope.core.errors import UserError as UserError
    from mnemoscope.memories.state import State as State
    from mnemoscope.models.generation import unroll as unroll

__version__ = "0.2.0.dev0"

# The whole public surface: a name, and the module it lives in.
_API = "Published attach build check generate lens load resume show stream study train translator"
_HOME = dict.fromkeys(_API.split(), "mnemoscope.api") | {
    "lenses": "mnemoscope.lenses",
    "UserError": "mnemoscope.core.errors",
    "capture": "mnemoscope.activations.capture",
    "State": "mnemoscope.memories.state",
    "unroll": "mnemoscope.models.generation",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mnemoscope' has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    return home if home.__name__ == f"mnemoscope.{name}" else getattr(home, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
