"""One write and one read of the ∞-former's signal against attention over all that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Row, compared, interleave, milliseconds, ratio
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.infinite.long_term import LongTerm
from mnemoscope.memories.infinite.signal import ContinuousState
from mnemoscope.memories.layer import Context

TITLE = "The signal of the ∞-former against attention over the whole context"
SETTING = (
    "Width 512, 8 heads, 512 basis functions, segments of 512 tokens, contraction 0.5, no gate. "
    "*Ours* is one write of a segment and one read by 512 queries, its projections included; "
    "*theirs* is `scaled_dot_product_attention` of 512 queries over the keys and values of the "
    "context, projections and mask not included. The state of the signal is 1 MB per row however "
    "long the stream; keys and values of 64k tokens are 268 MB."
)
WIDTH, HEADS, BASIS, SEGMENT, ROUNDS = 512, 8, 512, 512, 11
EMPTY = Context(mask=None, rotation=None)


def run(quick: bool) -> list[Row]:
    """Forward, with backward, one token at a time, and far down a stream."""
    shrink = 16 if quick else 1
    rounds = 3 if quick else ROUNDS
    rows = [*_against_attention(shrink, rounds), *_sticky_and_gate(shrink, rounds)]
    rows += [_backward(1, shrink, rounds), _backward(4, shrink, rounds)]
    rows += [_token(shrink, rounds), _flat(shrink, rounds)]
    return rows


class _Step:
    """A layer's long-term memory, a segment to write and queries to read with."""

    def __init__(self, rows: int, shrink: int, learn: bool = False, **options: Any) -> None:
        torch.manual_seed(0)
        self.length = SEGMENT // shrink
        config = Infinite.make(
            vocab=2,
            width=WIDTH,
            heads=HEADS,
            basis=BASIS // shrink,
            chunk=self.length,
            contraction=0.5,
            fit="count",  # as many samples as in the release
            **options,
        )
        self.memory = LongTerm(config)
        self.tokens = torch.randn(rows, self.length, WIDTH)
        self.queries = torch.randn(rows, HEADS, self.length, WIDTH // HEADS)
        self.learn = learn
        self.state = self.memory.fresh(rows)
        with torch.no_grad():
            for _ in range(3):
                self.state = self.memory.write(self.state, self.tokens)

    def __call__(self) -> ContinuousState:
        with torch.set_grad_enabled(self.learn):
            state = self.memory.write(self.state, self.tokens)
            found, after = self.memory(self.queries, state, EMPTY)
            if self.learn:
                self.memory.zero_grad()
                torch.autograd.backward(found.square().mean())
        assert isinstance(after, ContinuousState)
        return after


def _context(tokens: int, queries: Tensor) -> Callable[[], Tensor]:
    keys, values = torch.randn(2, 1, HEADS, tokens, WIDTH // HEADS).unbind(0)

    def look() -> Tensor:
        with torch.no_grad():
            return F.scaled_dot_product_attention(queries, keys, values)

    return look


def _against_attention(shrink: int, rounds: int) -> Iterator[Row]:
    step = _Step(1, shrink)
    for thousands in (4, 16, 64):
        look = _context(thousands * 1024 // shrink, step.queries)
        times = interleave({"ours": step, "theirs": look}, rounds)
        what = f"write + read, forward, batch 1; attention over {thousands}k tokens"
        goal = "≥ 45" if thousands == 64 else ""
        yield compared(f"sdpa{thousands}k_over_step", what, times, goal=goal)


def _sticky_and_gate(shrink: int, rounds: int) -> Iterator[Row]:
    plain = _Step(1, shrink)
    variants: dict[str, dict[str, Any]] = {"sticky": {"sticky": True}, "gate": {"gate": True}}
    for name, options in variants.items():
        times = interleave({"ours": _Step(1, shrink, **options), "plain": plain}, rounds)
        what = f"the same with {name}; theirs = without"
        yield compared(f"{name}_over_plain_step", what, times, theirs="plain", slower=True)


def _backward(rows: int, shrink: int, rounds: int) -> Row:
    ways = {"both": _Step(rows, shrink, learn=True), "forward": _Step(rows, shrink)}
    times = interleave(ways, rounds)
    what = f"write + read with backward, batch {rows}; theirs = our forward alone"
    goal = "≤ 3.9" if rows == 4 else ""
    key = f"fwd_bwd_over_fwd_b{rows}"
    return compared(key, what, times, "both", "forward", goal=goal, slower=True)


def _token(shrink: int, rounds: int) -> Row:
    step = _Step(1, shrink)
    one = step.queries[:, :, :1]
    many = 50

    def repeat(work: Callable[[], object]) -> None:
        for _ in range(many):
            work()

    def read() -> Tensor:
        found: Tensor = step.memory(one, step.state, EMPTY)[0]
        return found

    look = _context(4096 // shrink, one)
    with torch.inference_mode():  # as `generate` does
        times = interleave({"ours": partial(repeat, read), "theirs": partial(repeat, look)}, rounds)
    what = f"{many} reads of one token in generation; attention over 4k tokens"
    return compared("sdpa4k_over_token_read", what, times, goal="≥ 3.3")


def _flat(shrink: int, rounds: int) -> Row:
    """Go on with a stream at token 10 000 and at token 1 000 000, in turns."""
    step = _Step(1, shrink)
    states = {"early": step.state, "late": step.state}
    for name, tokens in (("early", 10_000), ("late", 1_000_000)):
        while int(states[name].count[0]) * step.length < tokens // shrink:
            with torch.no_grad():
                states[name] = step.memory.write(states[name], step.tokens)

    def go_on(name: str) -> None:
        step.state = states[name]
        states[name] = step()

    times = interleave({name: partial(go_on, name) for name in states}, 2 * rounds)
    return Row(
        key="cost_at_1m_over_10k",
        what="a step at token 1 000 000; theirs = at token 10 000",
        ours=milliseconds(times["late"]),
        theirs=milliseconds(times["early"]),
        ratio=ratio(times["late"], times["early"]),
        goal="0.95 – 1.05",
    )
