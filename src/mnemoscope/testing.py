"""For the tests of other libraries: one line that asks a model for its promises about state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemoscope.api import check


def check_state(model: Any, *, only: Sequence[str] | None = None, **options: Any) -> None:
    """Raise `AssertionError`, with all verdicts in it, when a promise about state is broken.

    ``model`` and ``options`` are those of `mnemoscope.check`: a model of `transformers`, or any
    callable ``(tokens, state) -> (logits, state)`` with its ``vocab``.
    """
    result = check(model, only=only, **options)
    if result.kept:
        return
    shown = [cell.snippet for row in result.rows for cell in row.bad if cell.snippet]
    raise AssertionError("\n\n".join(["promises about state are broken", result.text(), *shown]))
