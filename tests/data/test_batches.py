"""What every task promises: pure batches, sound shapes, a position that can be taken up again."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mnemoscope.core.registry import TASKS, find
from mnemoscope.data.batch import NO_QUESTION, Batch, Stream, Task
from mnemoscope.data.book import Book
from mnemoscope.data.characters import Characters
from mnemoscope.data.copy import Copy
from mnemoscope.data.dialogue.task import Dialogue
from mnemoscope.data.images import Images
from mnemoscope.data.passages import Passages
from mnemoscope.data.recall import Recall
from mnemoscope.data.sorting import Sorting
from mnemoscope.data.spelling import Spelling
from mnemoscope.data.text import Text
from mnemoscope.data.translation import Translation

TASKS_UNDER_TEST = [
    Copy(items=3, lag=9),
    Copy(items=2, lag=40, shortest=3),
    Recall(),
    Recall(pairs=3, queries=5, length=40, ages=(12, 20), overwrites=2),
    Sorting(length=50),
    Sorting(variant="numbers", length=50),
    Text(unit="bytes"),
    Characters(),
    Text(vocabulary_size=300),
    Passages(length=12),
    Images(),
    Images(levels=3),
    Book(books=4, length=12),
    Spelling(most_words=40),
    Translation(sentences=300, clauses=2, vocabulary_size=300),
    Dialogue(),
    Dialogue(document="another", filler=1, small_talk=2),
]


def same(a: Batch, b: Batch) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("tokens", "targets", "ages", "starts")
    )


@pytest.fixture(params=TASKS_UNDER_TEST, ids=repr)
def task(request: pytest.FixtureRequest) -> Task:
    found = request.param
    assert isinstance(found, Task)
    return found


def test_a_batch_is_a_pure_function(task: Task) -> None:
    first = task.batch(5, 4, seed=1, length=16)
    task.batch(9, 2, seed=3, length=16)
    assert same(first, task.batch(5, 4, seed=1, length=16))
    assert same(first, type(task)(**task.model_dump()).batch(5, 4, seed=1, length=16))


def test_steps_and_splits_differ(task: Task) -> None:
    first = task.batch(5, 4, seed=1, length=16)
    assert not same(first, task.batch(6, 4, seed=1, length=16))
    assert not same(first, task.batch(5, 4, seed=1, length=16, split="valid"))


def test_the_seed_matters_for_episodes_only(task: Task) -> None:
    first, other = (task.batch(5, 4, seed=seed, length=16) for seed in (1, 2))
    assert same(first, other) == task.carries


def test_shapes_types_and_ranges(task: Task) -> None:
    batch = task.batch(0, 4, seed=0, length=16)
    assert batch.tokens.shape == batch.targets.shape == batch.ages.shape
    assert batch.tokens.dtype == batch.targets.dtype == batch.ages.dtype == np.int64
    # Of sentences, a batch holds more or fewer, by their length.
    assert batch.starts.shape == (4 if batch.source is None else len(batch.tokens),)
    assert batch.starts.dtype == np.bool_
    assert batch.starts.all()
    asked = batch.targets != NO_QUESTION
    assert asked.any()
    for ids, known in ((batch.tokens, task.vocab), (batch.targets[asked], task.outputs)):
        assert ids.min() >= 0
        assert ids.max() < (known or task.vocab)
    if task.asks_once:
        assert asked[:, -1].all()
        assert not asked[:, :-1].any()
    assert (batch.ages[~asked] == 0).all()
    assert (batch.ages <= np.arange(batch.tokens.shape[1])).all()
    if task.longest is None:
        assert batch.tokens.shape[1] == 16
    else:
        assert batch.tokens.shape[1] <= task.longest


def test_a_stream_resumes_where_its_position_says(task: Task) -> None:
    whole = Stream(task, 3, seed=0, length=16)
    seen = [next(whole) for _ in range(4)]
    assert whole.position == 4
    resumed = Stream(task, 3, seed=0, length=16, position=2)
    assert all(same(a, b) for a, b in zip(seen[2:], [next(resumed), next(resumed)], strict=True))


def test_rows_takes_a_share() -> None:
    batch = Copy().batch(0, 6, seed=0)
    share = batch.rows(slice(2, 4))
    assert np.array_equal(share.tokens, batch.tokens[2:4])
    assert share.starts.shape == (2,)


@pytest.mark.parametrize("name", TASKS)
def test_registered_tasks_build_from_nothing(name: str) -> None:
    assert find("task", name).make().vocab > 2


@pytest.mark.parametrize("name", TASKS)
def test_every_option_of_a_task_is_explained(name: str) -> None:
    assert all(meaning for *_, meaning in find("task", name).options())


def test_data_needs_neither_torch_nor_heavy_imports() -> None:
    folder = Path(sys.modules["mnemoscope.data"].__path__[0])
    modules = [
        f"mnemoscope.data.{'.'.join(file.relative_to(folder).with_suffix('').parts)}"
        for file in folder.rglob("[a-z]*.py")
    ]
    code = (
        f"import sys, {', '.join(modules)}\n"
        "heavy = ('torch', 'tokenizers', 'datasets', 'sklearn', 'PIL')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr
