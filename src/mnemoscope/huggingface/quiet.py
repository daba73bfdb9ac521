"""Keep what `transformers` has to say of itself out of what we say."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from mnemoscope.core.errors import UserError


def require_transformers() -> None:
    """Raise `UserError` when the library is not there."""
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise UserError(
            "Hugging Face models need the extra: pip install 'mnemoscope[huggingface]'"
        ) from error


@contextmanager
def quiet(downloads: bool = False) -> Iterator[None]:
    """Silence bars, reports, logs and warnings of the library, then put back what was.

    With ``downloads``, what comes over a network still shows how far it is, on a terminal.
    """
    require_transformers()
    from huggingface_hub.utils import logging as hub
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )
    from transformers.utils import logging as own

    before = own.get_verbosity(), hub.get_verbosity()
    bars, hub_bars = own.is_progress_bar_enabled(), not are_progress_bars_disabled()
    own.set_verbosity(own.CRITICAL)
    hub.set_verbosity(own.CRITICAL)
    own.disable_progress_bar()  # of the hub as well
    if downloads and hub_bars and sys.stderr.isatty() and not os.environ.get("CI"):
        enable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        own.set_verbosity(before[0])
        hub.set_verbosity(before[1])
        if bars:
            own.enable_progress_bar()
        if hub_bars:
            enable_progress_bars()
        else:
            disable_progress_bars()
