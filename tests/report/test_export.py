from __future__ import annotations

import csv
import re
import shutil
import struct
import sys

import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.plots import figure
from mnemoscope.report import write_data, write_images
from mnemoscope.report.document import Cell, Figure, Report, Reproduce, Section, Table


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_data_comes_back_as_it_was(tmp_path):
    rows: list[dict[str, Cell]] = [
        {"x": 0.1 + 0.2, "word": 'a "quoted",\nbroken ∞ line'},
        {"x": 1e-300, "word": None},
    ]
    drawn = figure.lines([figure.Series("a", [1, 2], [1, 2])], "x", "y")
    parts: list[str | Figure | Table] = [
        Figure("Fig", drawn, "", rows),
        Table("Tab", ["n", "<s>"], [[2**60, "</s>"]], ""),
    ]
    report = Report("t", "q", [Section("s", parts)], Reproduce.here("run", "", 1, 1))
    paths = write_data(report, tmp_path)
    assert paths == [tmp_path / "figures" / "fig.csv", tmp_path / "figures" / "tab.csv"]
    head, first, second = read(paths[0])
    assert head == ["x", "word"]
    assert (float(first[0]), first[1]) == (rows[0]["x"], rows[0]["word"])
    assert (float(second[0]), second[1]) == (1e-300, "")
    assert read(paths[1]) == [["n", "<s>"], [str(2**60), "</s>"]]


def test_hostile_names_stay_in_the_folder(evil_report, tmp_path):
    for path in write_data(evil_report, tmp_path):
        assert path.resolve().parent == tmp_path / "figures"


def test_unwritable_folder_is_explained(report, tmp_path):
    (tmp_path / "figures").write_text("a file where the folder should be")
    with pytest.raises(UserError, match="cannot write"):
        write_data(report, tmp_path)


def test_unknown_format_is_explained(report, tmp_path):
    with pytest.raises(UserError, match="unknown image format 'bmp'"):
        write_images(report, tmp_path, ["bmp"])


def test_missing_kaleido_says_what_to_install(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(UserError, match=r"pip install 'mnemoscope\[paper\]'"):
        write_images(report, tmp_path)


def test_missing_browser_says_what_to_install(report, tmp_path, monkeypatch):
    pytest.importorskip("kaleido")
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"install one .* BROWSER_PATH"):
        write_images(report, tmp_path)


@pytest.mark.browser
def test_images_are_white_and_of_the_promised_size(report, tmp_path):
    pytest.importorskip("kaleido")
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("no Chrome or Chromium found")
    paths = write_images(report, tmp_path)
    assert len(paths) == 6
    svg, png = paths[0].read_text(encoding="utf-8"), paths[1].read_bytes()
    assert re.search(r'<svg [^>]*width="800" height="400"', svg)
    assert re.search(r'<rect [^>]*width="800" height="400" style="fill: rgb\(255, 255, 255\)', svg)
    assert "lag plain" in svg
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">II", png[16:24]) == (1600, 800)
