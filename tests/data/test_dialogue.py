"""Conversations as tokens: what each token is, the controls, the made-up corpus and the task."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.dialogue.conversation import Conversation, Document, Turn
from mnemoscope.data.dialogue.made_up import MOST_NAMES, MadeUpOptions
from mnemoscope.data.dialogue.script import (
    DOCUMENT,
    NONE,
    TURNS,
    Script,
    Written,
    check_against_window,
    common_words,
    write,
)
from mnemoscope.data.dialogue.task import Dialogue
from mnemoscope.data.dialogue.tokens import by_bpe, by_word
from mnemoscope.data.vocabulary import Merges

WORDS = ("tea", "is", "hot", "salt", "white", "what", "?", "yes", "no")
SCRIPT = Script(by_word(WORDS), section=(20,), end=(21,), speakers=((22,), (23,)))
TALK = Conversation(
    "talk",
    Document("tea", ("tea is hot", "salt is white")),
    (Turn("a", "what is salt ?", 1, reply=False), Turn("b", "white yes", 1), Turn("a", "no")),
    ("a", "b"),
)


def plain(written: Written, name: str) -> list[int]:
    return [int(x) for x in getattr(written, name)]


# --- tokens --------------------------------------------------------------------------------------


def test_every_token_says_what_it_is() -> None:
    one = write(TALK, SCRIPT)
    assert plain(one, "ids") == [
        20,
        0,
        1,
        2,
        20,
        3,
        1,
        4,
        22,
        5,
        1,
        3,
        6,
        21,
        23,
        4,
        7,
        21,
        22,
        8,
        21,
    ]
    assert plain(one, "part") == 8 * [DOCUMENT] + 13 * [TURNS]
    assert plain(one, "section") == 4 * [0] + 14 * [1] + 3 * [NONE]
    assert plain(one, "turn") == 8 * [NONE] + 6 * [0] + 4 * [1] + 3 * [2]
    assert plain(one, "speaker") == 8 * [NONE] + 6 * [0] + 4 * [1] + 3 * [0]
    assert [i for i, mark in enumerate(one.mark) if mark] == [0, 4, 8, 13, 14, 17, 18, 20]
    # Text and ends of replies; not who speaks.
    assert [i for i, reply in enumerate(one.reply) if reply] == [15, 16, 17, 19, 20]
    # From the last token of section 1, at 7, to where a token is predicted.
    assert plain(one, "age") == 8 * [0] + [i - 1 - 7 for i in range(8, 18)] + 3 * [0]
    assert [i for i, known in enumerate(one.in_document) if known] == [10, 11, 15]
    assert (one.document_length, one.longest_reply) == (8, 3)
    assert (one.answer == NONE).all()


def test_turns_are_the_same_whatever_was_read_before() -> None:
    own, none = write(TALK, SCRIPT), write(TALK, SCRIPT, None)
    other = write(TALK, SCRIPT, Document("rice", ("hot hot hot",)))
    assert none.document_length == 0
    assert other.document_length == 4
    for one in (none, other):
        for name in ("ids", "turn", "speaker", "mark", "reply", "in_document", "distinctive"):
            turns = getattr(one, name)[one.part == TURNS]
            assert np.array_equal(turns, getattr(own, name)[own.part == TURNS]), name
        # The section that the turns are about was not read.
        assert (one.age == 0).all()


def test_an_answer_is_where_it_was_read() -> None:
    known = replace(TALK, turns=(Turn("b", "white", 1, answer_at=len("salt is ")),))
    own = write(known, SCRIPT)
    (place,) = np.flatnonzero(own.reply & ~own.mark)
    assert own.answer[place] == 7
    assert own.ids[7] == own.ids[place]
    assert own.age[place] == place - 1 - 7
    assert write(known, SCRIPT, Document("rice", ("hot", "is hot"))).answer.max() == NONE
    # What was cut off was not read.
    assert write(known, SCRIPT, document_tokens=7).answer.max() == NONE
    assert write(known, SCRIPT, document_tokens=8).answer.max() == 7


@pytest.mark.parametrize("most", range(1, 9))
def test_a_long_document_loses_its_end(most: int) -> None:
    whole, cut = write(TALK, SCRIPT), write(TALK, SCRIPT, document_tokens=most)
    assert cut.document_length == most
    assert np.array_equal(cut.ids[:most], whole.ids[:most])
    assert np.array_equal(cut.ids[most:], whole.ids[8:])


def test_turns_are_left_out_whole() -> None:
    lengths = [len(write(TALK, SCRIPT, None, conversation_tokens=n).ids) for n in range(4, 14)]
    assert lengths == [0, 0, 6, 6, 6, 6, 10, 10, 10, 13]


def test_speakers_without_a_mark_are_an_error() -> None:
    with pytest.raises(UserError, match="has 3 speakers, but there are marks for 2"):
        write(replace(TALK, speakers=("a", "b", "c")), SCRIPT)


def test_tokens_of_bpe_know_their_words() -> None:
    text = " Zoë’s naïve tea, don't say 'no' — 茶 is tea."
    vocabulary = Merges.learn(text * 3, 270)
    ids, spans = by_bpe(vocabulary)(text)
    for token, (begin, end) in zip(ids, spans, strict=True):
        said = vocabulary.decode(np.array([token]))
        assert said == text[begin:end] or "\ufffd" in said
    assert spans[0, 0] == 0
    assert spans[-1, 1] == len(text)

    script = Script(by_bpe(vocabulary), (300,), (301,), ((302,),))
    document = Document("d", ("ZOË’S tea 茶",))
    one = write(Conversation("c", document, (Turn("a", text.strip()),), ("a",)), script)
    known = vocabulary.decode(one.ids[one.in_document]).split()
    assert known == ["Zoë’s", "tea茶", "tea"]


def test_common_words_are_not_distinctive() -> None:
    documents = [Document(str(i), (f"the {word}",)) for i, word in enumerate("abc")]
    assert common_words([*documents, documents[0]]) == {"the"}
    one = write(TALK, SCRIPT, common=frozenset({"is"}))
    assert [i for i, known in enumerate(one.distinctive) if known] == [11, 15]


# --- windows -------------------------------------------------------------------------------------


def test_a_window_that_sees_every_document_is_an_error() -> None:
    with pytest.raises(UserError, match=r"no document is longer than the window of 8 .*has 8"):
        check_against_window([write(TALK, SCRIPT)], 8)


def test_short_documents_and_long_replies_are_said() -> None:
    short = write(replace(TALK, name="short"), SCRIPT, None)
    both = [write(TALK, SCRIPT), short]
    assert check_against_window(both[:1], 7) == ()
    few, long = check_against_window(both, 2)
    assert few.startswith("1 of 2 documents are no longer than the window of 2 tokens")
    assert long.startswith("2 of 2 conversations have a reply longer than the window of 2 tokens")


# --- the made-up corpus --------------------------------------------------------------------------


def test_made_up_words_are_all_different() -> None:
    lexicon = MadeUpOptions(names=MOST_NAMES, values=32).made_up_lexicon
    assert len(set(lexicon)) == len(lexicon)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"filler": 2},
        {"small_talk": 3},
        {"joined": True},
        {"joined": True, "filler": 1},
        {"sections": 3, "facts": 2, "asked": 6},
        {"asked": 1},
    ],
)
def test_right_answers_stand_in_the_document(options: dict[str, Any]) -> None:
    task = Dialogue(**options)
    for one, said in zip(task.written(found := task.conversations("valid", 5)), found, strict=True):
        assert len(one.ids) == task.longest + 1 == task.made_up_length
        asked = np.flatnonzero(one.reply)
        assert len(asked) == task.asked
        for reply, answer in zip(asked, one.answer[asked], strict=True):
            fact = task.text_of(one.ids[answer + 1 - (1 if task.joined else 3) :][: answer + 1])
            name, value = (task.text_of([one.ids[at]]) for at in (reply - 1, reply))
            assert fact.startswith(f"{name}-{value}" if task.joined else f"{name} likes {value} .")
            # The name in the question is the one that the reply repeats.
            assert one.ids[reply - 1] == one.ids[reply - 5]
        assert np.array_equal(one.section[one.answer[asked]], one.section[asked])
        assert (one.ids[asked] < task.values).all()
        assert len(set(one.answer[asked])) == task.asked
        names = [sentence.split()[0] for sentence in said.document.text.split(" . ")]
        assert len(names) == len(set(names)) or task.filler or task.joined


def test_what_a_reply_begins_with_may_be_given() -> None:
    whole = write(TALK, SCRIPT)
    turn = TALK.turns[-1]
    first = turn.text.split()[0]
    later = replace(TALK, turns=(*TALK.turns[:-1], replace(turn, scored_from=len(first) + 1)))
    cut = write(later, SCRIPT)
    assert np.array_equal(cut.ids, whole.ids)
    begun = np.flatnonzero(whole.reply & (whole.turn == whole.turn.max()))
    assert np.flatnonzero(whole.reply & ~cut.reply).tolist() == begun[:1].tolist()


def test_sections_are_asked_about_in_equal_numbers_or_as_chosen() -> None:
    task = Dialogue(asked=8)
    for one in task.written(task.conversations("valid", 3)):
        assert Counter(one.section[one.reply].tolist()) == dict.fromkeys(range(4), 2)
    task = Dialogue(asked_sections=(0, 2))
    for one in task.written(task.conversations("valid", 3)):
        assert Counter(one.section[one.reply].tolist()) == {0: 2, 2: 2}


def test_questions_have_the_ages_that_were_chosen() -> None:
    task = Dialogue(sections=4, facts=8, small_talk=2, ages=(70, 90, 110, 130), asked=8)
    for one in task.written(task.conversations("valid", 3)):
        wished = np.array([70, 90, 110, 130] * 2)
        assert (abs(one.age[one.reply] - wished) <= 4).all()


def test_chance_is_one_in_values() -> None:
    task = Dialogue(values=4)
    assert task.majority == 0.25
    answers = np.concatenate([one.ids[one.reply] for one in task.written(_many(task))])
    shares = np.bincount(answers, minlength=4) / len(answers)
    assert abs(shares - 0.25).max() < 0.05
    # Another one's document says nothing of the answer.
    others = task.written(_many(task), "another")
    guesses = [one.ids[:8][one.ids[:8] < 4][0] == one.ids[one.reply][0] for one in others]
    assert abs(np.mean(guesses) - 0.25) < 0.1


def _many(task: Dialogue) -> list[Conversation]:
    return task.conversations("train", 300, seed=1)


def test_made_up_conversations_are_drawn_from_the_seed() -> None:
    task = Dialogue()
    first = task.conversations("valid", 3, seed=5)
    assert first == task.conversations("valid", 3, seed=5)
    assert first != task.conversations("valid", 3, seed=6)
    assert first != task.conversations("test", 3, seed=5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"names": 15}, "names=15 is too few for 4 sections of 4 facts"),
        ({"asked": 17}, "asked=17 is more than there are facts"),
        ({"asked": 5, "asked_sections": (1,)}, "asked=5 is more than there are facts"),
        ({"asked_sections": (4,)}, "must name at least one of the sections 0 to 3"),
        ({"asked_sections": ()}, "must name at least one of the sections"),
        ({"ages": ()}, "must name at least one age"),
        ({"ages": (3,), "asked_sections": (0,)}, "by ages or by asked_sections, not by both"),
        ({"source": "x", "facts": 3}, "facts belongs to the made-up corpus"),
    ],
)
def test_made_up_options_that_cannot_be_are_explained(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Dialogue.make(**options)


# --- the task ------------------------------------------------------------------------------------


def test_a_row_is_as_drawn() -> None:
    lines = [line.split() for line in (Dialogue.__doc__ or "").splitlines()]
    drawn = {line[0]: line[1:] for line in lines if line and line[0] in ("tokens", "targets")}
    task = Dialogue(sections=2, facts=1, asked=1, names=2, values=2)
    batch = task.batch(0, 1, seed=0)
    shown = (*task.made_up_lexicon, "/", "§", ">", "<")
    assert [shown[token] for token in batch.tokens[0]] == drawn["tokens"]
    asked = ["." if x == NO_QUESTION else shown[x] for x in batch.targets[0].tolist()]
    assert asked == drawn["targets"]


def test_batches_have_the_ages_of_answers() -> None:
    batch = Dialogue().batch(3, 4, seed=0)
    rows, asked = np.nonzero(batch.targets != NO_QUESTION)
    read = batch.tokens[rows, asked - batch.ages[rows, asked]]
    assert np.array_equal(read, batch.targets[rows, asked])


@pytest.mark.parametrize("document", ["own", "none", "another"])
def test_controls_ask_the_same(document: Any) -> None:
    own, other = Dialogue().batch(0, 3, seed=0), Dialogue(document=document).batch(0, 3, seed=0)
    assert np.array_equal(
        own.targets[own.targets != NO_QUESTION], other.targets[other.targets != NO_QUESTION]
    )
    assert np.array_equal(own.tokens[:, -31:], other.tokens[:, -31:])
    assert other.tokens.shape[1] == Dialogue(document=document).longest
    assert (other.ages.max() > 0) == (document == "own")


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Five documents with two conversations each, of different lengths."""
    content: dict[str, Any] = {"documents": {}, "conversations": []}
    for i in range(5):
        content["documents"][f"d{i}"] = [f"All about number {i}. " * (i + 2), f"The end of {i}."]
        for j in range(2):
            turns = [{"speaker": "ab"[k % 2], "text": f"I say {i}{j}{k}"} for k in range(2 + i)]
            one = {"document": f"d{i}", "speakers": ["a", "b"], "turns": turns}
            content["conversations"].append(one)
    (tmp_path / "talk.json").write_text(json.dumps(content))
    return str(tmp_path / "talk.json")


def test_a_source_is_read_by_bpe(source: str) -> None:
    task = Dialogue(source=source, vocabulary_size=300)
    assert task.vocab == task.vocabularies["vocabulary.json"].size + 4
    assert task.majority is None
    parts = [task.conversations(split) for split in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [6, 2, 2]
    batch = task.batch(0, 5, seed=0)
    assert batch.tokens.shape[1] <= task.longest
    assert (batch.ages == 0).all()
    (one, *_) = task.written(parts[1])
    text = task.text_of(one.ids)
    assert text.startswith("§ All about number")
    assert text.count("§") == 2
    assert text.endswith("∎")
    assert "1> I say" in text
    row = task.batch(0, 1, seed=0, split="valid")
    assert np.array_equal(row.tokens[0], one.ids[:-1])
    assert np.array_equal(row.targets[0] != NO_QUESTION, one.reply[1:])


def test_the_digest_is_of_what_is_read(source: str) -> None:
    task = Dialogue(source=source, vocabulary_size=300)
    assert task.digest == Dialogue(source=source, vocabulary_size=300, held_out=0.1).digest
    assert task.digest != Dialogue(source=source, vocabulary_size=300, document_tokens=9).digest
    assert Dialogue().digest is None


def test_conversations_of_which_no_reply_fits_are_left_out(
    source: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = Dialogue(source=source, vocabulary_size=300, conversation_tokens=4)
    with pytest.raises(UserError, match="no conversation is left for the part 'train'"):
        task.batch(0, 2, seed=0)
    assert "no reply of theirs fits into conversation_tokens=4" in caplog.text


def test_runs_on_a_source_keep_its_vocabulary(source: str, tmp_path: Path) -> None:
    run = ms.train(
        "dialogue", "gru", tmp_path / "run", source=source, vocabulary_size=300, steps=2, batch=2,
        width=8, warmup=0,
    )  # fmt: skip
    assert (run.folder / "vocabulary.json").is_file()
    assert np.isfinite(run.metrics()[-1]["valid_loss"])


@pytest.mark.parametrize("memory", MEMORIES)
def test_every_memory_learns_from_conversations(memory: str, tmp_path: Path) -> None:
    run = ms.train(
        "dialogue", memory, tmp_path / "run", sections=2, facts=2, asked=2, names=8, steps=2,
        batch=2, width=16, segment=8, warmup=0,
    )  # fmt: skip
    metrics = run.metrics()[-1]
    assert np.isfinite(metrics["valid_loss"])
    assert metrics["majority_accuracy"] == 0.125
