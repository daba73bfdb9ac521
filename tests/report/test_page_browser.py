from __future__ import annotations

import re

import pytest

from mnemoscope.report import write

pytestmark = pytest.mark.browser

INK = "document.querySelector('.xtitle').style.fill"
CURVE = "document.querySelector('.scatterlayer .js-line').style.stroke"

# Two frames: one in which the page hears of the change, one in which it has answered.
SETTLED = "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"


@pytest.fixture
def visit(browser, tmp_path):
    """Open a report; at the end nothing may have failed or asked for anything."""
    contexts, complaints, requests = [], [], []

    def open_page(report, **options):
        path = write(report, tmp_path)
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is no failure
        page.on("console", lambda said: complaints.extend([said.text] * (said.type == "error")))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("figure:nth-of-type(1) svg.main-svg")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


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
    page.wait_for_selector(".hoverlayer .legend")
    assert re.search(r"plain : 0\.9 +\(0\.8 to 1\)", page.locator(".hoverlayer").first.inner_html())


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
