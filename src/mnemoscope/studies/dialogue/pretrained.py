"""A pretrained model follows conversations with memories that need no training: models run here.

What is measured of every contestant is kept by a few conversations at a time, so that a study that
is stopped loses little.

Shapes: C conversations, T tokens of the turns of one, G groups of tokens.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mnemoscope.activations.streams.infinite_stream import InfinitePageStream
from mnemoscope.core.arrays import Floats
from mnemoscope.data.dialogue.corpus import recognise
from mnemoscope.data.dialogue.script import TURNS, check_against_window
from mnemoscope.data.dialogue.task import Control
from mnemoscope.huggingface import blocks
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.stream import HuggingFaceStream
from mnemoscope.huggingface.untrained import SINKS, untrained
from mnemoscope.studies.dialogue.attended import WATCHED, attended
from mnemoscope.studies.dialogue.by_name import Learned, learn
from mnemoscope.studies.dialogue.contestants import BY_NAME, CEILING, FLOOR, LABELS, UNTRAINED
from mnemoscope.studies.dialogue.facts import shown_conversation
from mnemoscope.studies.dialogue.groups import KINDS, Groups
from mnemoscope.studies.dialogue.holding import KEPT, attached_for
from mnemoscope.studies.dialogue.metrics import require_scorers
from mnemoscope.studies.dialogue.pretrained_replies import replies, speaks
from mnemoscope.studies.dialogue.read_corpus import corpus_of
from mnemoscope.studies.dialogue.result import (
    Attended,
    DialogueModel,
    DialogueResult,
    DialogueTrial,
    Examined,
    Grid,
    Learnt,
)
from mnemoscope.studies.pretrained import Scored, reader_of, remembered, whole, window_alone
from mnemoscope.studies.trials import measure_all

if TYPE_CHECKING:
    from mnemoscope.studies.dialogue.study import DialogueStudy

# Conversations whose answers are kept in one file.
BLOCK = 4


def measure_pretrained(study: DialogueStudy, folder: Path) -> DialogueResult:
    """Floor and ceiling read; if there is something to recover, then all contestants."""
    if speaks(study):
        require_scorers()
    corpus = corpus_of(study)
    written = corpus.written["own"]
    warnings = check_against_window(written, study.window)
    groups, found = Groups(written), {}
    for name in (FLOOR, CEILING):
        found[name] = _examined(study, name, folder)
    place = groups.names.index("document")
    saved = _sum(found[FLOOR].nats["none"], place) - _sum(found[CEILING].nats["own"], place)
    learnt: Learnt | None = None
    stopped = saved / max(1.0, groups.counts[:, place].sum()) < study.least_gain
    if not stopped:
        learnt = _learnt(study, folder) if BY_NAME in study.memories else None
        for name in [one for one in study.memories if one in (*UNTRAINED, BY_NAME)]:
            found[name] = _examined(study, name, folder)
    longest = max(len(one.ids) for one in written)
    _, tokenizer = reader_of(study)
    return DialogueResult(
        source=Path(study.source or "").name,
        corpus=recognise(study.source or ""),
        **study.some("window", "vectors", "least_gain"),
        seeds=1,
        chance=None,
        unigram=corpus.unigram,
        stopped=bool(stopped),
        groups=groups.names,
        conversations=groups.read(corpus.conversations),
        warnings=warnings,
        learnt=learnt,
        models={name: _facts(study, name, longest, folder) for name in found},
        trials=tuple(DialogueTrial(name, 0.0, 0, "", one) for name, one in found.items()),
        shown=tuple(
            shown_conversation(tokenizer.decode, one.document.sections, one.speakers, read)
            for one, read in zip(corpus.conversations[: study.shown], written, strict=False)
        ),
        pretrained=Path(study.model or "").name,
        dtype=study.dtype,
    )


def _examined(study: DialogueStudy, name: str, folder: Path) -> Examined:
    """All conversations with one contestant, from what was kept or by reading."""
    count = len(corpus_of(study).conversations)
    names = [f"{name} {first}" for first in range(0, count, BLOCK)]
    kept = measure_all(
        names,
        partial(_block, study, folder),
        folder / "pretrained",
        1,
        f"dialogue, {name}",
        kind=Examined,
    )
    blocks_read = [kept[one] for one in names]
    first = blocks_read[0]

    def joined(grids: list[Grid]) -> Grid:
        return tuple(row for grid in grids for row in grid)

    return Examined(
        {one: joined([block.nats[one] for block in blocks_read]) for one in first.nats},
        {one: joined([block.right[one] for block in blocks_read]) for one in first.right},
        0.0,
        sum(block.seconds for block in blocks_read),
        joined([block.shown for block in blocks_read]),
        replies(study, name, folder) if speaks(study) else (),
        attended=_all_attended([block.attended for block in blocks_read]),
    )


def _learnt(study: DialogueStudy, folder: Path) -> Learnt:
    """Let a document memory learn all documents, from what was kept or anew."""
    kept = measure_all(
        [BY_NAME],
        partial(_learn, study, folder),
        folder / "pretrained",
        1,
        "dialogue, documents by name",
        kind=Learnt,
    )
    return kept[BY_NAME]


def _learn(study: DialogueStudy, folder: Path, name: str) -> Learnt:
    model, tokenizer = reader_of(study)
    sizes = (study.document_entries, study.document_epochs)
    return learn(corpus_of(study).written["own"], model, tokenizer, folder, *sizes)


def _block(study: DialogueStudy, folder: Path, name: str) -> Examined:
    """A few conversations with one contestant, under all controls that it has."""
    contestant, _, number = name.rpartition(" ")
    corpus, begun = corpus_of(study), time.monotonic()
    here = slice(int(number), int(number) + BLOCK)
    own = corpus.written["own"]
    groups = Groups(own)
    memory = attached_for(study, contestant, folder)
    try:
        controls: tuple[Control, ...] = ("own", "none", "another")
        nats: dict[str, Grid] = {}
        right: dict[str, Grid] = {}
        shown: list[Floats] = []
        for control in controls if contestant != FLOOR else controls[1:2]:
            read = [
                _read(study, contestant, memory, number, control)
                for number in range(len(own))[here]
            ]
            trained = control == ("none" if contestant == FLOOR else "own")
            kept = None if trained else len(KINDS)
            for grids, which in ((nats, 0), (right, 1)):
                masks = groups.masks[here]
                sums = [mask @ one[which] for mask, one in zip(masks, read, strict=True)]
                grids[control] = _rounded([row[:kept] for row in sums])
            if trained:
                texts = [~one.mark[one.part == TURNS] for one in own[here]]
                few = max(0, study.shown - int(number))
                losses = [one[0][text] for one, text in zip(read, texts, strict=True)]
                shown = losses[:few]
        seen = None
        watched = own[here][: max(0, WATCHED - int(number))]
        if isinstance(memory, InfiniteMemory) and watched:
            size = memory.options.window
            start = partial(InfinitePageStream, memory)
            seen = attended(start, watched, size, corpus.begin, SINKS)
    finally:
        if memory is not None:
            memory.detach()
    took = time.monotonic() - begun
    return Examined(nats, right, 0.0, took, _rounded(shown), attended=seen)


def _read(
    study: DialogueStudy,
    contestant: str,
    memory: InfiniteMemory | Learned | None,
    number: int,
    control: Control,
) -> Scored:
    """Loss of each token of the turns, and whether it was foreseen, (T,); 0 where none is due."""
    model, _ = reader_of(study)
    corpus = corpus_of(study)
    begin, document = corpus.begin, corpus.written[control][number]
    # What is known by name is not read.
    one = corpus.written["none"][number] if contestant == BY_NAME else document
    ids = torch.tensor([[*begin, *one.ids.tolist()]], device=next(model.parameters()).device)
    turns = len(begin) + np.flatnonzero(one.part == TURNS)
    # The very first token of a stream is never due: nothing comes before it.
    start = max(0, int(turns[0]) - 1)
    if isinstance(memory, Learned):
        with memory.opened(document):
            found = window_alone(model, ids, start, study.window)
    elif memory is not None:
        found = remembered(memory, ids, start)
    elif contestant == CEILING:
        found = whole(model, ids, start)
    else:
        found = window_alone(model, ids, start, study.window)
    due = one.reply[one.part == TURNS]
    lost = len(turns) - found[0].shape[1]
    losses, hits = (np.concatenate((np.zeros(lost), row[0])) * due for row in found)
    return losses, hits


def _facts(study: DialogueStudy, name: str, longest: int, folder: Path) -> DialogueModel:
    model, tokenizer = reader_of(study)
    count = sum(one.numel() for one in model.parameters())
    tokens = torch.zeros(1, 2 * study.window, dtype=torch.long)
    tokens = tokens.to(next(model.parameters()).device)
    with torch.no_grad():
        if name in KEPT:
            memory = InfiniteMemory(model, untrained(KEPT[name], study.window, study.vectors))
            size = memory.read(tokens).nbytes
            memory.detach()
        elif name == BY_NAME:
            learned = Learned(corpus_of(study).written["own"], model, tokenizer, folder)
            size = learned.nbytes
            learned.detach()
        else:
            # Keys and values grow with every token: the difference is what one of them takes.
            stream = HuggingFaceStream(model)
            few, more = (stream(tokens[:, :n]).state.nbytes for n in (4, 8))
            size = (more - few) // 4 * (longest if name == CEILING else study.window)
    said = LABELS.get(name) or UNTRAINED[name]
    return DialogueModel(said, count, blocks.width_of(model), size, 0.0)


def _all_attended(found: list[Attended | None]) -> Attended | None:
    known = [one for one in found if one is not None]
    if not known:
        return None
    most = max(len(one.sections[0]) for one in known)
    return Attended(
        tuple(row for one in known for row in one.positions),
        tuple(row + (0.0,) * (most - len(row)) for one in known for row in one.sections),
        tuple(value for one in known for value in one.about),
        tuple(value for one in known for value in one.uniform),
        tuple(value for one in known for value in one.by_chance),
    )


def _sum(grid: Grid, place: int) -> float:
    return float(sum(row[place] for row in grid))


def _rounded(rows: list[Any]) -> Grid:
    return tuple(tuple(np.round(row, 4).tolist()) for row in rows)
