from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mnemoscope.api import load
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import held
from mnemoscope.data.text import Text, _corpus
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
        "finished.json",
        "metrics.jsonl",
        "model.safetensors",
        "text.digest",
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
    with pytest.raises(UserError, match="trained on copy, not on text"):
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


def test_a_run_does_not_go_on_with_another_text(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("the cat sat on the mat. " * 60)
    options = {"source": str(book), "steps": 4, "batch": 2, "segment": 8, "width": 8}
    run = train(RunConfig.of("characters", "gru", options), tmp_path / "run")
    (run.folder / "model.safetensors").unlink()
    # The same letters in another order: nothing but the digest can tell.
    book.write_text("the mat sat on the cat. " * 60)
    _corpus.cache_clear()
    with pytest.raises(UserError, match="not the one it began with"):
        resume(run.folder)
    book.write_text("the cat sat on the mat. " * 60)
    _corpus.cache_clear()
    assert resume(run.folder).finished


def test_what_a_kill_left_of_a_folder_is_no_obstacle(small: Make, tmp_path: Path) -> None:
    home = tmp_path / "run"
    home.mkdir()
    for name in ("vocabulary.json", "text.digest", "start.safetensors", ".0123abcd.part"):
        (home / name).write_bytes(b"half")
    assert train(small("text", steps=2), home).finished
    assert not (home / "start.safetensors").exists()


def test_two_processes_never_train_the_same_run(small: Make, tmp_path: Path) -> None:
    run = train(small(steps=2), tmp_path / "run")
    (run.folder / "model.safetensors").unlink()
    with (
        held(run.folder / "config.yaml", "training it"),
        pytest.raises(UserError, match="another process is training"),
    ):
        resume(run.folder)
    assert resume(run.folder).finished


def test_a_disk_that_does_not_answer_costs_no_checkpoint(
    small: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(small(steps=6, checkpoint_every=2, keep=3), tmp_path / "run")
    (run.folder / "model.safetensors").unlink()
    before = sorted(run.checkpoints.iterdir())
    digest = checkpoint._digest

    def fail(path: Path) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkpoint, "_digest", fail)
    with pytest.raises(UserError, match=r"Input/output error\. Nothing was changed"):
        resume(run.folder)
    assert sorted(run.checkpoints.iterdir()) == before
    monkeypatch.setattr(checkpoint, "_digest", digest)
    assert resume(run.folder).finished
