"""Results that come with the package."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from complaints import complaint

import mnemoscope as ms
from mnemoscope import shipped
from mnemoscope.checks.result import VERDICTS
from mnemoscope.cli import main
from mnemoscope.core.data import to_plain
from mnemoscope.studies import results

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", shipped.shipped())
def test_a_shipped_result_says_how_it_was_made_and_names_no_machine(name: str) -> None:
    found = shipped.load(name)
    name = "--all" if found.kind == "check" else found.name
    typed, called = f"mnemoscope {found.kind} {name}", f"\nms.{found.kind}({name!r}, "
    assert found.made.command.startswith(typed) or called in found.made.command
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
    assert "after how long do RNN, LSTM, GRU" in said  # what it asks, not how it was made
    assert "which promises about state are kept?" in said


def test_a_result_goes_through_its_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "lag"
    before = shipped.load(name)
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps({"version": 1, **to_plain(before)}))
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(results, "PACKAGE", tmp_path)
    monkeypatch.setattr(shipped, "PACKED_ABOVE", 0)
    path = shipped.ship(folder, name)
    assert path.name == "result.json.gz"
    assert shipped.load(name) == before


def test_the_result_of_a_lens_is_shipped_and_drawn_like_that_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = ms.build("gru", vocab=20, width=8), tmp_path / "seen"
    ms.lens("horizon", model, out=folder, window=4, windows=3, rows=200)
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(results, "PACKAGE", tmp_path)
    shipped.ship(folder, "lens-horizon")
    found = shipped.load("lens-horizon")
    assert (found.kind, found.name, found.models) == ("lens", "horizon", ("gru",))
    assert found.made.cpu_seconds
    assert "--out" not in found.made.command
    assert (
        "Shipped with mnemoscope"
        in shipped.show("lens-horizon", tmp_path / "page").page.read_text()
    )


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


def test_the_name_of_a_study_alone_opens_what_is_there_and_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    ms.study("lag").open()
    assert "lag: the result that comes with mnemoscope; " in capsys.readouterr().err
    assert "Shipped with mnemoscope" in Path("runs/shipped-lag/report.html").read_text()
    # Of the user's own finished results the newest is taken; what is no result is passed over.
    before = shipped.load("lag")
    for name, day in (("a", 1), ("b", 3), ("c", 2)):
        own = replace(before, made=replace(before.made, date=before.made.date.replace(day=day)))
        (tmp_path / "runs" / name).mkdir()
        whole = {"version": 1, **to_plain(own)}
        (tmp_path / "runs" / name / "result.json").write_text(json.dumps(whole))
    for name, content in (("broken", "{"), ("other", "{}")):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "result.json").write_text(content)
    found = ms.study("lag")
    assert "lag: your result in runs/b, made on " in capsys.readouterr().err
    assert found.page == Path("runs/b/report.html")
    assert "Shipped with mnemoscope" not in found.page.read_text()
    assert found.result == before.result
    assert [Path(one).parent.name for one in opened] == ["shipped-lag"]
    assert not list(tmp_path.glob("runs/*/runs"))


def test_the_guide_has_the_counts_of_the_shipped_check() -> None:
    result, page = shipped.load("check").result, (ROOT / "docs" / "check.md").read_text()
    for name in result.promises:
        counts = result.counts(name)
        cells = (str(counts[verdict]) for verdict in VERDICTS)
        assert f"| {name} | {' | '.join(cells)} |" in page
    said = " ".join(page.split())
    assert f"{len(result.built)} of {len(result.rows)} families are built" in said
    for row in result.built:
        assert not row.bad or f"`{row.name}`" in page, row.name
