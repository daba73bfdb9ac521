"""What a call has to say of a user's mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mnemoscope.core.errors import UserError


def complaint(call: Callable[[], Any]) -> str | None:
    """The message of a `UserError`, None when the call works; any other exception passes."""
    try:
        call()
    except UserError as error:
        return str(error)
    return None
