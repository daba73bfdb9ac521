"""The reference of the guide is what the docstrings say now, and leaves out nothing public."""

from __future__ import annotations

import runpy
from pathlib import Path

import mnemoscope as ms
from mnemoscope.core.registry import KINDS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_what_the_docstrings_say() -> None:
    written = runpy.run_path(str(DOCS / "write_reference.py"))["reference"]()
    assert (DOCS / "reference.md").read_text() == written, "run make reference"


def test_all_that_is_public_is_in_the_reference_and_nothing_private() -> None:
    lines = (DOCS / "reference.md").read_text().splitlines()
    assert [line[4:] for line in lines if line.startswith("### ms.")] == [
        f"ms.{name}" for name in ms.__all__
    ]
    for table in KINDS.values():
        for name in table:
            assert any(line.startswith(f"| `{name}` |") for line in lines), name
    assert not any("._" in line or ", _" in line for line in lines)
