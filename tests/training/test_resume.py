"""Killed at any moment, a run continues to the weights it would have had, bit for bit."""

from __future__ import annotations

import json
import logging
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from children import Child, has_step, wait_until
from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.training import checkpoint
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import resume, train
from mnemoscope.training.run import Run

Make = Callable[..., RunConfig]
Measured = Callable[[Path], list[dict[str, Any]]]

KINDS = [("copy", "gru"), ("copy", "transformer"), ("text", "lstm"), ("text", "transformer")]


@pytest.fixture(params=KINDS, ids=["-".join(kind) for kind in KINDS])
def config(request: pytest.FixtureRequest, small: Make) -> RunConfig:
    """Episodes with dropout, and texts whose memory is carried from step to step."""
    task, memory = request.param
    return small(
        task, memory, steps=60, dropout=0.2, accumulate=2, checkpoint_every=5, evaluate_every=15
    )


@pytest.fixture
def whole(config: RunConfig, tmp_path: Path) -> Run:
    """The run that nobody disturbed."""
    return train(config, tmp_path / "whole")


def assert_same(run: Path, whole: Run) -> None:
    final = "model.safetensors"
    assert (run / final).read_bytes() == (whole.folder / final).read_bytes()


def steps(run: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (run / "checkpoints").glob("step-????????"))


def test_a_run_killed_again_and_again_goes_on(
    config: RunConfig, whole: Run, tmp_path: Path, measured: Measured
) -> None:
    folder = tmp_path / "run"
    moments = random.Random(f"{config.task_name} {config.memory}")
    child = Child.start(folder, config.to_yaml())
    for seen in (5, 15, 30):
        code = child.signal_when(signal.SIGKILL, has_step(folder, seen))
        assert code == -signal.SIGKILL
        assert not Run.open(folder).finished
        child = Child.start(folder)
        # At once, or a few steps later.
        time.sleep(moments.choice([0.0, 0.01]))
    assert child.end() == 0, child.said
    assert_same(folder, whole)
    assert measured(folder) == measured(whole.folder)


@pytest.mark.parametrize("task", ["copy", "text"])
def test_killed_before_any_change_to_its_files(
    small: Make, tmp_path: Path, task: str, measured: Measured
) -> None:
    config = small(task, steps=4, dropout=0.2, checkpoint_every=2, keep=1, evaluate_every=2)
    whole = train(config, tmp_path / "whole")
    killed = 0
    # Every other moment, and other ones for the other task, to be done in time.
    for moment in range({"copy": 0, "text": 1}[task], 999, 2):
        folder = tmp_path / f"run-{moment}"
        child = Child.start(folder, config.to_yaml(), kill_at=moment)
        if child.end() == 0:
            break
        assert child.process.exitcode == -signal.SIGKILL, child.said
        killed += 1
        if not (folder / "config.yaml").exists():
            with pytest.raises(UserError, match="is not a run"):
                resume(folder)
            continue
        resume(folder)
        assert_same(folder, whole)
        assert measured(folder) == measured(whole.folder)
        if task == "text":
            assert Run.open(folder).vocabulary.size == config.model.vocab
    assert killed > 10


def test_killed_while_a_checkpoint_is_written(small: Make, tmp_path: Path) -> None:
    # Large enough that writing takes a while.
    config = small(steps=6, width=192, layers=2, checkpoint_every=2)
    whole = train(config, tmp_path / "whole")
    folder = tmp_path / "run"
    partial = folder / "checkpoints" / "step-00000002.partial"
    child = Child.start(folder, config.to_yaml())
    child.signal_when(signal.SIGKILL, partial.exists)
    assert steps(folder)[0] == 0
    resume(folder)
    assert_same(folder, whole)
    assert not partial.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_stopped_politely_goes_on(small: Make, tmp_path: Path, number: int) -> None:
    config = small("text", "lstm", steps=400, dropout=0.2, checkpoint_every=150)
    folder = tmp_path / "run"
    child = Child.start(folder, config.to_yaml())
    wait_until(lambda: len(Run(folder, config).metrics()) > 2)
    assert child.signal_when(number, lambda: True) == 1
    found = re.fullmatch(
        rf"InterruptedRunError: stopped after step (\d+); nothing is lost\. "
        rf"Continue with: mnemoscope resume {folder}",
        child.said,
    )
    assert found, child.said
    assert issubclass(InterruptedRunError, UserError)
    assert steps(folder)[-1] == int(found[1])
    resume(folder)
    assert_same(folder, train(config, tmp_path / "whole"))


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])


def flip(name: str, where: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        content = bytearray(path.read_bytes())
        content[int(where * len(content))] ^= 0x81
        path.write_bytes(content)

    return damage


def earlier(folder: Path) -> None:
    path = folder / "complete.json"
    path.write_text(path.read_text().replace('"step": 10', '"step": 11'))


def empty(folder: Path) -> None:
    (folder / "complete.json").write_text("[]")


def stray(folder: Path) -> None:
    folder.rename(folder.with_name(folder.name + ".partial"))


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "weights": flip("model.safetensors", 0.9),
    "names": flip("model.safetensors", 0.1),
    "moments": flip("optimizer.safetensors", 0.7),
    "memory": flip("memory-0-0.safetensors", 0.9),
    "owner": flip("memory-0-0.safetensors", 0.3),
    "facts": flip("complete.json", 0.5),
    "other step": earlier,
    "other content": empty,
    "no facts": lambda folder: (folder / "complete.json").unlink(),
    "no moments": lambda folder: (folder / "optimizer.safetensors").unlink(),
    "no memory": lambda folder: (folder / "memory-0-0.safetensors").unlink(),
    "empty": emptied,
    "partial": stray,
}


@pytest.fixture(scope="module")
def stopped(story: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A run with checkpoints at steps 5 and 10, stopped, and the same run to its end."""
    root = tmp_path_factory.mktemp("stopped")
    options = {"source": story, "unit": "characters", "segment": 8, "width": 8, "batch": 4}
    options |= {"steps": 14, "dropout": 0.2, "checkpoint_every": 5, "warmup": 2, "device": "cpu"}
    config = RunConfig.of("text", "lstm", options)
    whole = train(config, root / "whole")
    shutil.copytree(whole.folder, root / "run")
    (root / "run" / "model.safetensors").unlink()
    assert steps(root / "run") == [5, 10]
    return root / "run", whole


@pytest.fixture
def copied(stopped: tuple[Path, Run], tmp_path: Path) -> tuple[Path, Run]:
    """The same, the stopped run in a folder that may be damaged."""
    return Path(shutil.copytree(stopped[0], tmp_path / "run")), stopped[1]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(
    copied: tuple[Path, Run],
    damage: str,
    caplog: pytest.LogCaptureFixture,
    measured: Measured,
) -> None:
    folder, whole = copied
    DAMAGES[damage](folder / "checkpoints" / "step-00000010")
    found = checkpoint.newest(folder / "checkpoints", processes=1)
    assert found is not None
    assert found.step == 5
    if damage != "partial":
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "step-00000010 cannot be used, trying the one before" in record.getMessage()
    resume(folder)
    assert_same(folder, whole)
    assert measured(folder) == measured(whole.folder)
    assert steps(folder) == [5, 10]
    assert checkpoint.load(folder / "checkpoints" / "step-00000010").step == 10


def test_not_a_bit_of_a_checkpoint_can_change_unnoticed(tmp_path: Path) -> None:
    saved = checkpoint.Checkpoint(3, {"w": torch.ones(2)}, {"0.step": torch.tensor(1.0)}, [])
    folder = checkpoint.save(tmp_path, saved, keep=1)
    assert checkpoint.load(folder).step == 3
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for place in range(len(content)):
            for bit in (0x01, 0x80):
                changed = bytearray(content)
                changed[place] ^= bit
                path.write_bytes(changed)
                with pytest.raises(UserError, match="damaged"):
                    checkpoint.load(folder)
        path.write_bytes(content)
    assert checkpoint.load(folder).step == 3


def test_a_run_with_all_checkpoints_damaged_is_refused(
    copied: tuple[Path, Run], caplog: pytest.LogCaptureFixture, measured: Measured
) -> None:
    folder, whole = copied
    for path in (folder / "checkpoints").iterdir():
        truncate(path)
    resume(folder)
    assert len(caplog.records) == 2
    assert_same(folder, whole)
    assert measured(folder) == measured(whole.folder)


def test_given_weights_outlive_all_checkpoints(small: Make, tmp_path: Path) -> None:
    config = small(steps=7, checkpoint_every=3)
    torch.manual_seed(99)
    model = config.model.build()
    start = {name: weight.clone() for name, weight in model.state_dict().items()}
    whole = train(config, tmp_path / "whole", model)
    folder = shutil.copytree(whole.folder, tmp_path / "run")
    (folder / "model.safetensors").unlink()
    shutil.rmtree(folder / "checkpoints")
    resume(folder)
    assert_same(folder, whole)
    untrained = whole.untrained().state_dict()
    assert all(torch.equal(untrained[name], weight) for name, weight in start.items())


def test_useless_checkpoints_do_not_push_out_useful_ones(tmp_path: Path) -> None:
    for step in (4, 6):
        checkpoint.save(tmp_path, checkpoint.Checkpoint(step, {}, {}), keep=2)
    for path in tmp_path.iterdir():
        truncate(path)
    # As after a run that had to start anew.
    checkpoint.save(tmp_path, checkpoint.Checkpoint(0, {}, {}), keep=2)
    checkpoint.save(tmp_path, checkpoint.Checkpoint(2, {}, {}), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000000", "step-00000002"]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_as_many_are_kept_as_asked(small: Make, tmp_path: Path, keep: int) -> None:
    config = small(steps=11, checkpoint_every=2, keep=keep)
    run = train(config, tmp_path / "run")
    assert steps(run.folder) == [2, 4, 6, 8, 10][-keep:]


def test_a_finished_run_is_returned_as_it_is(small: Make, tmp_path: Path) -> None:
    run = train(small(steps=3), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    assert resume(run.folder) == run
    assert {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")} == before


def test_metrics_cut_short_by_a_kill_are_measured_again(
    stopped: tuple[Path, Run], tmp_path: Path, measured: Measured
) -> None:
    source, whole = stopped
    folder = shutil.copytree(source, tmp_path / "run")
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text()[:-9])
    assert Run.open(folder).metrics() == [json.loads(x) for x in path.read_text().split("\n")[:-1]]
    resume(folder)
    assert_same(folder, whole)
    assert measured(folder) == measured(whole.folder)
