"""Ask a subject for every promise."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mnemoscope import __version__
from mnemoscope.checks.examination import TOKENS, Examination, Outcome, attempted, failure
from mnemoscope.checks.opened import is_memory, open_subject
from mnemoscope.checks.promises import PROMISES, Promise
from mnemoscope.checks.result import BAD, Cell, CheckResult, Row
from mnemoscope.checks.snippets import snippet
from mnemoscope.checks.subject import NotAskedError, Subject
from mnemoscope.checks.weights import make_state_matter
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import load
from mnemoscope.models.evaluating import evaluating


def check(
    source: Any,
    *,
    only: Sequence[str] | None = None,
    tokens: int = TOKENS,
    seed: int = 0,
    **options: Any,
) -> CheckResult:
    """Open a model, whatever it is given as, and ask it for every promise, or for some."""
    asked = chosen(only)
    # What is opened is put into evaluation mode; a model that somebody trains goes on training.
    modes = [one for one in [source] if isinstance(one, torch.nn.Module)]
    with evaluating(modes[0] if modes else torch.nn.Identity()):
        subject = open_subject(source, **options)
        if is_memory(source) and subject.module is not None:
            make_state_matter(subject.module)
        row = examine(subject, asked, tokens, seed)
    return CheckResult((row,), tuple(one.name for one in asked), versions())


def chosen(only: Sequence[str] | None) -> list[Promise]:
    """The promises of these names, or all."""
    for name in only or ():
        if name not in PROMISES:
            raise UserError(f"unknown promise {name!r}; {suggestion(name, PROMISES)}")
    return [one for one in PROMISES.values() if only is None or one.name in only]


def versions() -> dict[str, str]:
    """Of the libraries whose models are asked."""
    known = {"mnemoscope": __version__}
    for name in ("torch", "transformers"):
        found = attempted(lambda name=name: importlib.metadata.version(name))
        known[name] = found if found[:1].isdigit() else "not installed"
    return known


def examine(subject: Subject, asked: Sequence[Promise], tokens: int = TOKENS, seed: int = 0) -> Row:
    """The row of a subject: a cell for every promise that is asked."""
    began = time.process_time()
    exam = Examination(subject, tokens, seed)
    cells = tuple(_cell(exam, promise) for promise in asked)
    module = subject.module
    return Row(
        subject.name,
        type(module).__name__ if module is not None else "function",
        0 if module is None else sum(weight.numel() for weight in module.parameters()),
        exam.noise,
        time.process_time() - began,
        cells,
    )


def _cell(exam: Examination, promise: Promise) -> Cell:
    found = _found(exam, promise)
    shown = ""
    if found.verdict in (*BAD, "limit"):
        shown = snippet(exam.subject, promise.name, exam, found)
    return Cell(
        promise.name, found.verdict, found.largest, found.tolerance, found.where, found.note, shown
    )


def _found(exam: Examination, promise: Promise) -> Outcome:
    for need in promise.needs:
        reason = attempted(lambda need=need: exam.subject.lacks(need))
        if reason is not None:
            return Outcome("not asked", note=reason)
    ask: Callable[[Examination], Outcome] = load(f"mnemoscope.checks.{promise.path}")
    try:
        return ask(exam)
    except NotAskedError as error:
        return Outcome("not asked", note=str(error))
    # The model is somebody else's, and may fail in any way: that is what is being found out.
    except Exception as error:
        return Outcome("error", note=failure(error))
