from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from watched_page import Watched

from mnemoscope.plots.figure import Series, heatmap, lines
from mnemoscope.plots.small_multiples import small_multiples
from mnemoscope.report import write
from mnemoscope.report.document import Figure, Section, Table, finding

pytestmark = pytest.mark.browser

INK = "document.querySelector('.xtitle').style.fill"
CURVE = "document.querySelector('.scatterlayer .js-line').style.stroke"

# Two frames: one in which the page hears of the change, one in which it has answered.
SETTLED = "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"


@pytest.fixture
def visit(browser, tmp_path):
    """Open a report; at the end nothing may have failed or asked for anything."""
    contexts = []
    watched = Watched()

    def open_page(report, **options):
        path = write(report, tmp_path)
        context = browser.new_context(**options)
        contexts.append(context)
        page = watched.watch(context.new_page())
        page.goto(path.as_uri())
        page.wait_for_selector("figure:nth-of-type(1) svg.main-svg")
        return page

    yield open_page
    for context in contexts:
        context.close()
    watched.assert_quiet()


def test_all_figures_are_drawn(visit, report):
    page = visit(report, viewport={"width": 1200, "height": 900})
    plots = page.locator(".plot")
    assert plots.count() == 3
    for plot in plots.all():
        box = plot.locator("svg.main-svg").first.bounding_box()
        assert box["width"] > 600
        assert box["height"] > 250
    assert page.locator(".scatterlayer .trace").count() == 2
    assert page.locator(".barlayer .point").count() == 2
    assert page.locator(".heatmaplayer image").count() == 1


def test_pointer_shows_values(visit, report):
    page = visit(report)
    area = page.locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.5)
    page.wait_for_selector(".readout:visible")
    said = page.locator(".readout").first.inner_text().split("\n")
    assert [line for line in said if line] == ["lag plain: 2", "plain: 0.9 (0.8 to 1)"]
    page.mouse.move(0, 0)
    page.wait_for_selector(".readout", state="hidden")


@pytest.mark.parametrize("width", [1400, 820])
def test_what_the_pointer_shows_stands_beside_the_data(visit, report, width):
    page = visit(report, viewport={"width": width, "height": 900})
    area = page.locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    data = area.bounding_box()
    for share in (0.05, 0.5, 0.95):
        page.mouse.move(data["x"] + data["width"] * share, data["y"] + data["height"] / 2)
        page.evaluate(SETTLED)
        box = page.locator(".readout").first.bounding_box()
        beside = box["x"] >= data["x"] + data["width"]
        below = box["y"] >= data["y"] + data["height"]
        assert beside if width == 1400 else below
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.locator(".hoverlayer .legend").first.is_hidden()


def test_a_grey_line_is_named_under_the_pointer(visit, report):
    def one(name, level):
        return lines([Series(name, [1, 2, 3], [level] * 3)], "age", "bits")

    sheet = small_multiples([("left", one("gru", 1)), ("right", one("<lstm>", 2))])
    part = Figure("Sheet", sheet, "", [{"age": 1}])
    page = visit(dataclasses.replace(report, sections=[Section("One", [part])]))
    area = page.locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    # The grey line of the other panel is the upper one here.
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.1)
    page.wait_for_selector(".readout:visible")
    said = page.locator(".readout").first.inner_text().split("\n")
    assert [line for line in said if line] == ["age: 2", "<lstm>: 2"]


LONG = "This sentence says with many words, all of them plain, " * 4 + "what was found here (0.12)."
TALL = heatmap(np.eye(30), range(30), range(30), "", "", "share")
WIDE = Table("Wide", [f"a column {n}" for n in range(10)], [[1.5] * 10] * 3, "Ten numbers.")
NARROW = Table("Narrow", ["a", "b"], [[1, 2]], "Two numbers.")


def leading(report, figure):
    """A page that is as long as one with a finding may be at its top."""
    lead = finding(LONG, LONG, LONG, figure=Figure("Lead", figure, LONG, [{"x": 1}]))
    sections = [lead, Section("Evidence", [LONG, WIDE, NARROW])]
    return dataclasses.replace(report, question=LONG[:120], sections=sections)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["curves", "matrix"])
def test_a_finding_is_seen_without_scrolling(visit, report, kind, scheme):
    assert len(LONG) < 260
    figure = TALL if kind == "matrix" else lines([Series("a", [1, 2], [1, 2])], "x", "y")
    size = {"width": 1280, "height": 800}
    page = visit(leading(report, figure), viewport=size, color_scheme=scheme)
    for part in ("h1", ".question", *(f".finding p >> nth={n}" for n in range(3)), ".plot"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 800
        assert box["x"] + box["width"] <= 1280
    drawn = page.locator(".finding svg.main-svg").first.bounding_box()
    assert drawn["height"] >= 280
    assert drawn["width"] > 700


def test_a_finding_needs_no_sideways_scrolling_on_a_phone(visit, report):
    size = {"width": 390, "height": 844}
    page = visit(leading(report, TALL), viewport=size, is_mobile=True, has_touch=True)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    # What is too wide scrolls in its own frame.
    assert page.locator(".scroll").nth(1).evaluate("(one) => one.scrollWidth > one.clientWidth")


def test_wide_tables_are_wider_than_the_text(visit, report):
    page = visit(leading(report, TALL), viewport={"width": 1280, "height": 800})
    text = page.locator("#section-2 > p").bounding_box()
    wide, narrow = (
        page.locator(f"#part-{name} .scroll").bounding_box() for name in ("wide", "narrow")
    )
    assert wide["width"] > text["width"] + 100
    assert wide["x"] >= 0
    assert wide["x"] + wide["width"] <= 1280
    whole = "(one) => one.scrollWidth == one.clientWidth"
    assert page.locator("#part-wide .scroll").evaluate(whole)
    assert narrow["x"] == pytest.approx(text["x"], abs=1)
    assert narrow["width"] == pytest.approx(text["width"], abs=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_needs_no_sideways_scrolling(visit, report, scheme):
    size = {"width": 390, "height": 844}
    page = visit(report, viewport=size, is_mobile=True, has_touch=True, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for plot in page.locator("svg.main-svg").all():
        assert plot.bounding_box()["width"] <= 390


def test_colours_follow_the_reader_and_keep_the_zoom(visit, report):
    page = visit(report, color_scheme="light")
    light = page.evaluate(INK), page.evaluate(CURVE)
    page.evaluate("Plotly.relayout(document.querySelector('.plot'), {'yaxis.range': [0.25, 0.5]})")
    page.emulate_media(color_scheme="dark")
    page.evaluate(SETTLED)
    assert (page.evaluate(INK), page.evaluate(CURVE)) == ("rgb(230, 233, 238)", "rgb(90, 143, 236)")
    zoom = page.evaluate("document.querySelector('.plot')._fullLayout.yaxis.range")
    assert zoom == [0.25, 0.5]
    page.emulate_media(color_scheme="light")
    page.evaluate(SETTLED)
    assert (page.evaluate(INK), page.evaluate(CURVE)) == light


def test_print_is_light_and_narrow_then_all_is_as_before(visit, report):
    page = visit(report, color_scheme="dark", viewport={"width": 1200, "height": 900})
    width = page.evaluate("document.querySelector('.main-svg').clientWidth")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(INK) == "rgb(28, 33, 40)"
    assert page.evaluate("document.querySelector('.main-svg').clientWidth") == 640
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(INK) == "rgb(230, 233, 238)"
    assert page.evaluate("document.querySelector('.main-svg').clientWidth") == width
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("form", ["svg", "png"])
def test_figure_is_saved_as_on_paper(visit, report, tmp_path, form):
    page = visit(report, color_scheme="dark")
    page.hover(".plot >> nth=0")
    with page.expect_download() as download:
        page.click(f".plot >> nth=0 >> [data-title='Save as {form.upper()}']")
    assert download.value.suggested_filename == f"a-plain.{form}"
    content = download.value.path().read_bytes()
    if form == "png":
        assert content.startswith(b"\x89PNG")
    else:
        assert b"rgb(28, 33, 40)" in content
        assert b"rgb(230, 233, 238)" not in content


def test_hostile_text_is_shown_and_never_run(visit, evil_report, evil):
    page = visit(evil_report)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, main script:not([type='application/json'])").count() == 0
    assert page.locator("h1").inner_text() == f"Title {evil}"
    assert page.locator(".xtitle").first.text_content() == f"lag {evil}"
