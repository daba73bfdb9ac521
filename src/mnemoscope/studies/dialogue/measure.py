"""Let trained models read documents and follow conversations: this is where models run.

Shapes: C conversations, T tokens of the turns of one, G groups of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from mnemoscope.activations.streams.native_stream import NativePageStream
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.dialogue.conversation import Conversation
from mnemoscope.data.dialogue.script import TURNS, Written
from mnemoscope.data.dialogue.task import Dialogue as Task
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.generation import generate
from mnemoscope.models.model import SequenceModel, StreamState
from mnemoscope.studies.dialogue.attended import WATCHED, attended
from mnemoscope.studies.dialogue.groups import KINDS, Groups
from mnemoscope.studies.dialogue.metrics import compare
from mnemoscope.studies.dialogue.result import Attended, Examined, Grid, Replies
from mnemoscope.studies.dialogue.study import CONTROLS, TEST_SEED
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

# Conversations read side by side, and tokens read at once by who sees all: what it carries makes
# that the same as reading them all at once.
ROWS, AT_ONCE = 32, 512
# Tokens of a reply before a model that does not end it is cut off.
LONGEST_REPLY = 60
# Sampled replies are drawn from the likeliest tokens that reach this probability.
NUCLEUS = 0.9


def examine(folder: Path, conversations: int | None, shown: int, spoken: int) -> Examined:
    """Test a finished run under all controls; one trained without documents under that alone."""
    run = Run.open(folder)
    task = run.config.task
    if not isinstance(task, Task):
        raise UserError(f"{folder} is not a run of the task dialogue")
    model = run.model().to(join(run.config.training.device).device)
    segment = run.config.training.segment or AT_ONCE
    held = task.conversations("test", conversations, seed=TEST_SEED)
    groups = Groups(task.written(held, "own"))
    nats: dict[str, Grid] = {}
    right: dict[str, Grid] = {}
    first: list[Floats] = []
    for control in CONTROLS if task.document == "own" else (task.document,):
        written = task.written(held, control)
        losses, hits = follow(model, written, segment)
        # Sections and ages are looked at with the document that training had.
        kept = None if control == task.document else len(KINDS)
        nats[control] = _grid(groups.sums(losses)[:, :kept])
        right[control] = _grid(groups.sums(hits)[:, :kept])
        if control == task.document:
            first = [
                loss[~one.mark[one.part == TURNS]]
                for one, loss in zip(written[:shown], losses, strict=False)
            ]
    return Examined(
        nats,
        right,
        run.valid_loss,
        run.seconds,
        _grid(first),
        speak(model, task, held, spoken, segment) if spoken else (),
        _attended(model, task.written(held[:WATCHED]), segment) if task.document == "own" else None,
    )


def _attended(model: SequenceModel, written: Sequence[Written], segment: int) -> Attended | None:
    """Where attention fell on the documents; None where a layer attends to no tokens."""
    if not NativePageStream(model).attends:
        return None
    with evaluating(model):
        return attended(partial(NativePageStream, model), written, segment)


def _grid(rows: Sequence[Floats] | Floats) -> Grid:
    """Numbers as they are written to JSON: four digits tell all that differs between seeds."""
    return tuple(tuple(np.round(row, 4).tolist()) for row in rows)


@torch.no_grad()
def follow(
    model: SequenceModel, written: Sequence[Written], segment: int
) -> tuple[list[Floats], list[Floats]]:
    """Of every conversation the loss of each token of its turns, and whether it was foreseen, (T,).

    Both are zero where nothing is due.
    """
    device = model.readout.weight.device
    found: dict[int, tuple[Floats, Floats]] = {}
    order = sorted(range(len(written)), key=lambda place: len(written[place].ids))
    with evaluating(model):
        for begin in range(0, len(order), ROWS):
            places = order[begin : begin + ROWS]
            rows = [written[place] for place in places]
            longest = max(len(one.ids) for one in rows)
            ids = np.zeros((len(rows), longest), dtype=np.int64)
            due = np.full_like(ids, NO_QUESTION)
            for row, one in enumerate(rows):
                ids[row, : len(one.ids)] = one.ids
                due[row, : len(one.ids)] = np.where(one.reply, one.ids, NO_QUESTION)
            tokens, targets = torch.from_numpy(ids[:, :-1]), torch.from_numpy(due[:, 1:])
            losses, hits = torch.zeros(2, *targets.shape)
            state: StreamState | None = None
            for left in range(0, longest - 1, segment):
                here = slice(left, left + segment)
                answers = targets[:, here].to(device)
                if bool((answers == NO_QUESTION).all()):
                    state = model.prefill(tokens[:, here].to(device), state)
                    continue
                out = model(tokens[:, here].to(device), state)
                state = out.state
                logits = out.logits.float()
                losses[:, here] = F.cross_entropy(
                    logits.transpose(1, 2), answers, ignore_index=NO_QUESTION, reduction="none"
                ).cpu()
                hits[:, here] = (logits.argmax(-1) == answers).float().cpu()
            for row, (place, one) in enumerate(zip(places, rows, strict=True)):
                turns = np.flatnonzero(one.part == TURNS)
                # Token j is predicted at j - 1; the very first token is never due.
                pair = [
                    np.where(turns > 0, values[row].double().numpy()[turns - 1], 0.0)
                    for values in (losses, hits)
                ]
                found[place] = pair[0], pair[1]
    ordered = [found[place] for place in range(len(written))]
    return [loss for loss, _ in ordered], [hit for _, hit in ordered]


def speak(
    model: SequenceModel, task: Task, held: Sequence[Conversation], count: int, segment: int
) -> tuple[Replies, ...]:
    """Let a model give a reply in so many conversations, the middle one of each, and score it."""
    device = model.readout.weight.device
    some = [held[place * len(held) // count] for place in range(min(count, len(held)))]
    said: dict[str, list[str]] = {"greedy": [], "sampled": []}
    meant: list[str] = []
    sampler = torch.Generator(device).manual_seed(derive(0, "replies"))
    for one, read in zip(some, task.written(some), strict=True):
        turns = np.unique(read.turn[read.reply])
        turn = turns[len(turns) // 2]
        begin = int(np.flatnonzero(read.reply & (read.turn == turn))[0])
        prompt = torch.from_numpy(read.ids[None, :begin]).to(device)
        *before, last = torch.split(prompt, segment, 1)
        state: StreamState | None = None
        with torch.no_grad(), evaluating(model):
            for part in before:
                state = model.prefill(part, state)
        meant.append(one.turns[turn].text)
        for how in said:
            reply = generate(
                model,
                last,
                LONGEST_REPLY,
                state=state,
                temperature=0 if how == "greedy" else 1,
                top_p=NUCLEUS,
                stop=task.script.end[0],
                generator=sampler,
            ).tokens[0]
            said[how].append(task.text_of(reply[reply < task.script.end[0]].tolist()))
    return tuple(compare(how, texts, meant) for how, texts in said.items())
