"""Run a command in this process."""

from __future__ import annotations

import re

import pytest

from mnemoscope.cli import main


def ended(*words: str) -> int:
    """Its exit code."""
    try:
        main(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What was said on standard error, white space folded; the exit code is 2."""
    assert ended(*words) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return re.sub(r"\s+", " ", said)
