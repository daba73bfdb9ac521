"""Promises about the state itself: nothing hidden, nothing missing, nothing idle, and its bytes."""

from __future__ import annotations

import copy
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.checks.difference import compared
from mnemoscope.checks.examination import Examination, Outcome, attempted
from mnemoscope.checks.subject import CallSubject, NotAskedError, Subject
from mnemoscope.fresh_process import Case, check_in_fresh_process
from mnemoscope.memories.leaves import cloned, leaves, mapped, nbytes, tensors
from mnemoscope.memories.state import read_tensors, write_tensors

# Tokens read after a state to see whether a part of it matters, and how many more where a part
# waits until a chunk is full: at once, or with a cache of `transformers` one at a time, since
# several after a cache are a promise of their own.
MORE, CHUNK, STEPS = 2, 96, 16
# Files that a state leaves for a fresh process.
STATE, REST = "state.safetensors", "rest.safetensors"
# A memory behind a memory is empty until enough was read: so many times the text at most.
LONGER = (1, 4, 16)


def nothing_hidden(exam: Examination) -> Outcome:
    """A stream, and the same with another one read in between; and a start after both.

    What is read without a state depends on nothing, not even where it says that it goes on.
    """
    subject, half = exam.subject.with_a_cache(), exam.length // 2
    first, rest, other = exam.text[:, :half], exam.text[:, half : half + 1], exam.other
    began, _ = subject.read(rest)
    _, state = subject.read(first)
    wanted, _ = subject.read(rest, state)
    _, other_state = subject.read(other)
    subject.read(other[:, :1], other_state)
    found = [exam.judge(subject.read(rest)[0], began, half, "what is read first differs")]
    found.append(exam.judge(subject.read(rest, state)[0], wanted, half, "streams mix"))
    if subject.lacks("position ids") is None:
        at = torch.full_like(rest, half)
        subject.read(first)
        after, _ = subject.read(rest, None, None, at)
        subject.read(other[:, :half])
        apart, _ = subject.read(rest, None, None, at)
        found.append(exam.judge(after, apart, half, "the module continues from what it read"))
    worst = exam.worst(found)
    return (
        Outcome(worst.verdict, worst.largest, worst.tolerance, worst.where) if worst.kept else worst
    )


def a_value(exam: Examination) -> Outcome:
    """The tensors of a state before and after somebody read on from it."""
    subject, half = exam.subject, exam.length // 2
    assert isinstance(subject, CallSubject)
    _, state = subject.read(exam.text[:, :half])
    before = tensors(cloned(state))
    # Twice: the first call may write into its argument, the second into what the first returned.
    _, after = subject.raw(exam.text[:, half : half + 2], state)
    handed = tensors(cloned(after))
    subject.raw(exam.text[:, half + 2 : half + 4], after)
    for name, kept, now in (
        ("given", before, tensors(state)),
        ("returned", handed, tensors(after)),
    ):
        changed = [path for path in kept if not _same(kept[path], now.get(path))]
        if changed:
            return Outcome(
                "broken", where=changed[0], note=f"the state that was {name} has changed"
            )
    return Outcome("kept", 0.0, 0.0)


def complete(exam: Examination) -> Outcome:
    """A state of which all but the tensors is of another text."""
    subject, half = exam.subject, exam.length // 2
    _, state = subject.read(exam.text[:, :half])
    _, other = subject.read(exam.other[:, :half])
    held = dict(leaves(state))
    made = mapped(
        other, lambda path, leaf: held.get(path, leaf) if isinstance(leaf, Tensor) else leaf
    )
    rest = exam.text[:, half : half + 1]
    return exam.judge(subject.read(rest, made)[0], subject.read(rest, state)[0], half)


def minimal(exam: Examination) -> Outcome:
    """Each tensor in turn is replaced: by that of another text, by anything else, by zeros."""
    idle: list[str] = []
    for longer in LONGER:
        length = exam.length // 2 * longer
        if exam.subject.limit is not None and length + MORE > exam.subject.limit:
            break
        idle = _idle(exam, length)
        if not idle:
            return Outcome("kept", note="" if longer == 1 else f"once {length} tokens were read")
    return Outcome("broken", where=idle[0], note=f"{len(idle)} idle: {', '.join(idle)[:200]}")


def _idle(exam: Examination, length: int) -> list[str]:
    subject = exam.subject
    text = exam.draw(2, length, "long")
    (_, state), (_, other) = subject.read(text), subject.read(exam.draw(2, length, "longer"))
    others, shorter = tensors(other), tensors(subject.read(text[:, :-1])[1])

    def runs(path: str, leaf: Tensor) -> bool:
        """Whether it depends on what was read; a constant that lies in a cache is no state."""
        return not (_same(leaf, others.get(path)) and _same(leaf, shorter.get(path)))

    # One tensor under two names is one.
    each = {id(leaf): path for path, leaf in reversed(tensors(state).items())}.values()
    left = {path: leaf for path, leaf in tensors(state).items() if path in each}
    left = {path: leaf for path, leaf in left.items() if runs(path, leaf)}
    for more in (MORE, STEPS if subject.dialect == "transformers" else CHUNK):
        ends = [more] if subject.limit is None else [more, subject.limit - length]
        rest = exam.draw(2, min(ends), "rest")
        wanted = _followed(subject, rest, state)

        def matters(path: str, leaf: Tensor, rest: Tensor = rest, wanted: Tensor = wanted) -> bool:
            for value in (others.get(path), _anything_else(leaf), torch.zeros_like(leaf)):
                if value is None or value.shape != leaf.shape:
                    continue
                changed = _with(state, path, value)
                found = attempted(partial(_followed, subject, rest, changed))
                # What cannot be read any more depended on it.
                if isinstance(found, str) or compared(found, wanted, 0.0).largest > 0:
                    return True
            return False

        left = {path: leaf for path, leaf in left.items() if not matters(path, leaf)}
    return list(left)


def _followed(subject: Subject, rest: Tensor, state: Any) -> Tensor:
    """Logits of a few tokens one at a time, or of many at once."""
    few = rest.shape[1] <= MORE or subject.dialect == "transformers"
    return go_on(subject, rest, state) if few else subject.read(rest, state)[0]


def _with(state: Any, path: str, value: Tensor) -> Any:
    """The state with another tensor at a path."""
    return mapped(state, lambda at, old: value if at == path else old)


def go_on(subject: Subject, rest: Tensor, state: Any) -> Tensor:
    """Logits of tokens (B, T) after a state, read one at a time, as every model can."""
    logits = []
    for at in range(rest.shape[1]):
        out, state = subject.read(rest[:, at : at + 1], state)
        logits.append(out)
    return torch.cat(logits, 1)


def _anything_else(leaf: Tensor) -> Tensor:
    """A tensor that differs in every place."""
    if leaf.dtype == torch.bool:
        return ~leaf
    return leaf + 1 + leaf.abs().amax() if leaf.is_floating_point() else leaf + 1


def saved(exam: Examination) -> Outcome:
    """Through a file into a fresh process, or into a copy of the model that has read nothing."""
    subject, half = exam.subject, exam.length // 2
    first, rest = exam.text[:, :half], exam.text[:, half : half + 4]
    if subject.source is not None and subject.dialect == "native":
        case = Case(subject.source, first.cpu(), rest.cpu(), None, subject.options)
        same = check_in_fresh_process([case])[0][1]
        note = "in a fresh process"
        return Outcome("kept" if same else "broken", 0.0 if same else None, 0.0, note=note)
    if subject.module is None:
        raise NotAskedError("a plain function cannot be copied: there is none that read nothing")
    _, state = subject.read(first)
    wanted = go_on(subject, rest, state)
    with tempfile.TemporaryDirectory() as folder:
        home = subject.left or Path(folder)
        write_tensors(home / STATE, tensors(state), {})
        other = exam.other[:, :half]
        write_tensors(home / REST, {"tokens": rest, "logits": wanted, "other": other}, {})
        found = continued(subject.on(copy.deepcopy(subject.module)), home)[0]
    return exam.judge(found, wanted, half, "in a copy of the model")


def continued(subject: Subject, home: Path) -> tuple[Tensor, Tensor]:
    """Logits of what follows a state that was left in a folder, and what they should be.

    Its tensors take the place of those of another text, which this subject has read.
    """
    held, about = read_tensors(home / STATE)[0], read_tensors(home / REST)[0]
    device = subject.device
    _, template = subject.read(about["other"].to(device))
    made = mapped(template, lambda path, leaf: held[path].to(device) if path in held else leaf)
    return go_on(subject, about["tokens"].to(device), made), about["logits"].to(device)


def measured_bytes(exam: Examination) -> Outcome:
    """Bytes of one stream after half the text and all of it, against what is declared."""
    subject, half = exam.subject, exam.length // 2
    one = exam.text[:1]
    sizes = [nbytes(subject.read(one[:, :end])[1]) for end in (half, exam.length)]
    state = None
    for part in torch.split(one, exam.cuts(0), 1):
        _, state = subject.read(part, state)
    growth = (sizes[1] - sizes[0]) / (exam.length - half)
    said = f"{sizes[1]:,} bytes after {exam.length} tokens, {growth:,.0f} more a token"
    if nbytes(state) != sizes[1]:
        return Outcome("broken", note=f"{said}; in pieces {nbytes(state):,} bytes")
    if subject.declared is not None and (wanted := subject.declared(exam.length)) != sizes[1]:
        return Outcome("broken", note=f"{said}; declared are {wanted:,}")
    return Outcome("kept", note=said)


def _same(left: Tensor, right: Tensor | None) -> bool:
    return right is not None and left.shape == right.shape and torch.equal(left, right)
