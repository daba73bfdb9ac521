"""A page of a real browser that remembers what it complained of and what it asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Addresses that are the page itself.
OWN = ("file:", "data:", "blob:", "about:")


@dataclass
class Watched:
    """What pages did that a user would not see."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self, page: Page, console: bool = True) -> Page:
        """Listen to a page that is about to be opened; slow machines may take their time."""
        page.set_default_timeout(60_000)
        if console:
            page.on("console", lambda said: self._said(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        return page

    def _said(self, kind: str, text: str) -> None:
        if kind == "error":
            self.complaints.append(text)

    def assert_quiet(self, *bases: str) -> None:
        """Nothing failed, and nothing but ``bases`` was asked for anything."""
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith((*OWN, *bases))] == []
