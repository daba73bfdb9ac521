"""Results that come with the package."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from complaints import complaint

from mnemoscope import shipped
from mnemoscope.cli import main
from mnemoscope.core.data import to_plain


@pytest.mark.parametrize("name", shipped.shipped())
def test_a_shipped_result_says_how_it_was_made_and_names_no_machine(name: str) -> None:
    found = shipped.load(name)
    assert found.made.command.startswith(f"mnemoscope {found.kind} {found.name}")
    assert found.made.cpu_seconds
    assert "torch" in found.made.versions
    said = json.dumps(to_plain(found))
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users|usr|opt)/", said)


def run(*words: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 0


def test_a_shipped_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("show", "lag", "--no-open", "--out", str(tmp_path))
    assert str(tmp_path / "report.html") in capsys.readouterr().out.replace("\n", "")
    page = (tmp_path / "report.html").read_text()
    assert "Shipped with mnemoscope, made on" in page
    assert "mnemoscope study lag --preset quick" in page
    assert (tmp_path / "figures" / "recall-against-wait.csv").stat().st_size > 0


def test_all_results_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run("show")
    said = capsys.readouterr().out
    assert all(name in said for name in shipped.shipped())


def test_a_result_goes_through_its_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "lag"
    before = shipped.load(name)
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps({"version": 1, **to_plain(before)}))
    monkeypatch.setattr(shipped, "home", lambda: tmp_path / "results")
    monkeypatch.setattr(shipped, "PACKED_ABOVE", 0)
    path = shipped.ship(folder, name)
    assert path.name == "result.json.gz"
    assert shipped.load(name) == before


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"version": 1, "name": "zz"}']
)
def test_what_is_no_result_is_explained(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(content)
    assert "result.json" in str(complaint(lambda: shipped.show(str(tmp_path))))
    (tmp_path / "result.json.gz").write_bytes(gzip.compress(content)[:-3])
    assert "result.json.gz" in str(complaint(lambda: shipped.read(tmp_path / "result.json.gz")))


def test_an_unknown_result_brings_the_nearest() -> None:
    assert "did you mean 'lag'" in str(complaint(lambda: shipped.show("lagg")))
