"""The live page as a web application: what the page asks for, and what it gets.

``/`` and ``/web`` are the page, ``/api`` is JSON, ``/files`` are pages and pictures of studies,
``/shipped`` are pages of results that come with the package.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.core.bounded import opened
from mnemoscope.core.errors import UserError
from mnemoscope.scope import chats, colours, sessions, shipped_pages, texts
from mnemoscope.scope.folder import inside
from mnemoscope.scope.library import Library

KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
# A report brings its own scripts. In a sandbox it has no origin: it can ask us for nothing.
REPORT = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
PICTURE = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
FILES = {
    ".html": ("text/html", REPORT),
    ".svg": ("image/svg+xml", PICTURE),
    ".png": ("image/png", PICTURE),
    ".csv": ("text/plain; charset=utf-8", PICTURE),
}
# Behind every report: it tells the page around it how tall it is, and nothing else.
TELLS_HEIGHT = b"""
<script>
new ResizeObserver(() => parent.postMessage({ height: document.body.scrollHeight }, "*"))
  .observe(document.body);
</script>
"""
# Between two looks at studies that run, and how long one listens before asking again.
PAUSE, LISTENS = 1.0, 600
PASSAGE = 4000
PIECE = 1 << 16


class Ask(BaseModel):
    """A text for a model to read."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str = Field(max_length=1100)
    text: str = Field(max_length=sessions.MOST_CHARACTERS + 1)
    segment: int = Field(32, ge=1, le=sessions.LONGEST_SEGMENT)
    segments: int | None = Field(None, ge=1, le=sessions.MOST_SEGMENTS)
    document: str | None = Field(None, max_length=1100)


class Turn(BaseModel):
    """A segment of a reading to look at."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reading: str = Field(max_length=64)
    segment: int = Field(ge=0, le=2 * sessions.MOST_SEGMENTS)


class Look(Turn):
    """One head of one part to look at; without a head, the mean of them."""

    part: str = Field(max_length=200)
    head: int | None = Field(None, ge=0, le=1 << 16)


class Take(Turn):
    """Something to take away from the state before a token; see `Blank`."""

    token: int = Field(ge=0, le=sessions.MOST_TOKENS)
    layer: int | None = Field(None, ge=0, le=1 << 16)
    store: str | None = Field(None, max_length=200)
    low: int | None = Field(None, ge=0, le=sessions.MOST_TOKENS)
    high: int | None = Field(None, ge=0, le=sessions.MOST_TOKENS)
    unit: int | None = Field(None, ge=0, le=1 << 20)

    def blank(self) -> Blank:
        """What is taken away."""
        tokens = None
        if self.low is not None or self.high is not None:
            tokens = self.low or 0, sessions.MOST_TOKENS if self.high is None else self.high
        return Blank(self.layer, self.store, tokens, self.unit)


class Talk(BaseModel):
    """A document for a model to read, and then be asked about."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str = Field(max_length=1100)
    document: str = Field(max_length=sessions.MOST_CHARACTERS + 1)
    memory: str | None = Field(None, max_length=40)


class Said(BaseModel):
    """A question in a conversation; ``blank`` asks without the document."""

    model_config = ConfigDict(extra="forbid", strict=True)

    chat: str = Field(max_length=64)
    text: str = Field(max_length=chats.LONGEST_QUESTION)
    blank: bool = False


class Swap(BaseModel):
    """Another document for a conversation; none drops the one that was read."""

    model_config = ConfigDict(extra="forbid", strict=True)

    chat: str = Field(max_length=64)
    document: str | None = Field(None, max_length=sessions.MOST_CHARACTERS + 1)


def build(library: Library, table: sessions.Sessions, books: Path | None) -> FastAPI:
    """The application over a folder of runs, models that can be opened, and a folder of texts."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _explain(app)
    talks = chats.Chats(table)

    @app.get("/")
    def page() -> Response:
        return _asset("index.html")

    @app.get("/web/{name}")
    def web(name: str) -> Response:
        return _asset(name)

    @app.get("/api/run_index")
    def index() -> Response:
        found = {"given": table.given, "texts": texts.catalogue(books)}
        return _json({**library.all(), **found, "shipped": shipped_pages.listed()})

    @app.get("/api/run")
    def run(id: Annotated[str, Query(max_length=1100)]) -> Response:
        return _json(library.run(id))

    @app.get("/api/study")
    def study(id: Annotated[str, Query(max_length=1100)]) -> Response:
        return _json(library.study(id))

    @app.get("/api/shipped")
    def shipped(id: Annotated[str, Query(max_length=1100)]) -> Response:
        return _json(shipped_pages.find(id))

    @app.get("/api/text")
    def text(
        name: Annotated[str, Query(max_length=1100)],
        start: Annotated[float, Query(ge=0, le=1)] = 0.0,
    ) -> Response:
        return _json(texts.passage(books, name, start, PASSAGE))

    @app.get("/api/model")
    def model(id: Annotated[str, Query(max_length=1100)]) -> Response:
        return _json(table.about(id))

    @app.post("/api/read")
    def read(ask: Ask) -> Response:
        return _json(table.read(ask.model, ask.text, ask.segment, ask.segments, ask.document))

    @app.post("/api/step")
    def step(turn: Turn) -> Response:
        return _ready(table.step(turn.reading, turn.segment))

    @app.post("/api/head")
    def head(look: Look) -> Response:
        return _ready(table.head(look.reading, look.segment, look.part, look.head))

    @app.post("/api/blank")
    def blank(take: Take) -> Response:
        return _ready(table.blank(take.reading, take.segment, take.token, take.blank()))

    @app.post("/api/chat")
    def chat(talk: Talk) -> Response:
        return _ready(talks.begin(talk.model, talk.document, talk.memory))

    @app.post("/api/chat_say")
    def chat_say(said: Said) -> Response:
        return _ready(talks.say(said.chat, said.text, said.blank))

    @app.post("/api/chat_document")
    def chat_document(swap: Swap) -> Response:
        if swap.document is None:
            return _ready(talks.forget(swap.chat))
        return _ready(talks.swap(swap.chat, swap.document))

    @app.get("/api/progress")
    async def progress() -> StreamingResponse:
        return StreamingResponse(_news(library), media_type="text/event-stream")

    @app.get("/files/{name:path}")
    def files(name: str) -> Response:
        path = inside(library.root, name)
        if path.suffix not in FILES:
            raise UserError(f"there is no {name[:80]!r} here")
        kind, policy = FILES[path.suffix]
        end = TELLS_HEIGHT if path.suffix == ".html" else b""
        return StreamingResponse(
            _pieces(path, end), media_type=kind, headers={"content-security-policy": policy}
        )

    @app.get("/shipped/{name}")
    def shipped_page(name: str) -> Response:
        kind, policy = FILES[".html"]
        headers = {"content-security-policy": policy}
        content = shipped_pages.page(name) + TELLS_HEIGHT
        return Response(content, media_type=kind, headers=headers)

    return app


async def _news(library: Library) -> AsyncIterator[str]:
    """Studies and runs as they are, each time that something has changed."""
    told = ""
    for _ in range(int(LISTENS / PAUSE)):
        now = json.dumps(await run_in_threadpool(library.news))
        yield f"data: {now}\n\n" if now != told else ": still here\n\n"
        told = now
        await asyncio.sleep(PAUSE)


def _pieces(path: Path, end: bytes) -> Iterator[bytes]:
    """A file piece by piece, open before the answer begins: until then it can still be refused."""
    stack = ExitStack()
    file = stack.enter_context(opened(path))

    def read() -> Iterator[bytes]:
        with stack:
            while piece := file.read(PIECE):
                yield piece
        yield end

    return read()


def _ready(content: bytes) -> Response:
    """JSON that is made already."""
    return Response(content, media_type="application/json")


def _json(content: Any) -> Response:
    """JSON of nothing but ASCII, so that no half of a character can break it."""
    return _ready(json.dumps(content, allow_nan=False).encode())


def _asset(name: str) -> Response:
    if name == "colours.css":
        return Response(colours.sheet(), media_type="text/css")
    folder = resources.files("mnemoscope.scope").joinpath("web")
    if name == "style.css":  # the same that reports are written with
        folder = resources.files("mnemoscope.report")
    known = {one.name: one for one in folder.iterdir() if Path(one.name).suffix in KINDS}
    if name not in known:
        raise UserError(f"there is no {name[:80]!r} here")
    return Response(known[name].read_bytes(), media_type=KINDS[Path(name).suffix])


def _explain(app: FastAPI) -> None:
    """Whatever goes wrong becomes words on the page; the server lives on."""

    def answer(kind: type[Exception], status: int | None, words: Callable[[Any], str]) -> None:
        @app.exception_handler(kind)
        async def handle(request: Request, error: Exception) -> Response:
            content = json.dumps({"error": words(error)})
            code = getattr(error, "status_code", 500) if status is None else status
            return Response(content, status_code=code, media_type="application/json")

    answer(UserError, 400, str)
    answer(sessions.BusyError, 503, str)
    answer(HTTPException, None, lambda error: str(error.detail))
    answer(RequestValidationError, 422, _invalid)
    # A model can fail in any way; the page says in which.
    answer(Exception, 500, lambda error: f"{type(error).__name__}: {str(error)[:300]}")


def _invalid(error: RequestValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}"
