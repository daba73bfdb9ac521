"""The small world that tests of the page share: names, texts, and where they lie."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "<img src=x onerror=window.hacked=1>"
CAT = "The cat sat on the mat. Then the cat sat on a hat, and the rat ran. "
STORY = "The cat <b>sat</b> on the mat. " + EVIL + " Then the cat sat on a hat, and the rat ran. "
TEXTS = {
    "kettle": "The kettle sang on the stove while rain ran down the dark window.",
    EVIL: "Boats came home at dusk, and gulls fought loudly over broken crates.",
}


@dataclass(frozen=True)
class World:
    """The folder of runs, and one of texts beside it."""

    runs: Path
    texts: Path


class Client:
    """Speaks to a page over a socket, and can say whatever it likes."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.host, self.port = page.socket.getsockname()[:2]

    def ask(
        self,
        path: str,
        body: Any = None,
        method: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, content (decoded if JSON) and headers of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {} if sent is None else {"content-type": "application/json"}
        connection.request(
            method or ("GET" if body is None else "POST"), path, sent, {**given, **(headers or {})}
        )
        answer = connection.getresponse()
        content: Any = answer.read()
        about = {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        if about.get("content-type") == "application/json":
            content = json.loads(content)
        return answer.status, content, about


def read(page: Page, text: str | None = CAT, segment: int | None = 12) -> None:
    """Let the chosen models read a text, or their example; the form folds away then."""
    form = page.locator("details.choose")
    if form.get_attribute("open") is None:
        form.locator("summary").click()
    if text is not None:
        page.fill("textarea", text)
    if segment is not None:
        page.fill("input[aria-label='Tokens per segment']", str(segment))
    form.locator("button[type=submit]").click()
    shown(page, 1)
    page.wait_for_selector("details.choose:not([open])")


def shown(page: Page, segment: int) -> None:
    """Wait until a segment is on the page."""
    busy = f".stage[aria-busy=false] .counter:text-matches('^segment {segment} ')"
    page.wait_for_selector(busy, state="attached")


def at_segment(page: Page, number: int) -> None:
    """Move the slider."""
    page.locator(".toolbar input").fill(str(number))
    shown(page, number)


def tint(page: Page, place: int) -> float:
    value = (
        page.locator(".text .token")
        .nth(place)
        .evaluate("node => node.style.getPropertyValue('--w')")
    )
    return float(value)
