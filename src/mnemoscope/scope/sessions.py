"""What is open: models, and sessions that can be stepped through. Bounded in number and size."""

from __future__ import annotations

import json
import logging
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.core.errors import UserError
from mnemoscope.scope.models import served_model
from mnemoscope.scope.served import ServedModel
from mnemoscope.scope.session import Session
from mnemoscope.scope.token_text import TokenText

log = logging.getLogger(__name__)

Json = dict[str, Any]

MOST_MODELS, MOST_SESSIONS = 4, 16
MOST_CHARACTERS, MOST_TOKENS = 20_000, 2048
# Of what is read at once, not segment by segment.
MOST_WHOLE = 512
LONGEST_SEGMENT, MOST_SEGMENTS = 256, 256
# How long a request waits for its turn; one model computes at a time.
PATIENCE = 60


class BusyError(UserError):
    """Others are being served for longer than a reader would wait."""


@contextmanager
def _explained(doing: str) -> Iterator[None]:
    """Say in one line how a model failed; which it can in any way, and is no fault of the page."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        log.warning("%s failed", doing, exc_info=True)
        first = (str(error).strip() or "no reason given").splitlines()[0]
        raise UserError(f"{doing} failed: {type(error).__name__}: {first[:300]}") from error


class Sessions:
    """Opens models by the names that the page knows, and lets them read."""

    def __init__(self, root: Path, given: list[str]) -> None:
        self.root, self.given = root, given
        self._models: OrderedDict[str, ServedModel] = OrderedDict()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        # Hooks of one model must not see the tokens of another reader.
        self._turn = threading.Lock()

    @contextmanager
    def alone(self, doing: str) -> Iterator[None]:
        """Wait until nobody else computes; how a model fails is said in one line."""
        if not self._turn.acquire(timeout=PATIENCE):
            raise BusyError("other texts are being read for a long time now: try again later")
        try:
            with _explained(doing):
                yield
        finally:
            self._turn.release()

    def about(self, identity: str) -> Json:
        """What can be said of a model; opens it if need be."""
        with self.alone(f"opening {identity[:80]}"):
            return self._open(identity).about

    def read(
        self,
        identity: str,
        text: str,
        segment: int,
        segments: int | None = None,
        document: str | None = None,
    ) -> Json:
        """Begin to read a text, ``segment`` tokens at a time, or in so many ``segments``."""
        if len(text) > MOST_CHARACTERS:
            raise UserError(
                f"the text has {len(text)} characters; give at most {MOST_CHARACTERS} at a time"
            )
        with self.alone(f"reading with {identity[:80]}"):
            model = self._open(identity)
            if document is not None and document not in model.about["documents"]:
                raise UserError(f"there is no document {document[:80]!r} in this memory")
            reading = model.parse(text)
            _check(reading, model.limit)
            edges = _edges(reading, segment, segments, model.window)
            session = Session(model, model.start(document), reading, edges)
            session.advance()
        key = secrets.token_urlsafe(12)
        keep(self._sessions, key, session, MOST_SESSIONS)
        return {"reading": key, "about": model.about, **session.text()}

    def step(self, key: str, number: int) -> bytes:
        """What segment ``number`` of a session showed, as JSON; reads up to it if need be."""
        session = self._find(key, number)
        while len(session.frames) <= number:
            # One segment a turn, so that nobody waits for all of somebody else's text.
            with self.alone("reading on"):
                if len(session.frames) <= number:
                    session.advance()
        return session.frames[number]

    def head(self, key: str, number: int, part: str, head: int | None) -> bytes:
        """Attention of one head while a segment was read, as JSON."""
        session = self._find(key, number)
        self.step(key, number)
        with self.alone("looking at a head"):
            return json.dumps(session.head(number, part, head)).encode()

    def blank(self, key: str, number: int, token: int, blank: Blank) -> bytes:
        """What a model says once some of its state is taken away before ``token``, as JSON."""
        session = self._find(key, number)
        self.step(key, number)
        with self.alone("blanking"):
            return json.dumps(session.blank(number, token, blank)).encode()

    def _find(self, key: str, number: int) -> Session:
        session = self._sessions.get(key)
        if session is None:
            raise UserError("this session is closed, others came after it: read the text again")
        if not 0 <= number < session.segments:
            raise UserError(f"there is no segment {number + 1} of {session.segments}")
        return session

    def _open(self, identity: str) -> ServedModel:
        model = self._models.get(identity)
        if model is None:
            model = served_model(identity, self.root, self.given)
        keep(self._models, identity, model, MOST_MODELS)
        return model


def _check(reading: TokenText, limit: int | None) -> None:
    count = len(reading.tokens)
    if not count:
        raise UserError("the text is empty: write something to read")
    most = min(MOST_WHOLE if reading.edges else MOST_TOKENS, limit or MOST_TOKENS)
    if count > most:
        why = f"its positions end at {limit}" if most == limit else "more are not drawn"
        raise UserError(f"the text has {count} tokens for this model; give at most {most}: {why}")


def _edges(
    reading: TokenText, segment: int, segments: int | None, window: int | None
) -> tuple[int, ...]:
    """Where segments begin and end."""
    if reading.edges:
        return reading.edges
    count = len(reading.tokens)
    if segments is not None:
        segment = math.ceil(count / min(segments, count))
    if math.ceil(count / segment) > MOST_SEGMENTS or segment > LONGEST_SEGMENT:
        raise UserError(
            f"{count} tokens in segments of {segment}: choose segments of at most "
            f"{LONGEST_SEGMENT} tokens, and at most {MOST_SEGMENTS} of them"
        )
    windows = range(0, count, window) if window else ()
    return tuple(sorted({*range(0, count, segment), *windows, count}))


def keep(table: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Put in as the newest, and let the oldest go."""
    table[key] = value
    table.move_to_end(key)
    while len(table) > most:
        table.popitem(last=False)
