"""Ask the application itself, without a socket: any path, method, header and body."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


def application(root: Path, texts: Path | None = None) -> Any:
    from mnemoscope.scope.guard import Guard
    from mnemoscope.scope.library import Library
    from mnemoscope.scope.server import build
    from mnemoscope.scope.sessions import Sessions

    return Guard(build(Library(root), Sessions(root, []), texts), "127.0.0.1", None)


def ask(
    app: Any,
    path: str,
    query: bytes = b"",
    method: str = "GET",
    headers: list[tuple[bytes, bytes]] | None = None,
    body: bytes = b"",
) -> Answer:
    """The whole answer; who listens to the news leaves after the first of them."""
    given = [(b"host", b"127.0.0.1:1"), *(headers or [])]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", errors="replace"),
        "query_string": query,
        "root_path": "",
        "headers": given,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    sent: list[MutableMapping[str, Any]] = []
    coming = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def run() -> None:
        told = asyncio.Event()

        async def receive() -> MutableMapping[str, Any]:
            first = next(coming, None)
            if first is not None:
                return first
            await told.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)
            if message.get("body") and path == "/api/progress":
                told.set()

        await asyncio.wait_for(app(scope, receive, send), 60)

    # In a thread of its own: tests with a browser leave a loop running in theirs.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(run())).result()
    statuses = [message["status"] for message in sent if message["type"] == "http.response.start"]
    assert len(statuses) == 1, "every request gets one answer"
    return Answer(statuses[0], b"".join(message.get("body", b"") for message in sent))
