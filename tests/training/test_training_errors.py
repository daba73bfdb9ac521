"""What can go wrong around a run, and what is said then."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from children import Child
from mnemoscope.core.errors import UserError
from mnemoscope.training import checkpoint, machine
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import DivergedError, resume, train
from mnemoscope.training.run import Run

Make = Callable[..., RunConfig]


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", "unknown device 'tpu'; known: auto, cpu, cuda, mps"),
        pytest.param(
            "cuda",
            "this machine has no cuda; try --device cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one here"),
        ),
        pytest.param(
            "mps",
            "this machine has no mps; try --device cpu",
            marks=pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is one here"),
        ),
    ],
)
def test_a_device_that_is_not_there(small: Make, tmp_path: Path, device: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        train(small(device=device), tmp_path / "run")
    # Nothing is in the way of a second try.
    assert not (tmp_path / "run").exists()


def test_fewer_processes_than_were_started(
    small: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.join("cpu")  # whose first call in a process would wait for the other
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="2 processes started, 1 joined"):
        train(small(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_parts_that_do_not_fit_leave_no_folder(small: Make, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="longer than the context"):
        train(small(memory="transformer", positions="learned", context=3), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["width", "batch", "lag", "symbols", "items"])
def test_sizes_that_nothing_holds_leave_no_folder(
    small: Make, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"needs about .* of memory, this machine has"):
        train(small(**{option: 10**15}), tmp_path / "run")
    monkeypatch.setenv("MNEMOSCOPE_OVERSIZE", "1")
    with pytest.raises(UserError, match=r"cannot (build|make)"):
        train(small(**{option: 10**15}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made(small: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write to .*file/run"):
        train(small(), tmp_path / "file" / "run")


def test_a_folder_with_something_in_it_is_left_alone(small: Make, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("ten years of work")
    with pytest.raises(UserError, match="exists already and is not a run"):
        train(small(), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]
    with pytest.raises(UserError, match="exists already"):
        train(small(), tmp_path / "run" / "thesis.tex")


def test_an_empty_folder_is_taken(small: Make, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert train(small(steps=1), tmp_path / "run").finished


@pytest.mark.parametrize("name", ["nowhere", "empty", "file", "x" * 300, "a\0b"])
def test_what_is_not_a_run_cannot_be_resumed(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=rf"{name} is not a run: there is no .*config\.yaml"):
        resume(tmp_path / name)


def test_a_run_without_weights_has_no_model(small: Make, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", small())
    with pytest.raises(UserError, match="holds no weights yet"):
        run.model()


def test_a_loss_that_explodes_ends_a_run(small: Make, tmp_path: Path) -> None:
    config = small(steps=50, lr=1e30, schedule="constant", warmup=0, checkpoint_every=10)
    with pytest.raises(DivergedError) as raised:
        train(config, tmp_path / "run")
    message = str(raised.value)
    # The first step is taken with good weights; how soon later ones overflow is arithmetic's.
    found = re.search(r"stopped at step (\d+): the loss is (nan|inf)", message)
    assert found, message
    assert 2 <= int(found[1]) <= 10
    assert "learning rate 1e+30" in message
    assert f"Last good checkpoint: step 0 in {tmp_path / 'run' / 'checkpoints'}" in message
    assert [path.name for path in Run.open(tmp_path / "run").checkpoints.iterdir()] == [
        "step-00000000"
    ]
    assert not Run.open(tmp_path / "run").finished


@pytest.mark.parametrize("checkpoint_every", [3, 100])
def test_weights_that_are_no_numbers_end_a_run(
    small: Make, tmp_path: Path, checkpoint_every: int
) -> None:
    config = small(steps=40, checkpoint_every=checkpoint_every)
    model = config.model.build()
    with torch.no_grad():
        model.readout.weight[0, 0] = float("nan")
    with pytest.raises(DivergedError, match=r"stopped at step 1: the loss is nan.*step 0 in"):
        train(config, tmp_path / "run", model)
    assert len(list(Run.open(tmp_path / "run").checkpoints.iterdir())) == 1
    assert Run.open(tmp_path / "run").metrics() == []


def test_a_full_disk_ends_a_run_with_a_message(small: Make, tmp_path: Path) -> None:
    config = small(steps=12, width=32, checkpoint_every=4)
    whole = train(config, tmp_path / "whole")
    room = (whole.folder / "model.safetensors").stat().st_size * 3 // 2
    # Weights fit, the optimiser's two moments of each no longer do.
    child = Child.start(tmp_path / "run", config.to_yaml(), file_limit=room)
    assert child.end() == 1
    run = Run.open(tmp_path / "run")
    assert f"cannot write checkpoint {run.checkpoints / 'step-00000004'}" in child.said
    assert "File too large" in child.said
    assert (
        "Checkpoints written before are intact; make room and continue with: "
        f"mnemoscope resume {run.folder}" in child.said
    )
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000000"]
    assert checkpoint.load(run.checkpoints / "step-00000000").step == 0

    resume(run.folder)
    final = "model.safetensors"
    assert (run.folder / final).read_bytes() == (whole.folder / final).read_bytes()


def test_a_full_disk_at_the_very_end(small: Make, tmp_path: Path) -> None:
    config = small(steps=3, width=32)
    child = Child.start(tmp_path / "run", config.to_yaml())
    assert child.end() == 0, child.said
    folder = shutil.copytree(tmp_path / "run", tmp_path / "again")
    (folder / "model.safetensors").unlink()
    room = sum((folder / name).stat().st_size for name in ("metrics.jsonl", "finished.json"))
    child = Child.start(folder, file_limit=room + 400)
    assert child.end() == 1
    assert f"cannot write {folder / 'model.safetensors'}" in child.said
    assert not Run.open(folder).finished
    assert resume(folder).finished
    assert (folder / "model.safetensors").read_bytes() == (
        tmp_path / "run" / "model.safetensors"
    ).read_bytes()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_metrics_that_cannot_be_written(small: Make, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", small())
    (run.folder / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"cannot write .*metrics\.jsonl: .*space.*resume"):
        run.log(step=1, loss=0.5)


def test_a_missing_metrics_file_is_no_metrics(small: Make, tmp_path: Path) -> None:
    assert Run.create(tmp_path / "run", small()).metrics() == []


def test_a_broken_config_names_its_file(small: Make, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", small())
    (run.folder / "config.yaml").write_text("task: [")
    with pytest.raises(UserError, match=r"run/config\.yaml is not valid YAML"):
        Run.open(run.folder)
