"""Views that are sent and reopened, runs that are compared, and all of it without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scope_world import CAT, at_segment, read, shown, tint

pytestmark = pytest.mark.browser

Visit = Callable[..., Any]


def after_host(url: str) -> str:
    return url.split("/", 3)[3]


def test_a_view_that_is_sent_is_reopened_as_it_was(visit: Visit) -> None:
    page = visit("#/live?model=run:transformer&with=untrained:transformer")
    page.wait_for_selector("textarea")
    read(page, CAT, 10)
    at_segment(page, 4)
    page.select_option(".reader >> nth=0 >> select[aria-label=Layer]", "layer 2")
    page.wait_for_selector(".reader >> nth=0 >> .head-map canvas")
    page.select_option(".reader >> nth=0 >> select[aria-label=Head]", label="2")
    page.wait_for_selector(".head-map h3:has-text('layer 2, head 2')")
    page.click(".reader >> nth=0 >> .text .token >> nth=35")
    page.mouse.move(2, 2)
    sent, seen = page.url, page.locator(".inspector").all_inner_texts()
    tints = [tint(page, place) for place in range(40)]
    # Another browser, which knows nothing but the address.
    again = visit(after_host(sent))
    shown(again, 4)
    again.wait_for_selector(".token.chosen >> nth=1")
    assert again.locator(".counter").inner_text() == "segment 4 of 7"
    assert again.locator(".pair .reader").count() == 2
    assert again.locator("details.choose").get_attribute("open") is None
    assert again.input_value("textarea") == CAT
    assert "layer 2, head 2" in again.locator(".head-map h3").first.inner_text()
    assert again.locator(".inspector").all_inner_texts() == seen
    assert [tint(again, place) for place in range(40)] == tints
    assert again.url == sent


@pytest.mark.parametrize("text", ["a?b", "the & that", "The cat. ?#/=%"])
def test_any_text_can_be_sent(visit: Visit, text: str) -> None:
    page = visit("#/live?model=huggingface:base")
    page.wait_for_selector("textarea")
    read(page, text, 4)
    again = visit(after_host(page.url))
    shown(again, 1)
    assert again.input_value("textarea") == text


def test_the_form_folds_away_and_opens_again(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm")
    page.wait_for_selector("textarea")
    assert page.locator(".question").is_visible()
    read(page)
    assert not page.locator("textarea").is_visible()
    assert not page.locator(".question").is_visible()
    assert f"LSTM · lstm · {len(CAT)} tokens" in page.locator(".choose summary").inner_text()
    page.click(".choose summary")
    assert page.locator("textarea").is_visible()


def test_a_task_is_told_in_words_and_every_answer_judged(visit: Visit) -> None:
    page = visit("#/live?model=run:recall")
    page.wait_for_selector("textarea")
    read(page, "k3 v1 k0 v2 . . k3 . k0 k1", 5)
    phrases = page.locator(".phrase")
    assert phrases.all_inner_texts()[:2] == ["write k3 = v1", "write k0 = v2"]
    assert page.locator(".phrase.unread").count() == 4
    at_segment(page, 2)
    texts = phrases.all_inner_texts()
    assert texts[2] == "wait 2 tokens"
    for place, answer in ((3, "v1"), (5, "v2")):
        assert " → said " in texts[place]
        correct = f"said {answer} ✓" in texts[place]
        assert correct or f"✗ ({answer})" in texts[place]
        kind = phrases.nth(place).get_attribute("class")
        assert ("right" if correct else "wrong") in kind.split()
    # Nobody wrote k1: there is no right answer.
    assert "ask k1, never written → said" in texts[6]
    assert "✓" not in texts[6]
    assert "of 2 answers right so far" in page.locator(".score").inner_text()
    # The older answer has the darker colour, and a phrase leads to its token.
    ages = [
        float(phrases.nth(n).evaluate("n => n.style.getPropertyValue('--age')")) for n in (3, 5)
    ]
    assert 0 < ages[0] == ages[1]
    phrases.nth(5).click()
    assert "token 9" in page.locator(".inspector").inner_text()
    assert page.locator(".text .token").nth(8).get_attribute("aria-selected") == "true"
    # Who opens the address at the end sees what was said in segments that were skipped.
    read(page, "k3 v1 k0 v2 k3 . . . . k0", 5)
    at_segment(page, 2)
    again = visit("#/" + page.url.partition("#/")[2])
    shown(again, 2)
    assert "of 2 answers right so far" in again.locator(".score").inner_text()
    assert again.locator(".phrase").all_inner_texts() == phrases.all_inner_texts()


def test_each_way_of_blanking_gives_before_and_after(visit: Visit) -> None:
    page = visit("#/live?model=run:infinite")
    page.wait_for_selector("textarea")
    read(page)
    assert "before token 2 " in page.locator(".blank").inner_text()
    at_segment(page, 4)
    page.click(".text .token >> nth=40")
    said = []
    for what, words in (
        ("state", "Without the whole state"),
        ("0", "Without layer 1"),
        ("ages", "Without what was read 1 to 16 tokens ago"),
        ("entry", "Without layer 1 · recent vectors: token 40"),
    ):
        page.select_option(".blank select >> nth=0", what)
        page.click(".blank button")
        page.wait_for_selector(f".blanked b:text-is('{words}')" if what != "entry"
                               else f".blanked b:has-text('{words}')")  # fmt: skip
        text = page.locator(".blanked").inner_text()
        assert "Loss over the rest of the segment:" in text
        assert page.locator(".compared thead").inner_text().split() == ["whole", "blanked"]
        said.append(text)
    assert len(set(said)) == 4
    page.select_option("select[aria-label=Memory]", label="layer 1 · signal")
    page.select_option("select[aria-label=Entry]", label="basis function 3")
    page.click(".blank button")
    page.wait_for_selector(".blanked b:has-text('basis function 3')")
    # What was said of one token does not stand beside another.
    page.click(".text .token >> nth=42")
    assert page.locator(".blanked").inner_text() == ""


def test_ticks_are_whole_tokens(visit: Visit) -> None:
    page = visit("#/live?model=run:lstm")
    page.wait_for_selector("textarea")
    for segment in (3, 12, 50):
        read(page, CAT, segment)
        page.wait_for_selector(".panel.gates svg .tick")
        below = page.locator(".panel.gates svg .tick[text-anchor=middle]").all_text_contents()
        assert below
        assert all(text.isdecimal() for text in below)
        assert len(set(below)) == len(below)


def names(page: Any) -> list[str]:
    found: list[str] = page.locator(
        "table.runs tbody tr:not(.group) td:nth-child(2)"
    ).all_inner_texts()
    return found


def test_runs_are_grouped_sorted_and_filtered(visit: Visit) -> None:
    page = visit()
    page.wait_for_selector("table.runs")
    groups = page.locator("tr.group").all_inner_texts()
    assert len(groups) == 2
    assert "lag" in groups[0]
    assert "lowest loss" in groups[0]
    assert "of no study" in groups[1]
    assert "lowest" not in groups[1]  # of different tasks
    page.click("button[data-key=loss]")
    losses = page.locator("tbody >> nth=1 >> tr:not(.group) td:nth-child(6)").all_inner_texts()
    values = [float(one) for one in losses]
    assert values == sorted(values)
    assert page.locator("th[aria-sort=ascending]").inner_text() == "Loss ↑"
    page.click("button[data-key=loss]")
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.fill("input[type=search]", "transl")
    assert sorted(names(page)) == ["aligner", "translator"]
    assert "2 of " in page.locator(".filter").inner_text()
    assert "filter=transl" in page.url
    assert "sort=-loss" in page.url
    again = visit(after_host(page.url))
    again.wait_for_selector("table.runs")
    assert sorted(names(again)) == ["aligner", "translator"]
    page.fill("input[type=search]", "nothing like it")
    assert names(page) == []


def test_curves_of_runs_lie_over_each_other(visit: Visit) -> None:
    page = visit("#/study/lag")
    page.wait_for_selector("table.runs")
    for place in range(2):
        page.locator("table.runs input[type=checkbox]").nth(place).check()
    # Two, and two in the legend; a curve of one point has no length.
    page.wait_for_selector(".overlay svg .curve >> nth=3", state="attached")
    chosen = names(page)[:2]
    assert page.locator(".overlay .legend li").all_inner_texts() == chosen
    page.select_option(".overlay select", "loss")
    page.wait_for_selector(".overlay svg[aria-label^='training loss']")
    again = visit(after_host(page.url))
    again.wait_for_selector(".overlay svg[aria-label^='training loss']")
    assert again.locator(".overlay .legend li").all_inner_texts() == chosen
    page.locator("table.runs input[type=checkbox]").nth(0).uncheck()
    page.wait_for_selector(".overlay .legend li >> nth=0")
    assert page.locator(".overlay .legend li").all_inner_texts() == chosen[1:]


def focus(page: Any, selector: str, back: bool = False) -> None:
    """Press Tab until something is reached, as one without a mouse has to."""
    for _ in range(120):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate("(s) => document.activeElement?.matches(s)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached by keyboard")


def test_a_model_is_read_looked_at_and_blanked_by_keyboard_alone(visit: Visit) -> None:
    page = visit("#/live?model=run:recall")
    page.wait_for_selector("textarea")
    focus(page, ".choose button[type=submit]")
    page.keyboard.press("Enter")
    shown(page, 1)
    page.wait_for_selector("details.choose:not([open])")
    # From here one goes on in the text, not at the top of the page.
    assert page.evaluate("document.activeElement.className") == "text symbols"
    page.keyboard.press("n")
    shown(page, 2)
    page.keyboard.press("End")
    page.wait_for_selector(".inspector .predictions")
    focus(page, ".blank select")
    page.keyboard.press("l")  # layer 1
    focus(page, ".blank button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".blanked b:text-is('Without layer 1')")
    focus(page, ".choose summary", back=True)
    focus(page, "select[aria-label=Layer]")
    page.keyboard.press("l")
    page.wait_for_selector(".head-map canvas")
    focus(page, ".choose summary", back=True)
    page.keyboard.press("Enter")
    assert page.locator("textarea").is_visible()


def test_runs_are_chosen_by_keyboard_alone(visit: Visit) -> None:
    page = visit()
    page.wait_for_selector("table.runs")
    focus(page, "input[type=search]")
    page.keyboard.type("lstm")
    focus(page, "button[data-key=date]")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.key") == "date"
    assert page.locator("th[aria-sort=ascending]").inner_text() == "Date ↑"
    focus(page, "table.runs input[type=checkbox]")
    page.keyboard.press("Space")
    page.wait_for_selector(".overlay svg path.curve", state="attached")
    focus(page, "tbody td a")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-matches('lstm')")
