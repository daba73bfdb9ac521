"""Many to one and one to many through the same loop as all else, for every memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES
from mnemoscope.data.spelling import Spelling
from mnemoscope.training.config import RunConfig
from mnemoscope.training.evaluate import evaluate
from mnemoscope.training.loop import train

Make = Callable[..., RunConfig]


@pytest.fixture
def shelf(tmp_path: Path) -> dict[str, Any]:
    """Options of the task book: three documents whose letters come in an order of their own."""
    home = tmp_path / "shelf"
    home.mkdir()
    for name, text in {"one": "abc", "two": "acb", "three": "aabbcc"}.items():
        (home / f"{name}.txt").write_text(text * 20)
    return {"source": str(home), "unit": "characters", "length": 6}


@pytest.fixture
def double() -> Iterator[None]:
    """New models and states in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# Adam makes steps of the same size of gradients near nothing, whose float32 digits are rounding.
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("segment", [None, 4])
@pytest.mark.parametrize("memory", MEMORIES)
def test_one_answer_trains_alike_whether_read_out_last_or_everywhere(
    small: Make, shelf: dict[str, Any], tmp_path: Path, memory: str, segment: int | None
) -> None:
    found = {}
    for readout in ("every", "last"):
        options = {**shelf, "readout": readout, "segment": segment, "steps": 2}
        config = small("book", memory, **options)
        assert config.model.outputs == 3
        run = train(config, tmp_path / readout, silent=True)
        found[readout] = dict(run.model().state_dict()), run.metrics()[-1]
    weights, metrics = found["every"]
    for name, weight in found["last"][0].items():
        torch.testing.assert_close(weight, weights[name], rtol=1e-5, atol=1e-6, msg=name)
    assert found["last"][1]["valid_loss"] == pytest.approx(metrics["valid_loss"], rel=1e-5)
    assert metrics["majority_accuracy"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("memory", MEMORIES)
def test_every_memory_spells_what_it_has_learnt(small: Make, tmp_path: Path, memory: str) -> None:
    (tmp_path / "words.txt").write_text("hello help hold")
    options: dict[str, Any] = {"source": str(tmp_path / "words.txt"), "batch": 8, "width": 16}
    options |= {"steps": 150, "lr": 0.02, "evaluate_every": 150}
    run = train(small("spelling", memory, **options), tmp_path / "run", silent=True)
    task = run.config.task
    assert isinstance(task, Spelling)
    last = run.metrics()[-1]
    assert last["valid_accuracy"] == 1.0
    assert last["majority_accuracy"] == task.majority < 1
    # The one token is all that it is told: what follows are blanks.
    word = torch.tensor([[task.lexicon.index("hello")]])
    said = ms.unroll(run.model(), word, task.longest, blank=task.vocab - 1).argmax(-1)[0]
    assert task.letters.decode(said[:5].numpy()) == "hello"
    assert said[5] == task.letters.size


def test_a_book_is_told_by_the_order_of_its_letters(
    small: Make, shelf: dict[str, Any], tmp_path: Path
) -> None:
    options = {**shelf, "readout": "last", "steps": 80, "lr": 0.03, "batch": 16}
    run = train(small("book", "gru", **options), tmp_path / "run", silent=True)
    found = evaluate(run.model(), run.config.task, batches=2, size=12)
    assert found.accuracy == 1.0
    assert found.questions == 24


def test_a_readout_at_the_end_is_for_tasks_that_ask_there_only(small: Make) -> None:
    with pytest.raises(UserError, match="'copy' asks at more than the last token"):
        small("copy", readout="last").check()
    with pytest.raises(UserError, match="asks for 8 outputs, the model has 7"):
        RunConfig.of("book", "gru", {"outputs": 7}).check()
