"""Replies that a pretrained model gives, with what each contestant holds: models run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.seeds import derive
from mnemoscope.data.dialogue.conversation import Conversation
from mnemoscope.data.dialogue.script import Written
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.stream import HuggingFaceStream
from mnemoscope.models.generation import choose
from mnemoscope.studies.dialogue.by_name import Learned
from mnemoscope.studies.dialogue.contestants import BY_NAME, FLOOR
from mnemoscope.studies.dialogue.holding import attached_for
from mnemoscope.studies.dialogue.measure import LONGEST_REPLY, NUCLEUS
from mnemoscope.studies.dialogue.metrics import compare
from mnemoscope.studies.dialogue.read_corpus import corpus_of
from mnemoscope.studies.dialogue.result import Replies, Spoken
from mnemoscope.studies.pretrained import reader_of
from mnemoscope.studies.trials import measure_all

if TYPE_CHECKING:
    from mnemoscope.studies.dialogue.study import DialogueStudy

# A turn is written on a line of its own.
ENDS = "\n"
# Tokens read at once by who sees all.
AT_ONCE = 512


class Voice:
    """A model that reads tokens after a state, and then says some.

    ``window``: tokens are read so that none of what is read at once crosses a window's end.
    """

    def __init__(self, call: Callable[[Tensor, Any], Any], window: int, device: Any) -> None:
        self.call, self.window, self.device = call, window, device

    def feed(self, ids: Sequence[int], state: Any, read: int) -> tuple[Tensor, Any]:
        """Read ids after ``read`` tokens; logits (1, V) after the last, and the state."""
        done, out = 0, None
        while done < len(ids):
            stop = min(len(ids), done + self.window - (read + done) % self.window)
            out = self.call(torch.tensor([list(ids[done:stop])], device=self.device), state)
            state, done = out.state, stop
        assert out is not None
        return out.logits[:, -1].float().cpu(), state

    @torch.no_grad()
    def say(
        self, prompt: Sequence[int], decode: Callable[[list[int]], str], sampler: torch.Generator
    ) -> tuple[str, str]:
        """A greedy and a sampled reply to the same prompt, up to the end of a line."""
        first, begun = self.feed(prompt, None, 0)
        said = []
        for temperature in (0.0, 1.0):
            logits, state, ids = first, begun, list[int]()
            while True:
                ids.append(int(choose(logits, temperature, None, NUCLEUS, sampler)))
                text = decode(ids)
                if ENDS in text.lstrip() or len(ids) == LONGEST_REPLY:
                    break
                logits, state = self.feed(ids[-1:], state, len(prompt) + len(ids) - 1)
            said.append(text.strip().partition(ENDS)[0])
        return said[0], said[1]


def speak(
    model: Any,
    memory: InfiniteMemory | Learned | None,
    conversations: Sequence[Conversation],
    written: Sequence[Written],
    documents: Sequence[Written],
    begin: Sequence[int],
    window: int | None,
    decode: Callable[[list[int]], str],
    count: int,
) -> tuple[Replies, ...]:
    """One reply in each of so many conversations, the middle one of each, and its scores.

    ``written`` is what is read, its last ``window`` tokens if there is one; ``documents`` say which
    document a memory by name opens.
    """
    device = next(model.parameters()).device
    size = memory.options.window if isinstance(memory, InfiniteMemory) else AT_ONCE
    call = memory if isinstance(memory, InfiniteMemory) else HuggingFaceStream(model)
    voice = Voice(call, size, device)
    sampler = torch.Generator().manual_seed(derive(0, "replies"))
    some = min(count, len(written))
    said, meant = [], []
    for place in (number * len(written) // some for number in range(some)):
        one = written[place]
        turns = np.unique(one.turn[one.reply])
        turn = int(turns[len(turns) // 2])
        end = int(np.flatnonzero(one.reply & (one.turn == turn))[0])
        ids = [*begin, *one.ids[:end].tolist()]
        with _opened(memory, documents[place]):
            said.append(voice.say(ids if window is None else ids[-window:], decode, sampler))
        meant.append(conversations[place].turns[turn].text)
    greedy, sampled = zip(*said, strict=True)
    return compare("greedy", greedy, meant), compare("sampled", sampled, meant)


def _opened(
    memory: InfiniteMemory | Learned | None, document: Written
) -> AbstractContextManager[None]:
    return memory.opened(document) if isinstance(memory, Learned) else nullcontext()


def speaks(study: DialogueStudy) -> bool:
    """Whether replies are asked for: they take minutes each, so only where somebody says so."""
    return bool(study.spoken) and "spoken" in study.model_fields_set


def replies(study: DialogueStudy, name: str, folder: Path) -> tuple[Replies, ...]:
    """Scores of what a contestant says, from what was kept or anew."""
    names, call = [f"{name} replies"], partial(_spoken, study, folder)
    words = f"dialogue, replies of {name}"
    kept = measure_all(names, call, folder / "pretrained", 1, words, kind=Spoken)
    return kept[names[0]].replies


def _spoken(study: DialogueStudy, folder: Path, name: str) -> Spoken:
    """Replies that a contestant gives: floor and document memory read what is in the window."""
    contestant = name.partition(" ")[0]
    model, tokenizer = reader_of(study)
    corpus, memory = corpus_of(study), attached_for(study, contestant, folder)
    near = contestant in (FLOOR, BY_NAME)
    try:
        return Spoken(
            speak(
                model,
                memory,
                corpus.conversations,
                corpus.written["none" if near else "own"],
                corpus.written["own"],
                corpus.begin,
                study.window if near else None,
                tokenizer.decode,
                study.spoken,
            )
        )
    finally:
        if memory is not None:
            memory.detach()
