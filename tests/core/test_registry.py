"""What a user can type is in the code under its own name, in `mnemoscope list` and in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

import mnemoscope
from mnemoscope.cli import main
from mnemoscope.core.registry import KINDS

CODE = Path(mnemoscope.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
NAMES = [(kind, name) for kind, table in KINDS.items() for name in table]


@pytest.mark.parametrize("folder", ["lens", "study"])
def test_a_name_is_a_file_or_a_folder(folder: str) -> None:
    home = CODE / {"lens": "lenses", "study": "studies"}[folder]
    found = {path.stem for path in home.iterdir()}
    assert set(KINDS[folder]) <= found


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_it_can_be_listed(kind: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["list", name])
    assert ended.value.code in (0, None)
    # As wide as the terminal is, a line may be folded anywhere.
    shown = "".join(capsys.readouterr().out.split())
    assert "".join(KINDS[kind][name].line.split()) in shown


def test_the_docs_have_every_name() -> None:
    told = "\n".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert [name for _, name in NAMES if name not in told] == []
