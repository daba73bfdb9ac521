"""Models of ours for the page: runs on streams of text or symbols, translators, encoders."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from mnemoscope.activations.streams.native_stream import NativePageStream
from mnemoscope.activations.streams.views.view import Json
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS
from mnemoscope.data import grammar
from mnemoscope.data.batch import NO_QUESTION, Task
from mnemoscope.data.book import Book
from mnemoscope.data.masking import FillIn
from mnemoscope.data.parallel import read_pairs
from mnemoscope.data.sentences import Sentences
from mnemoscope.data.translation import PairsTask, encode
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.models.encoder.model import EncoderModel
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.models.translator import Translator
from mnemoscope.scope.encoder_stream import EncoderPageStream
from mnemoscope.scope.episodes import END, Phrase, TaskWords, words_of
from mnemoscope.scope.records import is_file
from mnemoscope.scope.run_index import MODELS
from mnemoscope.scope.served import ServedModel, about_model
from mnemoscope.scope.token_text import (
    BRACKETED,
    TokenText,
    following,
    in_words,
    masked,
    numbers,
    token_hint,
)
from mnemoscope.scope.translator_stream import TranslatorPageStream
from mnemoscope.training.run import Run

T = TypeVar("T")

# An episode is read in short segments, so that a state can be seen between them.
EPISODE_SEGMENT, MOST_EXAMPLE = 8, 1024
# Of an example for a model that fills in words, each word after so many others is hidden.
EVERY = 7
# The example of a translator is the sentence after so many others.
SENTENCES = 8
TWO_LINES = "The sentence to translate; a second line, if any, is what the model has to say."


def served(folder: Path, name: str, trained: bool) -> ServedModel:
    """The model of a run, or the same before its first step."""
    run = Run.open(folder)
    check_size(run, folder)
    model = run.model() if trained else run.untrained().eval()
    labels = {one: entry.label for kind in MODELS for one, entry in KINDS[kind].items()}
    facts = about_model(
        name if trained else f"{name}, untrained",
        labels.get(run.config.memory) or run.config.memory,
        model,
        trained=trained,
    )
    if isinstance(model, SourceModel):
        return _translator(run, model, facts)
    if isinstance(model, EncoderModel):
        return _encoder(run, model, facts)
    words = _if_there(lambda: words_of(run.config.task), None)
    if words is None and is_file(folder / "vocabulary.json"):
        return _text(run, model, facts)
    return _episodes(run, model, facts, words or numbers(model.config.vocab))


def _episodes(run: Run, model: SequenceModel, facts: Json, words: TaskWords) -> ServedModel:
    """A model that reads symbols of a task."""
    example = _if_there(lambda: _episode(run.config.task, words), "")
    facts |= _symbols(words) | {"example": example, "segment": EPISODE_SEGMENT}
    return ServedModel(
        facts,
        lambda text: in_words(words, text),
        _named(words.answers),
        lambda _: NativePageStream(model),
        model.config.limit,
    )


def _text(run: Run, model: SequenceModel, facts: Json) -> ServedModel:
    """A model that reads text, and says what follows or, once, where it is from."""
    task, vocabulary = run.config.task, Vocabulary.load(run.folder / "vocabulary.json")
    show = _with_end(vocabulary, None)
    say = show
    if task.outputs is not None:
        say = _named(_if_there(lambda: task.names if isinstance(task, Book) else (), ()))

    def parse(text: str) -> TokenText:
        tokens: list[int] = vocabulary.encode(text).tolist()
        names = [show(one) for one in tokens]
        if task.outputs is None:
            return TokenText(tokens, names, following(tokens))
        last = max(0, len(tokens) - 1)
        phrases = [Phrase(0, last, "write", f"read {last} tokens")] if last else []
        phrases.append(Phrase(last, last + 1, "ask", "which document?"))
        return TokenText(tokens, names, [NO_QUESTION] * len(tokens), phrases)

    limit = model.config.limit
    return ServedModel(facts, parse, say, lambda _: NativePageStream(model), limit)


def _encoder(run: Run, model: EncoderModel, facts: Json) -> ServedModel:
    """A model that reads a text at once, and fills in what is hidden or says what follows."""
    task = run.config.task
    hides = isinstance(task, FillIn) and task.objective == "masked"
    words = _if_there(lambda: words_of(task), None)
    if words is not None:
        parse, say = _whole_episode(words, hides), _named(words.answers)
        example = _if_there(lambda: _episode(task, words, brackets=hides), "")
        facts |= _symbols(words)
    else:
        vocabulary = Vocabulary.load(run.folder / "vocabulary.json")
        end = vocabulary.size if isinstance(task, Sentences) else None
        parse, say = _whole_text(vocabulary, end, hides), _with_end(vocabulary, end)
        example = _if_there(lambda: _sentence(task, vocabulary, hides), "")
    hints = [facts["hint"], BRACKETED if hides else None]
    facts |= {"kind": "encoder", "example": example, "hint": " ".join(filter(None, hints)) or None}
    return ServedModel(facts, parse, say, lambda _: EncoderPageStream(model), model.config.limit)


def _whole_episode(words: TaskWords, hides: bool) -> Callable[[str], TokenText]:
    def parse(text: str) -> TokenText:
        found = in_words(words, text, len(words.tokens) - 1 if hides else None)
        edges = (0, len(found.tokens))
        if hides:
            return TokenText(found.tokens, found.names, found.targets, found.phrases, edges)
        return TokenText(found.tokens, found.names, following(found.tokens), [], edges)

    return parse


def _whole_text(vocabulary: Vocabulary, end: int | None, hides: bool) -> Callable[[str], TokenText]:
    show, hidden = _with_end(vocabulary, end), vocabulary.size + (end is not None)

    def parse(text: str) -> TokenText:
        if hides:
            return masked(vocabulary, text, hidden, end, show)
        ids = vocabulary.encode(text) if end is None else encode(vocabulary, [text])[0]
        tokens: list[int] = ids.tolist()
        names = [show(one) for one in tokens]
        return TokenText(tokens, names, following(tokens), [], (0, len(tokens)))

    return parse


def _translator(run: Run, model: SourceModel, facts: Json) -> ServedModel:
    kept, task = run.translator(), run.config.task
    translator = kept if facts["trained"] else Translator(model, kept.source, kept.target)
    end = translator.target.size
    show = _with_end(translator.source, translator.source.size)
    say = _with_end(translator.target, end)

    def parse(text: str) -> TokenText:
        lines = [one.strip() for one in text.splitlines() if one.strip()]
        if not lines:
            return TokenText([], [], [])
        # Its own translation is looked at, not judged: by itself it would always be right.
        judged = len(lines) > 1
        told = lines[1] if judged else translator(lines[:1])[0][0].text
        source: list[int] = encode(translator.source, lines[:1])[0].tolist()
        target: list[int] = encode(translator.target, [told])[0].tolist()
        count = len(source)
        phrases = [Phrase(0, count, "write", f"read the source, {count} tokens")]
        phrases += [
            Phrase(
                at := count + place, at + 1, "ask", f"token {place + 1}", one if judged else None
            )
            for place, one in enumerate(target)
        ]
        tokens = [*source, end, *target[:-1]]
        names = [*map(show, source), "▸", *map(say, target[:-1])]
        targets = [*[NO_QUESTION] * count, *(target if judged else [NO_QUESTION] * len(target))]
        return TokenText(tokens, names, targets, phrases, (0, count, len(tokens)))

    example = _if_there(lambda: _pair(task) if isinstance(task, PairsTask) else "", "")
    facts |= {"kind": "translator", "hint": TWO_LINES, "example": example}
    return ServedModel(facts, parse, say, lambda _: TranslatorPageStream(model), None)


def _if_there(make: Callable[[], T], otherwise: T) -> T:
    """What a task makes of its data, which may be gone."""
    try:
        return make()
    except (UserError, OSError):
        return otherwise


def _episode(task: Task, words: TaskWords, brackets: bool = False) -> str:
    """An episode of the task by the names of its tokens; hidden ones in brackets."""
    batch = task.batch(0, 1, seed=0, split="valid", length=128)
    pairs = zip(batch.tokens[0].tolist(), batch.targets[0].tolist(), strict=True)
    names = [
        f"[{words.tokens[target]}]" if brackets and target != NO_QUESTION else words.tokens[token]
        for token, target in pairs
    ]
    return " ".join(names[:MOST_EXAMPLE])


def _pair(task: PairsTask) -> str:
    """A source sentence, without cutting all the others into tokens."""
    grammatical = grammar.sentences(SENTENCES, task.clauses)
    pairs = grammatical if task.corpus is None else read_pairs(task.corpus, task.columns)
    return pairs[:SENTENCES][-1].source


def _sentence(task: Task, vocabulary: Vocabulary, hides: bool) -> str:
    """A text of the task, some of its words in brackets if such are hidden."""
    if isinstance(task, PairsTask):
        text = _pair(task)
    else:
        batch = task.batch(0, 1, seed=0, split="valid", length=128)
        asked = (batch.targets[0] != NO_QUESTION) & hides
        ids = np.where(asked, batch.targets[0], batch.tokens[0])
        text = vocabulary.decode(ids[ids < vocabulary.size]).strip()
    count = iter(range(len(text)))
    return re.sub(r"\w+", lambda one: _hidden(one[0], next(count)), text) if hides else text


def _hidden(word: str, place: int) -> str:
    return f"[{word}]" if place % EVERY == EVERY // 2 else word


def _symbols(words: TaskWords) -> Json:
    return {"symbols": len(words.tokens), "columns": words.columns, "hint": token_hint(words)}


def _named(names: Sequence[str]) -> Callable[[int], str]:
    return lambda one: names[one] if one < len(names) else f"output {one}"


def _with_end(vocabulary: Vocabulary, end: int | None) -> Callable[[int], str]:
    def show(token: int) -> str:
        if token < vocabulary.size:
            return vocabulary.decode(np.array([token]))
        return END if token == end else "▢"

    return show


def check_size(run: Run, folder: Path) -> None:
    """Refuse settings of a model far larger than its weights, before it takes all the memory."""
    model = run.config.model
    # Less than any of our models has: a square a layer, a row a token.
    least = model.layers * model.width**2 + model.vocab * model.width
    kept = [folder / "model.safetensors", *folder.glob("checkpoints/*/model.safetensors")]
    held = sum(path.stat().st_size for path in kept if is_file(path))
    if least > held:
        raise UserError(
            f"config.yaml describes a model of at least {least} numbers, but the weights beside "
            f"it have {held} bytes: one of them belongs to another run"
        )
