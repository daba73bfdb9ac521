"""Talk on the page: documents are read, questions answered, and nothing of it is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scope_world import CAT, EVIL, STORY, Client

import mnemoscope as ms

pytest.importorskip("transformers")


def talk(client: Client, path: str, **body: Any) -> Any:
    status, content, _ = client.ask(f"/api/{path}", body)
    assert status == 200, content
    return content


def test_a_document_is_read_asked_about_swapped_and_forgotten(client: Client) -> None:
    begun = talk(client, "chat", model="huggingface:base", document=CAT * 12, memory="infinite")
    assert begun["read"]["tokens"] > 128
    assert begun["read"]["nbytes"] > 0
    assert "nats per token" in begun["read"]["measured"]
    assert begun["parts"][0]["label"] == "sentences 1–2"
    key = begun["chat"]
    reply = talk(client, "chat_say", chat=key, text="Who sat?")
    assert reply["words"]
    assert 0 < sum(share for _, share in reply["parts"]) <= 1
    blank = talk(client, "chat_say", chat=key, text="Who sat?", blank=True)
    assert blank["blank"]
    assert blank["parts"] == []
    other = talk(client, "chat_document", chat=key, document=STORY)
    assert other["read"]["tokens"] != begun["read"]["tokens"]
    assert talk(client, "chat_document", chat=key)["nbytes"] == 0
    assert talk(client, "chat_say", chat=key, text="Who sat?")["parts"] == []


def test_an_attached_memory_can_be_talked_to(client: Client) -> None:
    begun = talk(client, "chat", model="infinite:endless", document=CAT * 2)
    assert begun["read"]["mixed"] > 0
    assert talk(client, "chat_say", chat=begun["chat"], text="Who?")["words"] is not None


def test_a_made_up_run_brings_its_document(opened: Any, tmp_path: Path) -> None:
    ms.train("dialogue", "gru", tmp_path / "run", steps=2, batch=2, width=8)
    client = opened(tmp_path, given=[str(tmp_path / "run")])
    begun = talk(client, "chat", model="given:0", document="")
    assert begun["read"]["held"] is None
    name = begun["parts"][0]["text"].split()[0]
    reply = talk(client, "chat_say", chat=begun["chat"], text=f"{name}?")
    assert reply["words"] is None
    assert reply["tokens"] == 1
    assert talk(client, "chat", model="run:run", document="")["quality"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("chat", {"model": "run:lstm", "document": CAT}, "task characters"),
        ("chat", {"model": "documents:notes", "document": CAT}, "cannot be talked to"),
        ("chat", {"model": "untrained:lstm", "document": CAT}, "cannot be talked to"),
        ("chat", {"model": "given:7", "document": CAT}, "cannot be talked to"),
        ("chat", {"model": "huggingface:../base", "document": CAT}, ""),
        ("chat", {"model": "huggingface:base", "document": " "}, "is empty"),
        ("chat", {"model": "huggingface:base", "document": CAT, "memory": EVIL}, "unknown memory"),
        ("chat", {"model": "huggingface:base", "document": "x" * 20_002}, "20001"),
        ("chat", {"model": "huggingface:base", "document": CAT, "window": 3}, "window"),
        ("chat_say", {"chat": "nobody", "text": "hello"}, "is closed"),
        ("chat_document", {"chat": "nobody", "document": CAT}, "is closed"),
        ("chat_say", {"chat": "nobody", "text": "x" * 3000}, "2000"),
    ],
)
def test_what_cannot_be_is_told(client: Client, path: str, body: Any, words: str) -> None:
    status, content, _ = client.ask(f"/api/{path}", body)
    assert status in (400, 422)
    assert words in content["error"]


def test_an_empty_question_is_told(client: Client) -> None:
    begun = talk(client, "chat", model="huggingface:base", document=CAT)
    status, content, _ = client.ask("/api/chat_say", {"chat": begun["chat"], "text": "  "})
    assert status == 400
    assert "empty" in content["error"]


@pytest.mark.browser
def test_somebody_talks_in_a_browser(visit: Any) -> None:
    page = visit("#/chat?model=huggingface:base")
    page.get_by_label("Document", exact=True).fill(f"{EVIL} {CAT * 3}")
    page.get_by_role("button", name="Read").click()
    page.locator(".facts b").first.wait_for()
    page.get_by_label("Question").fill(f"Who sat? {EVIL}")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".turn").first.wait_for()
    assert EVIL in page.locator(".asked").first.inner_text()
    assert page.locator(".drawn").count() > 0
    page.get_by_role("button", name="Ask without the document").click()
    page.locator(".turn.blank").wait_for()
    page.get_by_role("button", name="Forget").click()
    page.get_by_text("the document is forgotten").wait_for()
