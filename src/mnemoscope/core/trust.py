"""Code that is not ours is imported only when the caller names its module, never for a file alone.

A name such as ``my_package.memories:Fading`` runs all of that module. It may come from a run
folder that somebody sent, so who calls has to say that the module is trusted: ``--trust`` on the
command line, ``trust=`` in Python. The live page has neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mnemoscope.core.errors import UserError

# One module, modules parted by commas, or several of either.
Modules = str | Iterable[str] | None

_TRUSTED: ContextVar[frozenset[str]] = ContextVar("trusted modules", default=frozenset())


class UntrustedError(UserError):
    """A name leads to a module that nobody has said to trust."""


@contextmanager
def trusting(modules: Modules) -> Iterator[None]:
    """Inside, names of these modules may be imported, besides those trusted already."""
    before = _TRUSTED.set(_TRUSTED.get() | frozenset(_names(modules)))
    try:
        yield
    finally:
        _TRUSTED.reset(before)


def trusted() -> tuple[str, ...]:
    """The modules trusted here; a process started from here has to be told of them."""
    return tuple(sorted(_TRUSTED.get()))


def check_trusted(name: str, module: str) -> None:
    """Raise `UntrustedError` unless exactly this module is trusted."""
    if module not in _TRUSTED.get():
        raise UntrustedError(
            f"{name!r} is not in the registry: it would import the module {module!r} and "
            f"run all that is in it. If you trust that, say so: --trust {module}, in Python "
            f"trust={module!r}"
        )


def _names(modules: Modules) -> list[str]:
    given = [modules] if isinstance(modules, str) else list(modules or ())
    names = [one.strip() for some in given for one in some.split(",")]
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UserError(
                f"{name!r} is no name of a module to trust: give what stands before the colon, "
                "for example my_package.memories"
            )
    return names
