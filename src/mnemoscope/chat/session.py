"""A conversation about a document: read it, ask, ask without it, forget it.

Shapes: T tokens fed, N tokens read so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.activations.streams.page_stream import PageStream, Step
from mnemoscope.activations.streams.views.view import Json
from mnemoscope.chat.attention import by_part, by_word
from mnemoscope.chat.document import ChatDocument
from mnemoscope.chat.models import ChatModel
from mnemoscope.chat.reply import DocumentRead, MeasuredLoss, Reply
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.models.generation import choose

# Tokens of a reply before a model that does not end it is cut off.
LENGTH = 60
MOST_LENGTH = 4096
# Windows of a document's second half in which the loss is measured: enough to know, soon done.
MEASURED = 8

# Tokens read, and how many there are.
Show = Callable[[int, int], None]


@dataclass
class _Thread:
    """A stream that is being read.

    stream  what reads it; it may remember what it saw, so every thread has its own
    state   after ``read`` tokens
    parts   of every token so far the part of the document it stands in, or `NO_PART`
    unread  tokens that were said or written and not read yet
    turns   questions so far
    """

    stream: PageStream
    state: Any = None
    read: int = 0
    parts: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    turns: int = 0


class ChatSession:
    """``session.read(document)``, then ``session.ask(question)`` as often as you like."""

    def __init__(
        self, model: ChatModel, *, length: int = LENGTH, temperature: float = 0.0, seed: int = 0
    ) -> None:
        if not 1 <= length <= MOST_LENGTH:
            raise UserError(f"length must be from 1 to {MOST_LENGTH} tokens, not {length}")
        if not 0 <= temperature <= 100:
            raise UserError(f"temperature must be from 0, the likeliest, to 100, not {temperature}")
        self.model, self.temperature = model, temperature
        longest = model.writing.longest
        self.length = length if longest is None else min(length, longest)
        self.document: ChatDocument | None = None
        self._generator = torch.Generator().manual_seed(derive(seed, "chat"))
        self._thread = self._begun()
        self._turns: list[tuple[str, list[int]]] = []  # questions, and what was said to each
        self._last: str | None = None

    def read(
        self, document: ChatDocument, show: Show = lambda read, all_of_it: None
    ) -> DocumentRead:
        """Read a document from its beginning, window by window; a new conversation begins."""
        ids, parts = self.model.writing.opening(document)
        inside = np.flatnonzero(np.array(parts) >= 0)
        limit = self.model.limit
        if limit is not None and len(ids) + self.length > limit:
            raise UserError(
                f"{document.name[:80]} has {len(ids)} tokens, and {self.model.name} reads "
                f"{limit - self.length} at most before a reply: give a shorter text"
            )
        # What lies before the model speaks is read with the first question.
        thread, meter = _Thread(self.model.start()), _Meter()
        end = int(inside[-1]) + 1 if len(inside) else 0
        middle = (int(inside[0]) + end) // 2 if len(inside) else 0
        step: Step | None = None
        seconds: list[float] = []  # per token of every segment
        while thread.read < end:
            stop = min(end, self._window_end(thread.read))
            piece = ids[thread.read : stop]
            begins = thread.read >= middle and thread.read % self.model.window == 0
            if begins and self.model.without is not None and meter.windows < MEASURED:
                self._measure(meter, piece, thread)
            began = time.process_time()
            step = self._feed(thread, piece, parts[thread.read : stop], watched=stop == end)
            seconds.append((time.process_time() - began) / len(piece))
            show(min(stop, end), end)
        thread.unread = ids[end:]
        self.document, self._thread, self._turns = document, thread, []
        held, mixed = self._held(step, set(inside.tolist()))
        return DocumentRead(
            document.name, len(inside), -(-end // self.model.window), self.model.window,
            thread.state.nbytes, held, mixed, meter.result, _pace(seconds),
        )  # fmt: skip

    def ask(self, question: str, *, blank: bool = False) -> Reply:
        """Answer a question; ``blank`` answers it without the document, and is no turn."""
        text = question.strip()
        if not text:
            raise UserError("the question is empty: say something")
        reply, said = self._answer(self._without_document() if blank else self._thread, text, blank)
        self._last = text
        if not blank:
            self._turns.append((text, said))
        return reply

    def again(self, *, blank: bool = False) -> Reply:
        """Ask the last question once more."""
        if self._last is None:
            raise UserError("nothing has been asked yet: ask something first")
        return self.ask(self._last, blank=blank)

    def forget(self) -> None:
        """Drop the document and all that was said; the last question can still be asked again."""
        self.document, self._thread, self._turns = None, self._begun(), []

    @property
    def nbytes(self) -> int:
        """Bytes that are carried now."""
        return 0 if self._thread.state is None else int(self._thread.state.nbytes)

    def _begun(self) -> _Thread:
        return _Thread(self.model.start(), unread=self.model.writing.opening(None)[0])

    def _without_document(self) -> _Thread:
        """A stream of the same turns that has no document before them."""
        thread = self._begun()
        for text, said in self._turns:
            question = self.model.writing.question(text, first=thread.turns == 0)
            thread.unread = [*thread.unread, *question, *said]
            thread.turns += 1
        return thread

    def _window_end(self, read: int) -> int:
        """Where the window ends that the next token is in: windows count from the beginning."""
        return read - read % self.model.window + self.model.window

    def _feed(
        self, thread: _Thread, ids: Sequence[int], parts: Sequence[int], watched: bool
    ) -> Step | None:
        """Read on, window by window; the last token watched, or all where that is needed.

        What is watched is a number for every token read so far, layer and token fed.
        """
        step, done = None, 0
        watched = watched and self.model.attends
        while done < len(ids):
            stop = min(len(ids), done + self._window_end(thread.read) - thread.read)
            if watched and not self.model.follows and done < len(ids) - 1:
                stop = min(stop, len(ids) - 1)
            tokens = torch.tensor(ids[done:stop], dtype=torch.long)
            seen = self.model.attends and (self.model.follows or (watched and stop == len(ids)))
            if seen:
                step = thread.stream.step(tokens, thread.state, thread.read, [])
            else:
                logits, state = thread.stream.read(tokens, thread.state, tokens[:0], None)
                step = Step(logits, state, state.nbytes)
            thread.state, thread.read = step.state, thread.read + len(tokens)
            done = stop
        thread.parts += parts
        return step

    def _answer(self, thread: _Thread, text: str, blank: bool) -> tuple[Reply, list[int]]:
        writing = self.model.writing
        ids = [*thread.unread, *writing.question(text, first=thread.turns == 0)]
        said: list[int] = []
        rows: list[Floats] = []  # attention behind every token said, (N,) each
        while len(said) < self.length:
            limit = self.model.limit
            if limit is not None and thread.read + len(ids) > limit:
                break
            step = self._feed(thread, ids, [-1] * len(ids), watched=True)
            assert step is not None
            chosen = choose(
                step.logits[-1:].float().cpu(), self.temperature, None, None, self._generator
            )
            ids = [int(chosen[0])]
            said += ids
            rows.append(_mean_shares(step))
            if writing.ended(said):
                break
        ended = bool(said) and writing.ended(said)
        # What ended it is no part of it, unless a word came with it.
        kept = said[:-1] if ended and writing.text(said[:-1]) == writing.text(said) else said
        # What ends a reply is written with the next question.
        thread.unread = [] if ended else ids
        thread.turns += 1
        labels = [] if self.document is None or blank else [p.label for p in self.document.parts]
        shares = by_part(rows[: len(kept)], np.array(thread.parts), len(labels), self.model.sinks)
        words = by_word(kept, writing.text, shares, labels) if self.model.attends else None
        means = shares.mean(0) if len(shares) else np.zeros(len(labels))
        order = np.argsort(-means, kind="stable")
        reply = Reply(
            text,
            writing.text(kept),
            len(kept),
            blank,
            int(thread.state.nbytes) if thread.state is not None else 0,
            words,
            tuple((labels[place], float(means[place])) for place in order if means[place] > 0),
        )
        return reply, kept

    def _measure(self, meter: _Meter, ids: Sequence[int], thread: _Thread) -> None:
        """Add the loss of a window with all that was read before it, and without."""
        assert self.model.without is not None
        tokens = torch.tensor(ids, dtype=torch.long)
        if thread.state is None or len(tokens) < 2:
            return
        for past, total in ((thread.state, "own"), (self.model.without(thread.state), "none")):
            logits, _ = thread.stream.read(tokens, past, tokens[:0], None)
            meter.add(total, logits, tokens)
        meter.windows += 1

    def _held(self, step: Step | None, inside: set[int]) -> tuple[int | None, int]:
        """Tokens of the document that layers still hold, and those that went into a mixture."""
        if step is None or not self.model.attends:
            return None, len(inside)
        held: set[int] = set()
        mixed = 0
        for panel in step.panels:
            held |= _positions(panel) & inside
            if panel["kind"] == "signal":
                mixed = max(mixed, len([one for one in inside if one < panel["after"]]))
        return len(held), mixed


class _Meter:
    """Sums of losses with the past and without."""

    def __init__(self) -> None:
        self.windows, self.tokens = 0, {"own": 0, "none": 0}
        self.nats = {"own": 0.0, "none": 0.0}

    def add(self, past: str, logits: Tensor, tokens: Tensor) -> None:
        """Of every token of a window but the first, (T,)."""
        losses = F.cross_entropy(logits[:-1].float().cpu(), tokens[1:], reduction="sum")
        self.nats[past] += float(losses)
        self.tokens[past] += len(tokens) - 1

    @property
    def result(self) -> MeasuredLoss | None:
        """None when nothing was measured."""
        count = self.tokens["own"]
        if not count:
            return None
        return MeasuredLoss(count, self.nats["own"] / count, self.nats["none"] / count)


def _pace(seconds: Sequence[float]) -> tuple[float, float] | None:
    """Of the first tenth and the last; the very last segment is short, and watched."""
    whole = seconds[:-1]
    some = len(whole) // 10
    if not some:
        return None
    return 1000 * float(np.median(whole[:some])), 1000 * float(np.median(whole[-some:]))


def _mean_shares(step: Step) -> Floats:
    """Attention of the last token over all tokens so far, (N,): mean over layers and heads."""
    if not step.parts:
        return np.zeros(0)
    found: Floats = np.mean([part.shares[-1] for part in step.parts], axis=0)
    return found


def _positions(panel: Json) -> set[int]:
    if panel["kind"] != "slots":
        return set()
    return {one + more for one in panel["first"] for more in range(panel["each"])}
