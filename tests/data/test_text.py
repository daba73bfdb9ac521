from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Split, Task
from mnemoscope.data.characters import Characters
from mnemoscope.data.documents import Document, read_documents
from mnemoscope.data.text import Text, split_documents


@pytest.fixture
def halves(tmp_path: Path) -> Callable[[str], str]:
    """Write a file whose first half, what a task with held_out=0.5 trains on, is a given text."""

    def write(text: str) -> str:
        path = tmp_path / "text.txt"
        path.write_text(text + "-" * len(text))
        return str(path)

    return write


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Text:
    path = tmp_path_factory.mktemp("corpus") / "numbers.txt"
    path.write_text(" ".join(map(str, range(800))))
    return Text(source=str(path), unit="bytes", held_out=0.4)


def letters(task: Text, ids: np.ndarray) -> str:
    return " | ".join(" ".join(task.vocabulary.decode(row)) for row in ids)


def test_the_drawn_example_of_text(
    drawing: Callable[[type[Task]], list[str]], halves: Callable[[str], str]
) -> None:
    task = Text(source=halves("abcdefghi"), unit="characters", held_out=0.5)
    steps = [task.batch(step, 2, seed=0, length=2) for step in range(3)]
    drawn = [
        " || ".join(letters(task, getattr(batch, name)) for batch in steps[:2])
        for name in ("tokens", "targets")
    ]
    assert drawn == drawing(Text)
    assert [batch.starts.tolist() for batch in steps] == [[True] * 2, [False] * 2, [True] * 2]
    assert np.array_equal(steps[2].tokens, steps[0].tokens)


def test_the_drawn_example_of_characters(
    drawing: Callable[[type[Task]], list[str]], halves: Callable[[str], str]
) -> None:
    task = Characters(source=halves("memory"), held_out=0.5)
    batch = task.batch(0, 1, seed=0, length=5)
    assert [letters(task, batch.tokens), letters(task, batch.targets)] == drawing(Characters)


@given(
    size=st.integers(1, 20), length=st.integers(1, 50), split=st.sampled_from(["train", "valid"])
)
def test_lanes_tile_the_text(corpus: Text, size: int, length: int, split: Split) -> None:
    ids = corpus.tokens(split)
    lane = (len(ids) - 1) // size
    steps = lane // length
    batches = [corpus.batch(s, size, seed=0, split=split, length=length) for s in range(steps + 1)]
    tokens = np.concatenate([batch.tokens for batch in batches[:-1]], axis=1)
    targets = np.concatenate([batch.targets for batch in batches[:-1]], axis=1)
    # Nothing is skipped but a rest shorter than a segment in each lane, and less than a row.
    assert lane - length < tokens.shape[1] <= lane
    assert len(ids) - 1 - size < lane * size <= len(ids) - 1
    for row in range(size):
        first = row * lane
        assert np.array_equal(tokens[row], ids[first : first + steps * length])
        assert np.array_equal(targets[row], ids[first + 1 : first + steps * length + 1])
    starts = [bool(batch.starts[0]) for batch in batches]
    assert starts == [True] + [False] * (steps - 1) + [True]


def test_passages_of_a_document_begin_anew(halves: Callable[[str], str]) -> None:
    task = Text(source=halves("abcdefgh"), unit="characters", held_out=0.5, anew=4)
    steps = [task.batch(step, 1, seed=0, length=3) for step in range(3)]
    assert [letters(task, one.tokens[one.targets != NO_QUESTION][None]) for one in steps] == [
        "a b c",  # the fourth is the last of its passage, and nothing is asked after it
        "",
        "e f g",
    ]
    assert [bool(one.starts[0]) for one in steps] == [True, False, True]
    with pytest.raises(UserError, match="leave reset at document"):
        Text.make(anew=4, reset="lane")


def test_the_shortest_text_that_fits_and_one_too_short(halves: Callable[[str], str]) -> None:
    task = Text(source=halves("abcdefg"), unit="bytes", held_out=0.5)
    assert task.batch(0, 2, seed=0, length=3).targets[1].tolist() == list(b"efg")
    with pytest.raises(UserError, match="has 7 tokens, too few for 2 rows of 4: it needs 9"):
        task.batch(0, 2, seed=0, length=4)
    with pytest.raises(UserError, match="the valid text has 7 tokens"):
        task.batch(0, 7, seed=0, split="valid", length=1)


def test_whole_documents_are_held_out_when_there_are_ten() -> None:
    documents = [Document(str(i), f"document {i}") for i in range(40)]
    texts = split_documents(documents, 0.1)
    parts = ["".join(texts[part]).split("\n\n") for part in ("train", "valid")]
    assert [len(part) for part in parts] == [36, 4]
    assert sorted(parts[0] + parts[1]) == sorted(document.text for document in documents)
    assert split_documents(documents, 0.1) == texts
    three = split_documents(documents, 0.1, test=0.2)
    assert three["valid"] == texts["valid"]
    assert [len(three[part]) for part in ("train", "test")] == [28, 8]
    found = [one.strip() for part in three.values() for one in part]
    assert sorted(found) == sorted(parts[0] + parts[1])


@pytest.mark.parametrize(("share", "held"), [(0.001, 1), (0.999, 9)])
def test_neither_side_of_the_split_is_without_documents(share: float, held: int) -> None:
    documents = [Document(str(i), "x") for i in range(10)]
    assert len(split_documents(documents, share)["valid"]) == held


def test_the_end_is_held_out_of_few_documents() -> None:
    documents = [Document("a", "0123456789"), Document("b", "01234567")]
    parts = {"train": ["0123456789\n\n", "012"], "valid": ["34567"], "test": []}
    assert split_documents(documents, 0.25) == parts
    parts = {"train": ["0123456789"], "valid": ["\n\n", "012"], "test": ["34567"]}
    assert split_documents(documents, 0.25, test=0.25) == parts


def test_a_test_is_refused_where_nothing_is_states_below_it() -> None:
    with pytest.raises(UserError, match="set test to a share"):
        Text(unit="bytes").tokens("test")
    with pytest.raises(UserError, match="leave nothing to learn"):
        Text.make(held_out=0.5, test=0.5)
    with pytest.raises(UserError, match="only where valid names no documents"):
        Text.make(test=0.1, valid=("a",))


def test_documents_are_held_out_by_name_or_title() -> None:
    documents = [Document(f"shelf/{name}", name) for name in ("b.txt.gz", "a.md", "c.d.txt")]
    parts = split_documents(documents, 0.5, ["shelf/c.d", "shelf/b.txt.gz"])
    assert parts == {"train": ["a.md"], "valid": ["b.txt.gz\n\n", "c.d.txt"], "test": []}
    with pytest.raises(UserError, match=r"no document 'shelf/bb'.*'shelf/b'"):
        split_documents(documents, 0.5, ["shelf/bb"])
    with pytest.raises(UserError, match="leave some to train on"):
        split_documents(documents[:1], 0.5, ["shelf/b"])


def test_documents_are_kept_for_a_test_by_name() -> None:
    documents = [Document(f"{name}.txt", name) for name in "abc"]
    parts = split_documents(documents, 0.5, ["b"], tested=["c"])
    assert parts == {"train": ["a"], "valid": ["b"], "test": ["c"]}
    with pytest.raises(UserError, match="'b' is named for validation and for the test"):
        split_documents(documents, 0.5, ["b"], tested=["b", "c"])
    with pytest.raises(UserError, match="leave some to train on"):
        split_documents(documents, 0.5, ["a", "b"], tested=["c"])
    with pytest.raises(UserError, match="set valid too"):
        Text.make(tested=("a",))


def test_train_and_held_out_topics_are_all_topics() -> None:
    task = Text(unit="bytes")
    train, valid = (task.vocabulary.decode(task.tokens(split)) for split in ("train", "valid"))
    topics = [document.text for document in read_documents(None)]
    assert all((topic in train) != (topic in valid) for topic in topics)
    # Joining takes two characters between neighbours, in two texts.
    assert len(train) + len(valid) == sum(map(len, topics)) + 2 * (len(topics) - 2)


def test_characters_of_the_held_out_part_are_known(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("aaaaaaaaaz")
    task = Characters(source=str(tmp_path / "a.txt"))
    assert task.vocab == 2
    assert task.vocabulary.decode(task.tokens("valid")) == "z"


def test_bpe_learns_from_the_training_part_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab" * 20 + "xy" * 80)
    task = Text(source=str(tmp_path / "a.txt"), vocabulary_size=257, held_out=0.8)
    assert len(task.tokens("train")) == 20
    assert len(task.tokens("valid")) == 160


def test_units_have_their_sizes() -> None:
    assert Text(unit="bytes").vocab == 256
    assert Text(vocabulary_size=300).vocab == 300
    assert Characters().vocab == Text(unit="characters").vocab
    assert Text().longest is None


def test_a_corpus_is_read_once_and_cannot_be_written_to(halves: Callable[[str], str]) -> None:
    source = halves("abcdef")
    first = Text(source=source, unit="bytes").tokens("train")
    Path(source).unlink()
    assert Text(source=source, unit="bytes").tokens("train") is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_a_failed_read_is_tried_again(tmp_path: Path) -> None:
    task = Text(source=str(tmp_path / "late.txt"), unit="bytes")
    with pytest.raises(UserError, match="there is no file"):
        task.batch(0, 1, seed=0)
    (tmp_path / "late.txt").write_text("here it is now")
    assert task.batch(0, 1, seed=0, length=4).tokens.shape == (1, 4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocabulary_size": 256}, "vocabulary_size=256 is too small .* at least 257"),
        ({"held_out": 0}, "held_out"),
        ({"held_out": 1}, "held_out"),
        ({"unit": "words"}, "unit"),
        ({"sorce": "x"}, "did you mean 'source'"),
    ],
)
def test_mistakes_in_text_are_explained(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Text.make(**values)


def test_the_size_of_a_bpe_vocabulary_is_no_matter_for_bytes() -> None:
    assert Text.make(unit="bytes", vocabulary_size=10).vocab == 256
