from __future__ import annotations

import dataclasses
import json
import os
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from mnemoscope.checks.result import COLOURS
from mnemoscope.core.errors import UserError
from mnemoscope.plots import figure
from mnemoscope.report import write
from mnemoscope.report.dark import dark_colours
from mnemoscope.report.document import Figure, Report, Section, Table, finding
from mnemoscope.report.page import _column, _duration, render


class Outline(HTMLParser):
    """Collects tags, attributes and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words, self.json = [], [], [], []
        self.inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        kind = dict(attrs).get("type")
        self.inside = "json" if kind == "application/json" else tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "json":
            self.json.append(data)
        elif self.inside not in ("script", "style"):
            self.words.append(data)


def test_page_has_all_parts_in_order(report):
    outline = Outline(render(report))
    text = " ".join(outline.words)
    wanted = [
        "Title plain",
        "Question plain",
        "One plain",
        "Paragraph plain",
        "Figure 1. a plain.",
        "Two plain",
        "Figure 2. b plain.",
        "Figure 3. c plain.",
        "Table 1. d plain.",
        "Reproduce",
        "mnemoscope study plain",
        "steps: 3 # plain",
        "2030-01-02 03:04 UTC",
        "1 h 15 min",
    ]
    # The contents repeat the section titles, so look from the first paragraph of the body on.
    places = [text.rindex(word) for word in wanted]
    assert places == sorted(places)


def test_contents_lead_to_sections(report):
    outline = Outline(render(report))
    targets = {value[1:] for name, value in outline.attributes if name == "href"}
    identifiers = [value for name, value in outline.attributes if name == "id"]
    assert targets == {"section-1", "section-2", "reproduce"}
    assert targets <= set(identifiers)
    assert len(identifiers) == len(set(identifiers))


def test_names_cannot_take_the_places_of_the_page_itself(report):
    drawn = next(report.figures())
    names = ("Reproduce", "Dark colours", "section-1", "x", "data x", "part x")
    parts = [Figure(name, drawn.figure, "", drawn.data) for name in names]
    page = render(Report("t", "q", [Section("s", parts)], report.reproduce))
    identifiers = [value for name, value in Outline(page).attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))


def test_plotly_is_inlined_exactly_once(report):
    from plotly.offline import get_plotlyjs

    assert render(report).count(get_plotlyjs()) == 1


def test_page_without_figures_is_light(report):
    tables = [
        Section(one.title, [p for p in one.parts if isinstance(p, Table)])
        for one in report.sections
    ]
    page = render(Report(report.title, report.question, tables, report.reproduce))
    assert len(page) < 20_000


def test_nothing_is_loaded_from_outside(report):
    outline = Outline(render(report))
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(outline.tags)
    links = [value for name, value in outline.attributes if name in ("src", "href", "srcset")]
    assert all(value.startswith("#") for value in links)
    css = re.search(r"<style>(.*?)</style>", render(report), re.DOTALL)[1]
    assert "url(" not in css
    assert "@import" not in css


def test_policy_stands_before_anything_it_governs(report):
    page = render(report)
    assert page.index("Content-Security-Policy") < min(page.index("<style"), page.index("<script"))
    assert "default-src 'none'" in page


def test_markup_in_any_text_stays_text(report, evil_report, evil):
    plain, hostile = Outline(render(report)), Outline(render(evil_report))
    assert hostile.tags == plain.tags
    assert {name for name, _ in hostile.attributes} == {name for name, _ in plain.attributes}
    assert " ".join(hostile.words).count(evil) == " ".join(plain.words).count("plain")


def test_embedded_json_survives_and_holds_no_angle_bracket(evil_report, evil):
    blocks = Outline(render(evil_report)).json
    assert len(blocks) == 4
    assert not any("<" in block for block in blocks)
    assert json.loads(blocks[0])["data"][1]["name"].count("&lt;script&gt;") == 1


def test_columns_line_up():
    assert _column([1.5, 22.25, None]) == (["1.50", "22.25", "–"], True)
    assert _column([0.1, 0.25]) == (["0.100", "0.250"], True)
    assert _column([1, 1024]) == (["1", "1024"], True)
    assert _column([1e-7, 0.5]) == (["1e-07", "0.5"], True)
    assert _column([0.0, 0.0]) == (["0.000", "0.000"], True)
    assert _column([float("nan"), 1.0]) == (["nan", "1.000"], True)
    numpy: list[Any] = [np.float32(0.5), np.int64(2)]
    assert _column(numpy) == (["0.500", "2.000"], True)
    assert _column(["a", 1, True, None]) == (["a", "1", "True", "–"], False)
    assert _column([]) == ([], False)


def test_durations_are_readable():
    assert [_duration(s) for s in (0.26, 59.94, 125, 4523)] == [
        "0.3 s",
        "59.9 s",
        "2 min 05 s",
        "1 h 15 min",
    ]


def test_every_colour_of_a_figure_has_a_dark_partner(report):
    pairs = dark_colours()
    for one in report.figures():
        text = one.figure.to_json()
        used = set(re.findall(r'"(#[0-9a-f]{6}|rgba\([^"]*\))"', text))
        assert used
        assert used <= set(pairs), used - set(pairs)
    # A dark colour that is also a light one would be swapped twice when the page changes back.
    assert len(set(pairs.values())) == len(pairs)
    assert set(figure.SERIES) <= set(pairs)
    # Where a dark figure is not transparent it must not stand out from the page.
    assert f"--page: {pairs[figure.CLEAR]};" in render(report)


def test_verdicts_that_are_no_fault_fade_into_the_page_dark_or_not() -> None:
    assert {COLOURS["kept"], COLOURS["not asked"]} <= set(dark_colours())


def test_a_name_that_asks_ends_with_its_own_mark_and_sentences_have_room(report) -> None:
    table = Table("Is it met?", ["claim", "size"], [["a claim " * 8, 1], ["short", 2]], "Means.")
    asked = dataclasses.replace(report, sections=[Section("Claims", [table])])
    page = render(asked)
    assert "<b>Table 1. Is it met?</b> Means." in page
    assert page.count('<td class="prose">') == 2
    assert page.count('<td class="number">') == 2


def test_write_makes_the_folder_and_returns_the_page(report, tmp_path):
    path = write(report, tmp_path / "deep" / "er")
    assert path == tmp_path / "deep" / "er" / "report.html"
    assert path.read_text(encoding="utf-8") == render(report)
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_failed_write_leaves_the_old_page_and_no_rubbish(report, tmp_path, monkeypatch):
    path = write(report, tmp_path)
    before = path.read_bytes()

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"cannot write .*report.html: No space left"):
        write(report, tmp_path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_folder_that_cannot_be_made_is_explained(report, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write(report, tmp_path / "file" / "runs")


def test_a_page_leads_with_its_finding(report):
    drawn = figure.lines([figure.Series("a", [1, 2], [1, 2])], "x", "y")
    leading = finding("The cache forgets.", figure=Figure("Lead", drawn, "", [{"x": 1}]))
    page = render(dataclasses.replace(report, sections=[leading, *report.sections]))
    places = [page.index(what) for what in ('class="finding"', "The cache forgets.", "<nav ")]
    assert places == sorted(places)
    assert page.index("<nav ") < page.index('id="section-2"')
    assert 'class="finding"' not in render(report)
