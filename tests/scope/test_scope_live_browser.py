"""Models that read, in a real browser: what each memory shows, and how one moves about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scope_world import CAT, EVIL, at_segment, read, shown, tint

pytestmark = pytest.mark.browser

Visit = Callable[..., Any]


def test_an_lstm_shows_gates_and_what_its_state_is_made_of(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm")
    page.wait_for_selector("textarea")
    read(page)
    assert "LSTM" in page.locator(".reader h2").inner_text()
    assert page.locator(".panel.gates .curve").count() == 4 + 4  # and in the legend
    assert page.locator(".panel.gates canvas").count() == 2
    at_segment(page, 3)
    assert page.locator(".text .token.new").all_inner_texts() == list(CAT[24:36])
    # All of it is in the state: nothing is held as such, nothing is gone.
    assert page.locator(".text .token.gone").count() == 0
    page.hover(".text .token >> nth=30")
    page.wait_for_selector(".inspector h3:has-text('Who remembers')")
    assert "token 31" in page.locator(".inspector").inner_text()
    assert "in the state, mixed with all others" in page.locator(".held").inner_text()
    assert page.locator(".gates .cursor").is_visible()
    assert tint(page, 40) == 0


def test_a_transformer_shows_its_keys_and_values(visit: Visit) -> None:
    page = visit("#/live?model=run:transformer")
    page.wait_for_selector("textarea")
    read(page)
    at_segment(page, 5)  # 60 tokens read, 39 are kept
    assert page.locator(".panel.slots").count() == 2
    assert page.locator(".panel.slots >> nth=0 >> .slot:not(.free)").count() == 39
    assert page.locator(".text .token.gone").count() == 21
    page.click(".text .token >> nth=50")
    assert page.locator(".slot.on").count() == 2
    assert (
        "layer 1: keys and values; layer 2: keys and values" in page.locator(".held").inner_text()
    )
    assert page.locator(".inspector > .bars li").count() == 2
    page.click(".text .token >> nth=3")
    assert "no memory any more" in page.locator(".held").inner_text()
    page.click(".panel.slots >> nth=1 >> .slot >> nth=0")
    assert "token 22" in page.locator(".inspector").inner_text()
    # One layer at a time.
    page.select_option(".memory > .field select", index=2)
    assert page.locator(".panel.slots").count() == 1
    assert "Layer 2" in page.locator(".panel.slots h3").inner_text()


def test_an_infinite_former_shows_its_signal(visit: Visit) -> None:
    page = visit("#/live?model=run:infinite")
    page.wait_for_selector("textarea")
    read(page)
    assert "signal" in page.locator(".panel.signal").inner_text()
    at_segment(page, 5)
    assert page.locator(".panel.signal .head").count() == 2
    assert page.locator(".panel.signal .sticky").count() == 128
    assert page.locator(".text .token.faint").count() > 30
    # No mark stands beside the signal while nobody points at a token.
    assert page.locator(".here").get_attribute("display") == "none"
    page.hover(".text .token >> nth=5")
    assert page.locator(".held").inner_text() == "Held in layer 1: signal"
    assert page.locator(".here").get_attribute("display") == "inline"
    assert float(page.locator(".here").get_attribute("x1")) > 40
    assert page.locator(".inspector > .bars li").count() == 2
    page.click(".meaning summary")
    assert "beyond the ends of the signal" in page.locator(".meaning").inner_text()


def test_documents_show_their_entries_and_their_names_do_nothing(visit: Visit) -> None:
    page = visit("#/live?model=documents:notes")
    page.wait_for_selector("textarea")
    page.wait_for_selector("select[aria-label='Document'] option", state="attached")
    page.select_option("select[aria-label='Document']", EVIL)
    read(page, f"Boats came home {EVIL} at dusk", 8)
    panel = page.locator(".panel.entries")
    assert EVIL in panel.inner_text()
    assert panel.locator("canvas").count() == 1
    assert panel.locator(".bars >> nth=0 >> li").count() == 3
    assert page.locator("main img").count() == 0
    page.click(".text .token >> nth=1")
    assert "Entries it activates most" in page.locator(".inspector").inner_text()
    assert page.locator(".inspector ul[aria-label='entries activated'] li").count() == 5


def test_hostile_texts_and_names_are_shown_and_never_run(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm", refused=True)
    page.wait_for_selector("textarea")
    read(page, f"The {EVIL} cat", 8)
    at_segment(page, 6)
    page.click(".text .token >> nth=4")
    assert page.locator(".chip").all_inner_texts() == ["“<”", "“<”"]
    shown = page.locator(".text .token").all_inner_texts()
    assert "".join(shown) == f"The {EVIL} cat"
    page.click(".choose summary")
    page.select_option("select[aria-label='Text from the folder']", f"{EVIL}.md")
    page.wait_for_function("() => document.querySelector('textarea').value.includes('<b>sat</b>')")
    page.goto(page.url.partition("#")[0] + f"#/run/{EVIL}")
    page.wait_for_selector(".error")
    assert EVIL in page.locator(".error").inner_text()
    assert page.locator("main img").count() == 0


def test_two_models_side_by_side_are_pointed_at_together(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm&with=run:infinite")
    page.wait_for_selector("textarea")
    read(page)
    page.wait_for_selector(".pair .reader >> nth=1")
    page.click("button[aria-label='Next segment']")
    shown(page, 2)
    page.hover(".reader >> nth=0 >> .text .token >> nth=20")
    for side in range(2):
        assert "token 21" in page.locator(f".reader >> nth={side} >> .inspector").inner_text()
    # Chosen on one side, a token stays chosen on both, wherever the pointer goes.
    page.click(".reader >> nth=1 >> .text .token >> nth=15")
    page.hover(".reader >> nth=0 >> .text .token >> nth=3")
    page.hover("h1")
    for side in range(2):
        assert "token 16" in page.locator(f".reader >> nth={side} >> .inspector").inner_text()
    boxes = [page.locator(".reader").nth(side).bounding_box() for side in range(2)]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


def test_the_keyboard_is_enough(visit: Visit) -> None:
    page = visit("#/live?model=run:transformer")
    page.wait_for_selector("textarea")
    read(page)
    page.locator(".text").focus()
    page.keyboard.press("n")
    shown(page, 2)
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    chosen = page.locator(".text").get_attribute("aria-activedescendant")
    assert page.locator(f"[id='{chosen}']").get_attribute("aria-selected") == "true"
    assert "token 23" in page.locator(".inspector").inner_text()
    page.keyboard.press("Escape")
    assert "Point at a token" in page.locator(".inspector").inner_text()
    page.keyboard.press("p")
    shown(page, 1)
    # Letters typed into the text are letters.
    page.click(".choose summary")
    page.locator("textarea").press("n")
    assert page.locator(".counter").inner_text().startswith("segment 1")


def test_passages_come_from_the_folder_of_texts(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm")
    page.wait_for_selector("textarea")
    page.select_option("select[aria-label='Text from the folder']", "story.txt")
    page.wait_for_function(
        "() => document.querySelector('textarea').value.startsWith('The cat <b')"
    )
    first = page.input_value("textarea")
    assert len(first) == 4000
    page.locator("input[aria-label^='Where in the text']").fill("50")
    page.wait_for_function(
        "(before) => document.querySelector('textarea').value !== before", arg=first
    )
    read(page, page.input_value("textarea")[:60])
    assert page.locator(".text .token").count() == 60


def test_a_text_plays_to_the_end(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm")
    page.wait_for_selector("textarea")
    read(page, CAT[:30], 12)
    page.click("text=Play")
    page.wait_for_function(
        "() => document.querySelector('.counter').textContent === 'segment 3 of 3'"
    )
    page.wait_for_selector("button:text-is('Play')")


def test_a_character_that_a_model_does_not_know_is_explained_on_the_page(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm", refused=True)
    page.wait_for_selector("textarea")
    page.fill("textarea", "Ω")
    page.click(".choose button[type=submit]")
    page.wait_for_selector(".error")
    assert "Ω" in page.locator(".error").inner_text()
    read(page)
    assert page.locator(".error").count() == 0


def test_maps_change_colour_with_the_reader(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm", color_scheme="light")
    page.wait_for_selector("textarea")
    read(page)
    pixel = (
        "Array.from(document.querySelector('canvas').getContext('2d').getImageData(0,0,1,1).data)"
    )
    light = page.evaluate(pixel)
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(200)
    assert page.evaluate(pixel) != light
