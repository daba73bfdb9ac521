"""A model that a page reads with, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mnemoscope.activations.streams.page_stream import PageStream
from mnemoscope.activations.streams.views.view import Json
from mnemoscope.scope.token_text import TokenText


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that a page reads with, and how text becomes what it reads.

    about   what the page is told; ``kind`` is stream, translator or encoder
    parse   text -> what the model reads
    say     output -> what the page writes for it
    start   a new stream, under the named document if there are documents
    limit   most tokens one stream can have, None when there is no end
    window  tokens of a window that no segment may cross, None when there are none
    """

    about: Json
    parse: Callable[[str], TokenText]
    say: Callable[[int], str]
    start: Callable[[str | None], PageStream]
    limit: int | None
    window: int | None = None


def about_model(name: str, label: str, model: Any, **more: Any) -> Json:
    """What a page is told of a model; ``more`` replaces what is usual."""
    return {
        "name": name,
        "label": label,
        "kind": "stream",
        "trained": True,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        # Whether tokens are symbols of a task, and how they are written.
        "symbols": None,
        "hint": None,
        "columns": None,
        "documents": [],
        "example": "",
        "segment": 32,
        **more,
    }
