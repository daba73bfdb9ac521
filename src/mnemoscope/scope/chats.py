"""Conversations about documents on the page: a few at a time, each a session of `chat`."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from dataclasses import asdict
from typing import Any

from mnemoscope.chat.document import chat_document
from mnemoscope.chat.models import ChatModel
from mnemoscope.chat.session import ChatSession
from mnemoscope.core.errors import UserError
from mnemoscope.scope.models import chat_model
from mnemoscope.scope.sessions import MOST_CHARACTERS, Sessions, keep

# Models that are open for talk, and conversations with them; a conversation may have so many turns.
MOST_MODELS, MOST_CHATS, MOST_TURNS = 2, 8, 200
# Tokens of a reply, and characters of a question.
LENGTH, LONGEST_QUESTION = 40, 2000

Json = dict[str, Any]


class Chats:
    """Opens models by the names that the page knows, and lets them answer, one at a time."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._models: OrderedDict[tuple[str, str | None], ChatModel] = OrderedDict()
        self._chats: OrderedDict[str, ChatSession] = OrderedDict()
        self._turns: dict[str, int] = {}

    def begin(self, identity: str, text: str, memory: str | None) -> bytes:
        """Open a model and let it read a document; an empty one stands for what it makes up."""
        with self.sessions.alone(f"reading with {identity[:80]}"):
            model = self._open(identity, memory)
            session = ChatSession(model, length=LENGTH)
            found = self._read(session, text)
        key = secrets.token_urlsafe(12)
        keep(self._chats, key, session, MOST_CHATS)
        self._turns = {one: self._turns.get(one, 0) for one in self._chats}
        about = {"name": model.name, "label": model.label, "how": model.writing.how}
        return _sent({"chat": key, **about, "quality": model.quality, **found})

    def swap(self, key: str, text: str) -> bytes:
        """Let the same model read another document; a new conversation begins."""
        session = self._find(key)
        with self.sessions.alone("reading another document"):
            return _sent(self._read(session, text))

    def say(self, key: str, question: str, blank: bool) -> bytes:
        """A reply, with the document or without."""
        session = self._find(key)
        self._turns[key] = self._turns.get(key, 0) + 1
        if self._turns[key] > MOST_TURNS:
            raise UserError(f"a conversation has at most {MOST_TURNS} turns here: begin another")
        with self.sessions.alone("answering"):
            return _sent(asdict(session.ask(question, blank=blank)))

    def forget(self, key: str) -> bytes:
        """Drop the document and what was said."""
        session = self._find(key)
        with self.sessions.alone("forgetting"):
            session.forget()
            return _sent({"nbytes": session.nbytes})

    def _read(self, session: ChatSession, text: str) -> Json:
        if len(text) > MOST_CHARACTERS:
            raise UserError(
                f"the document has {len(text)} characters; give at most {MOST_CHARACTERS} here, or "
                "use mnemoscope chat"
            )
        sample = session.model.sample
        document = sample if sample and not text.strip() else chat_document("document", text)
        read = session.read(document)
        measured = None if read.measured is None else str(read.measured)
        parts = [{"label": one.label, "text": one.text} for one in document.parts]
        return {"read": {**asdict(read), "measured": measured, "fits": read.fits}, "parts": parts}

    def _open(self, identity: str, memory: str | None) -> ChatModel:
        chosen = identity, memory
        model = self._models.get(chosen)
        if model is None:
            model = chat_model(identity, self.sessions.root, self.sessions.given, memory)
        keep(self._models, chosen, model, MOST_MODELS)
        return model

    def _find(self, key: str) -> ChatSession:
        session = self._chats.get(key)
        if session is None:
            raise UserError("this conversation is closed, others came after it: begin another")
        return session


def _sent(content: Json) -> bytes:
    return json.dumps(content, allow_nan=False).encode()
