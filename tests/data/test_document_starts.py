"""A text of several documents: rows begin anew where a document does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mnemoscope as ms
from mnemoscope.data.batch import NO_QUESTION, Stream
from mnemoscope.data.text import Text, _corpus, _first_tokens
from mnemoscope.data.vocabulary import Alphabet, Bytes, Merges, Vocabulary
from mnemoscope.training.config import RunConfig

SIZES = (40, 3, 17, 64, 9, 30)


def write(folder: Path, first: str = "a") -> str:
    """Documents of one letter each, a to f; the first one may have another."""
    folder.mkdir(parents=True)
    for number, size in enumerate(SIZES):
        letter = first if number == 0 else chr(ord("a") + number)
        (folder / f"{number}.txt").write_text(letter * size)
    (folder / "9.txt").write_text("z" * 60)
    return str(folder)


def letters_of(ids: np.ndarray) -> str:
    return ids.astype(np.uint8).tobytes().decode()


def task_of(source: str, **options: object) -> Text:
    return Text.make(source=source, unit="bytes", valid=("9",), **options)


@pytest.mark.parametrize(("size", "length"), [(1, 8), (2, 8), (3, 5), (2, 64)])
def test_a_segment_holds_one_document_and_all_tokens_are_read(
    tmp_path: Path, size: int, length: int
) -> None:
    task = task_of(write(tmp_path / "a"))
    ids = task.tokens("train")
    lane = (len(ids) - 1) // size
    stream = Stream(task, size, 0, length=length)
    read = [next(stream) for _ in range(3 * (lane // length + len(SIZES)))]
    for row in range(size):
        pieces, before = [], ""
        for batch in read:
            told = batch.targets[row] != NO_QUESTION
            text = letters_of(batch.tokens[row][batch.tokens[row] > 0])
            letters = set(text) - {"\n"}
            assert len(letters) <= 1
            assert batch.starts[row] or letters <= set(before)
            before = text
            assert not told[len(text) :].any()
            pieces.append((bool(batch.starts[row]), text))
        # It comes to the beginning of its lane again, and continues as at first.
        count = next(n for n in range(1, len(pieces)) if pieces[n:] == pieces[: len(pieces) - n])
        whole = "".join(text for _, text in pieces[:count])
        kept = letters_of(ids[row * lane : (row + 1) * lane])
        assert kept.startswith(whole)
        assert len(kept) - len(whole) < length


def test_the_first_token_of_a_document_is_asked_of_nobody(tmp_path: Path) -> None:
    task = task_of(write(tmp_path / "a"))
    stream = Stream(task, 1, 0, length=8)
    for batch in (next(stream) for _ in range(40)):
        for token, target in zip(batch.tokens[0], batch.targets[0], strict=True):
            if target not in (NO_QUESTION, ord("\n")) and token != ord("\n"):
                assert token == target


@pytest.mark.parametrize("memory", ["gru", "transformer_xl", "transformer", "infinite"])
@pytest.mark.filterwarnings("ignore:of the .* basis functions")
def test_what_is_said_of_a_document_does_not_depend_on_the_one_before(
    tmp_path: Path, memory: str
) -> None:
    """Two texts that differ in their first document only."""
    torch.manual_seed(0)
    options: dict[str, dict[str, Any]] = {
        "infinite": {"basis": 8, "chunk": 4, "mem_len": 4},
        "transformer_xl": {"mem_len": 8},
    }
    model = ms.build(memory, vocab=256, width=8, layers=2, **options.get(memory, {})).eval()
    said: list[list[torch.Tensor]] = []
    for first in "ax":
        stream = Stream(task_of(write(tmp_path / first, first)), 1, 0, length=8)
        state, logits = None, []
        with torch.no_grad():
            for batch in (next(stream) for _ in range(24)):
                if batch.starts.all():
                    state = None
                out = model(torch.from_numpy(batch.tokens), state)
                state = out.state
                logits.append(out.logits[0])
        said.append(logits)
    pieces = -(-(SIZES[0] + 2) // 8)  # of the first document and the blank line after it
    assert not torch.equal(said[0][pieces - 1], said[1][pieces - 1])
    for one, other in zip(said[0][pieces:], said[1][pieces:], strict=True):
        assert torch.equal(one, other)


def test_a_run_of_before_goes_on_across_documents(tmp_path: Path) -> None:
    """A config on disk that names everything but ``reset`` is of a version that had none."""
    source = write(tmp_path / "a")
    written = RunConfig.of("text", "gru", {"source": source, "unit": "bytes", "width": 8})
    old = "\n".join(line for line in written.to_yaml().split("\n") if "reset" not in line)
    assert written.task.reset == "document"  # type: ignore[attr-defined]
    assert RunConfig.from_yaml(written.to_yaml()) == written
    task = RunConfig.from_yaml(old).task
    assert isinstance(task, Text)
    assert task.reset == "lane"
    batch = task.batch(1, 2, seed=0, length=8)
    lane = (len(task.tokens("train")) - 1) // 2
    where = lane * np.arange(2)[:, None] + 8 + np.arange(8)
    assert np.array_equal(batch.tokens, task.tokens("train")[where])
    assert np.array_equal(batch.targets, task.tokens("train")[where + 1])
    assert not batch.starts.any()
    by_hand = RunConfig.from_yaml(f"task: {{name: text, source: {source}}}\nmodel: {{name: gru}}")
    assert by_hand.task.reset == "document"  # type: ignore[attr-defined]


PIECES = ["Grüße, 世界. ", "\n\n", "a 𝄞 clef\n\n", "the end"]


@pytest.mark.parametrize(
    "vocabulary", [Bytes(), Alphabet("".join(PIECES)), Merges.learn("".join(PIECES) * 9, 300)]
)
def test_documents_begin_at_the_token_that_begins_there(vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode("".join(PIECES))
    assert vocabulary.widths[ids].sum() == len("".join(PIECES).encode())
    begins = _first_tokens(vocabulary, ids.astype(np.int32), PIECES)
    for number, begin in enumerate(begins):
        rest = vocabulary.decode(ids[begin:])
        assert "".join(PIECES[number:]).endswith(rest)
        assert len(rest) > len("".join(PIECES[number + 1 :]))


@given(sizes=st.lists(st.integers(1, 30), min_size=2, max_size=9), rows=st.integers(1, 4))
def test_begins_are_where_documents_are(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("documents")
    for number, size in enumerate(sizes):
        (folder / f"{number}.txt").write_text("x" * size)
    task = Text(source=str(folder), unit="bytes", held_out=0.01)
    begins = _corpus(task).begins["train"]
    expected = np.cumsum([0, *(size + 2 for size in sizes)])[:-1]
    assert begins.tolist() == [one for one in expected if one < len(task.tokens("train"))]
    if (len(task.tokens("train")) - 1) // rows >= 4:
        assert task.batch(0, rows, seed=0, length=4).starts.all()
