"""Who may ask, and how much: host, origin, token, size and time of every request.

A page of another site can send requests to this machine. It cannot read this page's token, and it
cannot send our host name and origin, so it gets nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BYTES = 256 << 10
# A body that is not there after so many seconds will not come.
SLOWEST = 10.0
LOCAL = ("localhost", "127.0.0.1", "[::1]")
COOKIE = "mnemoscope-scope"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server bound to ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """An ASGI application around another; with a token, only those who know it are let in."""

    def __init__(self, app: Any, host: str, token: str | None) -> None:
        self.app, self.token = app, token
        shown = f"[{host}]" if ":" in host else host
        # Bound to all addresses we have any name; then the token alone decides.
        self.hosts = {*LOCAL, shown} if token is None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            return None
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        refused = self._refused(scope, headers)
        if refused is not None:
            return await _answer(send, *refused)
        if self.token is not None and self._asked(scope) == self.token:
            # The token leaves the address bar, where it could be copied along.
            cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return await _answer(send, 303, "", {"location": "/", "set-cookie": cookie})
        try:
            body = await _whole(receive)
        except TimeoutError:
            return await _answer(send, 408, "the request took too long to arrive")
        if body is None:
            return await _answer(send, 413, f"a request may have {MOST_BYTES} bytes")
        try:
            await self.app(scope, _replay(body, receive), _with_headers(send))
        except Exception:  # the page was told already; whoever runs the server wants to know more
            log.exception("%s failed", scope["path"])
        return None

    def _refused(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.hosts is not None and name.lower() not in self.hosts:
            return 421, "this server answers to the names of this machine only"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "requests of other pages are refused"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _visit(
            scope, headers
        ):
            return 403, "requests of other pages are refused"
        if self.token is not None and not self._known(scope, headers):
            return 401, "open the address that mnemoscope scope has printed: it ends with a token"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, f"{scope['method']} is not answered here"
        if scope["method"] == "POST" and headers.get("content-type") != "application/json":
            return 415, "send JSON"
        length = headers.get("content-length", "0")
        # Its own length first: int() refuses thousands of digits in its own way.
        if not length.isdecimal() or len(length) > 12 or int(length) > MOST_BYTES:
            return 413, f"a request may have {MOST_BYTES} bytes"
        return None

    def _asked(self, scope: Scope) -> str | None:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return given[0] if given and scope["path"] == "/" else None

    def _known(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self.token is not None
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except CookieError:
            return False
        given = [self._asked(scope) or "", jar[COOKIE].value if COOKIE in jar else ""]
        wanted = self.token.encode()
        return any(secrets.compare_digest(one.encode(), wanted) for one in given)


def _visit(scope: Scope, headers: dict[str, str]) -> bool:
    """Whether somebody followed a link to the page itself, which reveals nothing to its site."""
    return scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"


async def _whole(receive: Receive) -> bytes | None:
    """All that a request brings, None when it is too much; `TimeoutError` when it comes slowly."""
    body, more = b"", True
    async with asyncio.timeout(SLOWEST):
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                return None
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever comes: that the reader has left."""
    first = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> MutableMapping[str, Any]:
        return next(first, None) or await receive()

    return again


def _with_headers(send: Send) -> Send:
    async def answer(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {key for key, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given),
            ]
        await send(message)

    return answer


async def _answer(send: Send, status: int, words: str, extra: dict[str, str] | None = None) -> None:
    headers = {**HEADERS, "content-type": "application/json", **(extra or {})}
    body = json.dumps({"error": words}).encode()
    listed = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": body})
