from collections.abc import Callable

import pytest

from mnemoscope.data.batch import NO_QUESTION, Batch, Task


def _lines(task: type[Task]) -> list[str]:
    drawn = [line.split(maxsplit=1) for line in (task.__doc__ or "").splitlines()]
    words = {words[0]: words[1] for words in drawn if words and words[0] in ("tokens", "targets")}
    assert sorted(words) == ["targets", "tokens"], f"{task.__name__} draws no example"
    return [words["tokens"], words["targets"]]


@pytest.fixture
def drawing() -> Callable[[type[Task]], list[str]]:
    """Return the two lines, tokens and targets, that a task's docstring draws."""
    return _lines


@pytest.fixture
def as_drawn() -> Callable[[Batch], list[str]]:
    """Return a batch's first row in the form that docstrings draw."""

    def draw(batch: Batch) -> list[str]:
        lines = [batch.tokens[0].tolist(), batch.targets[0].tolist()]
        return [" ".join("." if x == NO_QUESTION else str(x) for x in line) for line in lines]

    return draw
