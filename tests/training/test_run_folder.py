from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mnemoscope.api import load
from mnemoscope.data.text import Text, _corpus
from mnemoscope.errors import UserError
from mnemoscope.training import checkpoint
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import resume, train
from mnemoscope.training.run import Run

Make = Callable[..., RunConfig]


def test_a_run_is_what_lies_in_its_folder(small: Make, tmp_path: Path) -> None:
    run = train(small("text", steps=3), tmp_path / "run")
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "checkpoints",
        "config.yaml",
        "metrics.jsonl",
        "model.safetensors",
        "vocabulary.json",
    ]
    assert Run.open(run.folder) == run
    assert Run.open(str(run.folder)).config == run.config


def test_the_model_is_ready_to_be_used(small: Make, tmp_path: Path) -> None:
    train(small(steps=3, dropout=0.5), tmp_path / "run")
    model = load(tmp_path / "run")
    tokens = torch.arange(6)[None]
    assert not model.training
    assert torch.equal(model(tokens).logits, load(str(tmp_path / "run"))(tokens).logits)


def test_the_model_of_an_unfinished_run_is_its_newest(small: Make, tmp_path: Path) -> None:
    run = train(small(steps=7, checkpoint_every=2), tmp_path / "run")
    (run.folder / "model.safetensors").unlink()
    assert not run.finished
    newest = checkpoint.load(run.checkpoints / "step-00000006").model
    weights = run.model().state_dict()
    assert all(torch.equal(weights[name], newest[name]) for name in weights)


@pytest.mark.parametrize("unit", ["characters", "bytes", "bpe"])
def test_the_vocabulary_of_a_text_goes_with_its_run(small: Make, tmp_path: Path, unit: str) -> None:
    config = small("text", unit=unit, vocabulary_size=300, steps=1)
    run = train(config, tmp_path / "run")
    assert isinstance(config.task, Text)
    kept, known = Run.open(run.folder).vocabulary, config.task.vocabulary
    assert kept.size == known.size == config.model.vocab
    text = "144 sheep 169"
    assert kept.encode(text).tolist() == known.encode(text).tolist()
    assert kept.decode(kept.encode(text)) == known.decode(known.encode(text))


def test_only_a_text_has_a_vocabulary(small: Make, tmp_path: Path) -> None:
    run = train(small(steps=1), tmp_path / "run")
    with pytest.raises(UserError, match="cannot read the vocabulary"):
        _ = run.vocabulary


def test_a_text_that_is_gone_takes_no_model_with_it(
    small: Make, tmp_path: Path, story: str
) -> None:
    source = shutil.copy(story, tmp_path / "gone.txt")
    run = train(small("text", source=str(source), steps=7, checkpoint_every=3), tmp_path / "run")
    Path(source).unlink()
    _corpus.cache_clear()  # as in a new process

    again = Run.open(run.folder)
    assert again.config == run.config
    ids = torch.from_numpy(again.vocabulary.encode("64 sheep"))[None]
    assert again.model()(ids).logits.shape == (1, 8, again.vocabulary.size)
    (run.folder / "model.safetensors").unlink()
    assert again.model()(ids).logits.isfinite().all()
    with pytest.raises(UserError, match=r"no file or folder .*gone\.txt"):
        resume(run.folder)


def test_rewinding_drops_what_will_be_measured_again(small: Make, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", small())
    for step in (5, 10, 10, 15):
        run.log(step=step, loss=1 / step)
    run.rewind(10)
    assert [entry["step"] for entry in run.metrics()] == [5, 10, 10]
    run.rewind(0)
    assert run.metrics() == []
    run.log(step=1, loss=0.25)
    assert run.metrics() == [{"step": 1, "loss": 0.25}]
