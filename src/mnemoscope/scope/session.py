"""A text that a model is reading: segment by segment, each of them to be looked at again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.page_stream import PageStream
from mnemoscope.activations.streams.predictions import bits_of, compared, mean_bits
from mnemoscope.activations.streams.views.view import Json
from mnemoscope.core.errors import UserError
from mnemoscope.scope.frame import frame, shares_packed
from mnemoscope.scope.served import ServedModel
from mnemoscope.scope.token_text import TokenText

# Bytes of states that a session keeps; those that are gone are made again by reading.
MOST_STATE = 64 << 20


@dataclass(eq=False)
class Session:
    """The stream goes forward; frames already made are kept, and states as far as there is room.

    edges    where segments begin and end, one more than there are segments
    answered what was said at every question so far, of segments that nobody has looked at too
    """

    model: ServedModel
    stream: PageStream
    reading: TokenText
    edges: tuple[int, ...]
    frames: list[bytes] = field(default_factory=list)
    panels: list[Json] = field(default_factory=list)  # of the segment read last
    answered: list[Json] = field(default_factory=list)
    # The state before each segment, as far as it is kept; before the first there is none.
    states: dict[int, Any] = field(default_factory=lambda: {0: None})

    @property
    def segments(self) -> int:
        """How many there are in all."""
        return len(self.edges) - 1

    def text(self) -> Json:
        """What is read, for the page."""
        return {
            "tokens": self.reading.names,
            # Answers are told with the frames, beside what the model says.
            "phrases": [asdict(one) for one in self.reading.phrases],
            "edges": list(self.edges),
            "segments": self.segments,
        }

    def advance(self) -> None:
        """Read one more segment and keep what was seen as JSON."""
        number = len(self.frames)
        first, end = self.edges[number : number + 2]
        targets = self.reading.targets[first:end]
        step = self.stream.step(self._tokens(first, end), self._before(number), first, targets)
        self._keep(number + 1, step.state)
        held = {_store(panel): panel["first"] for panel in self.panels if panel["kind"] == "slots"}
        for panel in step.panels:
            panel["before"] = held.get(_store(panel), [])
        self.panels = step.panels
        shown = frame(step, number, first, targets, self.model.say)
        columns = zip(shown["said"], shown["answers"], shown["bits"], strict=True)
        told = dict(enumerate(columns, first))
        for one in self.reading.phrases:
            if one.kind == "ask" and one.end - 1 in told:
                said, answer, bits = told[one.end - 1]
                question = {"token": one.end - 1, "said": said, "answer": answer, "bits": bits}
                self.answered.append(question)
        self.frames.append(json.dumps({**shown, "answered": self.answered}).encode())

    def head(self, number: int, part: str, head: int | None) -> Json:
        """Attention of one head of one part while a segment was read, (T, N)."""
        first, end = self.edges[number : number + 2]
        state = self._before(number)
        return shares_packed(self.stream.head(self._tokens(first, end), state, first, part, head))

    def blank(self, number: int, token: int, blank: Blank) -> Json:
        """Predictions from ``token`` to the end of its segment, with the state whole and blanked.

        Both are computed from the same state before ``token``: all that differs is the blank.
        """
        first, end = self.edges[number : number + 2]
        if not first <= token < end:
            raise UserError(f"token {token + 1} is not in segment {number + 1}")
        carries = self.model.about["kind"] != "encoder"
        start = token if carries else first
        if carries and start == 0:
            raise UserError("nothing was read before the first token: choose a later one")
        if self.model.about["kind"] == "translator" and number == 0:
            raise UserError("the source is still being read: choose a token of the target")
        state = self._before(number)
        if start > first:
            _, state = self.stream.read(
                self._tokens(first, start), state, self._tokens(0, first), None
            )
        targets = self.reading.targets[start:end]
        tokens, history = self._tokens(start, end), self._tokens(0, start)
        whole, _ = self.stream.read(tokens, state, history, None)
        if not len(whole):
            raise UserError("this model has no head: it predicts nothing that could change")
        without, _ = self.stream.read(tokens, state, history, blank)
        bits = [bits_of(logits, targets) for logits in (whole, without)]
        # Of a model that answers once, the answer after its last token.
        row = max(0, token - start - (len(tokens) - len(whole)))
        target = targets[token - start]
        return {
            "first": start,
            "how": self.stream.how(blank),
            "bits": bits,
            "means": [mean_bits(one) for one in bits],
            "answers": compared(whole[row], without[row], target, self.model.say),
        }

    def _tokens(self, first: int, end: int) -> Tensor:
        return torch.tensor(self.reading.tokens[first:end], dtype=torch.long)

    def _before(self, number: int) -> Any:
        """The state before a segment, read again from the last one that is kept."""
        known = max(one for one in self.states if one <= number)
        state = self.states[known]
        for segment in range(known, number):
            first, end = self.edges[segment : segment + 2]
            history = self._tokens(0, first)
            _, state = self.stream.read(self._tokens(first, end), state, history, None)
        return state

    def _keep(self, number: int, state: Any) -> None:
        """Keep a state; when there is no room the oldest go, but for the last and the first."""
        self.states[number] = state
        sizes = {one: getattr(held, "nbytes", 0) for one, held in self.states.items()}
        for one in sorted(sizes):
            if 0 < one < number and sum(sizes.values()) > MOST_STATE:
                del self.states[one]
                sizes.pop(one)


def _store(panel: Json) -> tuple[int, str]:
    return panel["layer"], panel["title"]
