"""Models that can be talked to: runs of the task dialogue, and models of `transformers`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from mnemoscope.activations.streams.infinite_stream import InfinitePageStream
from mnemoscope.activations.streams.native_stream import NativePageStream
from mnemoscope.activations.streams.page_stream import PageStream
from mnemoscope.chat.document import ChatDocument, chat_document
from mnemoscope.chat.writing import TaskWriting, Writing, writing_of
from mnemoscope.core.errors import UserError
from mnemoscope.core.nearby import refuse_missing
from mnemoscope.core.registry import MEMORIES
from mnemoscope.data.dialogue.script import marked_script
from mnemoscope.data.dialogue.task import Dialogue
from mnemoscope.data.dialogue.tokens import by_bpe
from mnemoscope.data.vocabulary import Merges, Vocabulary
from mnemoscope.huggingface import saved
from mnemoscope.huggingface.config import TransformerXLOptions
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.infinite.pasts import without
from mnemoscope.huggingface.loading import architecture, load_config, load_model, rows_of
from mnemoscope.huggingface.untrained import Untrained, untrained
from mnemoscope.open import open_attached
from mnemoscope.training.run import Run

ChatMemory = Literal["infinite", "transformer_xl", "none"]
_KEPT: dict[ChatMemory, Untrained] = {
    "infinite": "sticky",
    "transformer_xl": "transformer_xl",
    "none": "carried",
}
WINDOW, VECTORS = 256, 256
# Tokens of a window of a model that was trained without any.
_AT_ONCE = 512
# What a made-up run must get right of its valid questions to be called one that answers.
_ANSWERS = 0.95


@dataclass(frozen=True, eq=False)
class ChatModel:
    """A model that can be talked to.

    label    what it is and what it carries, in words
    start    gives what reads a stream of tokens, and shows what layers attend to
    window   tokens read at once
    sinks    first tokens that are held whatever they say; attention to them says nothing
    follows  whether the stream must be watched from its first token on to be understood
    attends  whether it attends to what it holds; else nobody can tell where a word is from
    limit    most tokens it can read, None when there is no end
    quality  how good it is, as far as that is known; empty where it is to be measured
    without  its state without what was read before the window, None where nothing is measured
    sample   a document for one who has none, of a made-up task
    """

    name: str
    label: str
    start: Callable[[], PageStream]
    writing: Writing
    window: int
    sinks: int
    follows: bool
    attends: bool
    limit: int | None
    quality: str
    without: Callable[[Any], Any] | None = None
    sample: ChatDocument | None = None


def open_chat(
    source: str,
    memory: str | None = None,
    window: int | None = None,
    vectors: int | None = None,
) -> ChatModel:
    """Open a run, a model of `transformers` by folder or name, or a memory attached to one.

    To a bare model a ``memory`` is attached that needs no training: infinite (sticky slots),
    transformer_xl (the last keys and values) or none (the window alone).
    """
    refuse_missing(source)
    path = Path(os.path.expanduser(source))
    run, kind = os.path.isfile(path / "config.yaml"), saved.kind_of(path)
    given = {"memory": memory, "window": window, "vectors": vectors}
    chosen = [name for name, value in given.items() if value is not None]
    if (run or kind) and chosen:
        raise UserError(f"{source} has a memory of its own: leave --{chosen[0]} out")
    if run:
        return _native(Run.open(path))
    if kind == "documents":
        raise UserError(
            f"{source} holds documents by name and reads none: ask it with mnemoscope documents "
            "ask, or give chat the model it was learnt on"
        )
    if kind is not None:
        attached = open_attached(path, kind, text=True).memory
        assert isinstance(attached, InfiniteMemory)
        return _attached(attached, path.name)
    named = memory or "infinite"
    if named not in get_args(ChatMemory):
        known = ", ".join(get_args(ChatMemory))
        raise UserError(f"unknown memory {named!r}; known: {known}")
    return _bare(source, named, window, vectors)


def _bare(source: str, memory: Any, window: int | None, vectors: int | None) -> ChatModel:
    if window is None:
        config = load_config(source).get_text_config(decoder=True)
        window = min(WINDOW, getattr(config, "max_position_embeddings", WINDOW) // 2 * 2)
    if window % 2 or window < 4:
        raise UserError(f"--window must be an even number from 4 on, not {window}: half is kept")
    kept = max(VECTORS, window // 2) if vectors is None else vectors
    if kept < window // 2:
        raise UserError(f"--vectors must be at least half of --window, {window // 2}, not {kept}")
    kind = architecture(source)
    if kind and not any(word in kind for word in ("CausalLM", "LMHeadModel")):
        raise UserError(f"{source} ({kind}) does not continue texts: give a causal language model")
    model, tokenizer = load_model(source)
    options = untrained(_KEPT[memory], window, kept)
    return _attached(InfiniteMemory(model, options, tokenizer), Path(source).name)


def _attached(memory: InfiniteMemory, name: str) -> ChatModel:
    tokenizer, base, options = memory.text_tokenizer(), memory.base, memory.options
    named = getattr(base.generation_config, "eos_token_id", None)
    ends = [*named] if isinstance(named, list) else [named]
    ends.append(getattr(tokenizer, "eos_token_id", None))
    writing = writing_of(
        name, tokenizer, rows_of(base), frozenset(one for one in ends if one is not None)
    )
    size = options.window
    forget: Callable[[Any], Any] = _nothing
    if memory.slot_plans:
        forget = partial(without, window=size, sinks=options.sinks)
    return ChatModel(
        name,
        f"{type(base).__name__}, {_held(memory)}",
        partial(InfinitePageStream, memory),
        writing,
        size,
        options.sinks,
        follows=bool(memory.reading_layers),
        attends=True,
        limit=None,
        quality="",
        without=forget,
    )


def _nothing(state: Any) -> None:
    return None


def _held(memory: InfiniteMemory) -> str:
    """What a memory holds, in words."""
    options = memory.options
    if isinstance(options, TransformerXLOptions):
        if options.mem_len <= options.window:
            return f"the window alone: the last {options.window} keys and values a layer"
        return f"Transformer-XL's memory: the last {options.mem_len} keys and values a layer"
    if not options.joint:
        return f"∞-former's memory: a signal of {options.basis} functions in chosen layers"
    kept = "those attended to most" if options.sticky else "samples at equal distances"
    return f"∞-former's memory, untrained: {options.basis} vectors a layer, {kept}"


def _native(run: Run) -> ChatModel:
    task = run.config.task
    if not isinstance(task, Dialogue):
        raise UserError(
            f"{run.folder} is a run of the task {run.config.task_name}, which has no turns: train "
            "one with mnemoscope train dialogue, or give a model of transformers"
        )
    model = run.model()
    stream = NativePageStream(model)
    label = MEMORIES[run.config.memory].label if run.config.memory in MEMORIES else ""
    return ChatModel(
        run.folder.name,
        f"run of the task dialogue, {label or run.config.memory}",
        partial(NativePageStream, model),
        _task_writing(run, task, model.config.vocab),
        run.config.training.segment or _AT_ONCE,
        0,
        follows=stream.has_signal,
        attends=stream.attends,
        limit=model.config.limit,
        quality=_quality(run, task),
        sample=_sample(task),
    )


def _task_writing(run: Run, task: Dialogue, vocab: int) -> TaskWriting:
    if task.source is None:
        few = task.written(task.conversations("valid", 4))
        longest = max(one.longest_reply for one in few)
        ends = None if task.script.scores_end else longest
        return TaskWriting(task.script, task.text_of, ends, spaced=True)
    # What the run keeps suffices: its source may be gone.
    vocabulary = Vocabulary.load(run.folder / "vocabulary.json")
    if not isinstance(vocabulary, Merges):
        raise UserError(f"{run.folder / 'vocabulary.json'} is no BPE vocabulary: train again")
    script = marked_script(
        by_bpe(vocabulary), vocabulary.size, vocab - vocabulary.size - 2, scores_end=True
    )
    return TaskWriting(script, lambda ids: vocabulary.decode(np.array(ids)), None, spaced=False)


def _quality(run: Run, task: Dialogue) -> str:
    """How good a run is by its own log."""
    steps = run.config.training.steps
    tests = [entry for entry in run.metrics() if "valid_loss" in entry]
    said = []
    if not tests:
        said.append("nothing is measured: it was never validated")
    else:
        last = tests[-1]
        loss, right = last["valid_loss"], last.get("valid_accuracy")
        said.append(f"valid loss {loss:.3f} nats per token after step {last['step']} of {steps}")
        chance = last.get("majority_accuracy")
        if right is not None and chance is not None:
            said.append(f"{right:.0%} of the answers right, guessing has {chance:.0%}")
            verdict = "it answers" if right >= _ANSWERS else "it knows some answers"
            said.append(verdict if right > chance + 0.05 else "it guesses")
        elif right is not None:
            blind = math.log(run.config.model.vocab)
            said.append(f"{right:.0%} of the next tokens right; a blind guess costs {blind:.2f}")
    if not run.finished:
        said.append("training has not come to its end")
    if task.document != "own":
        said.append("it was trained without the documents, so it cannot use one")
    return "; ".join(said)


def _sample(task: Dialogue) -> ChatDocument | None:
    if task.source is not None:
        return None
    made_up = task.conversations("test", 1, seed=1)[0].document
    return chat_document("made up", "\n---\n".join(made_up.sections))
