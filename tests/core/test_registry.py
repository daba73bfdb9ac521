"""What a user can type is in the code under its own name, in `mnemoscope list` and in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnemoscope.cli import main
from mnemoscope.core.registry import ATTACHED, KINDS, LENSES, STUDIES, load
from mnemoscope.core.stored import STATES

DOCS = Path(__file__).parents[2] / "docs"
HOMES = {
    "memory": "mnemoscope.memories",
    "translator": "mnemoscope.models.seq2seq",
    "encoder": "mnemoscope.models",
    "task": "mnemoscope.data",
    "lens": "mnemoscope.lenses",
    "study": "mnemoscope.studies",
}
NAMES = [(kind, name) for kind, table in KINDS.items() for name in table]


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints, without spaces: a narrow terminal may fold a line anywhere."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code in (0, None)
    return "".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_name_is_a_file_or_a_folder(kind: str, name: str) -> None:
    module = KINDS[kind][name].path.partition(":")[0]
    assert f"{module}.".startswith(f"{HOMES[kind]}.{name}.")
    assert load(KINDS[kind][name].path).__module__ == module


@pytest.mark.parametrize("path", [*(one.path for one in ATTACHED.values()), *STATES.values()])
def test_what_is_attached_or_stored_stands_where_the_registry_says(path: str) -> None:
    assert load(path).__module__ == path.partition(":")[0]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_name_can_be_listed(kind: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = "".join(KINDS[kind][name].line.split())
    assert line in said(["list", name], capsys)


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "".join(LENSES[name].line.split()) in said(["lens", name, "--help"], capsys)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--preset" in said(["study", name, "--help"], capsys)


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_the_docs_have_a_name(kind: str, name: str) -> None:
    """As code, in a heading or in a command; the reference and the log do not explain it."""
    said = rf"`{name}`|\"{name}\"|^#.*\b{name}\b|mnemoscope (lens|study|list) {name}\b"
    pages = [page for page in DOCS.rglob("*.md") if page.stem not in ("reference", "log")]
    assert any(re.search(said, page.read_text(), re.MULTILINE) for page in pages)
