"""config.yaml belongs to the weights beside it: a changed or cut one is noticed and explained."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from complaints import complaint

from mnemoscope.api import load
from mnemoscope.core.bounded import write_sealed
from mnemoscope.data.text import _corpus
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import resume, train
from mnemoscope.training.run import Run

Make = Callable[..., RunConfig]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with checkpoints at steps 4 and 6."""
    options = {"lag": 4, "width": 8, "batch": 4, "warmup": 2, "device": "cpu", "lr": 0.01}
    config = RunConfig.of("copy", "gru", {**options, "steps": 7, "checkpoint_every": 2})
    return train(config, tmp_path_factory.mktemp("whole") / "run").folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "run")


@pytest.fixture
def stopped(run: Path) -> Path:
    """The same before it was finished."""
    (run / "model.safetensors").unlink()
    (run / "finished.json").unlink()
    return run


def change(run: Path, old: str, new: str) -> None:
    path = run / "config.yaml"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def make_old(run: Path, forget: dict[str, list[str]]) -> None:
    """Leave of a run what a version would have left that kept no config and lacked options."""
    for folder in (run / "checkpoints").iterdir():
        facts = json.loads((folder / "complete.json").read_text())["facts"]
        del facts["config"]
        seal = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        (folder / "complete.json").write_text(json.dumps({"facts": facts, "seal": seal}))
    (run / "finished.json").unlink(missing_ok=True)
    config = yaml.safe_load((run / "config.yaml").read_text())
    for part, names in forget.items():
        for name in names:
            del config[part][name]
    (run / "config.yaml").write_text(yaml.safe_dump(config))


CHANGES = [
    ("lr: 0.01", "lr: 0.02", "training.lr: 0.01 {when}, 0.02 now"),
    ("steps: 7", "steps: 70", "training.steps: 7 {when}, 70 now"),
    ("width: 8", "width: 9", "model.width: 8 {when}, 9 now"),
    ("lag: 4", "lag: 5", "task.lag: 4 {when}, 5 now"),
    ("name: gru", "name: rnn", 'model.name: "gru" {when}, "rnn" now'),
    ("seed: 0", "seed: 1", "training.seed: 0 {when}, 1 now"),
    ("segment: null", "segment: 3", "training.segment: null {when}, 3 now"),
]


@pytest.mark.parametrize(("old", "new", "said"), CHANGES)
@pytest.mark.parametrize("finished", [True, False])
def test_what_was_changed_is_named(
    run: Path, old: str, new: str, said: str, finished: bool
) -> None:
    if not finished:
        (run / "model.safetensors").unlink()
    change(run, old, new)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    when = "at its end" if finished else "at step 6"
    for use in (load, resume):
        told = complaint(partial(use, run))
        assert told
        assert said.format(when=when) in told
        assert f"{run / 'config.yaml'} is not what this run was trained with" in told
        assert "put the old values back" in told
        assert f"ms.train('copy', ms.load('{run}'), out='another/folder', …)" in told
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    change(run, new, old)
    assert resume(run).finished


def test_a_file_cut_in_the_middle_is_not_filled_with_defaults(stopped: Path) -> None:
    text = (stopped / "config.yaml").read_text()
    untouched = {path: path.read_bytes() for path in stopped.rglob("*.safetensors")}
    refused = 0
    lines = text.splitlines(keepends=True)
    for end in range(len(lines)):
        (stopped / "config.yaml").write_text("".join(lines[:end]))
        told = complaint(lambda: Run.open(stopped).model())
        if told is None:
            # All that is lost had the value that it has by default.
            assert Run.open(stopped).config.to_yaml() == text
            continue
        refused += 1
        assert "is not what this run was trained with" in told or "stands under" in told
    assert refused > len(lines) / 2
    assert {path: path.read_bytes() for path in stopped.rglob("*.safetensors")} == untouched


def test_a_config_that_is_lost_stands_in_the_checkpoint(stopped: Path) -> None:
    text = (stopped / "config.yaml").read_text()
    (stopped / "config.yaml").write_text("task: [")
    told = complaint(lambda: resume(stopped))
    assert told
    found = re.search(r"stands under \"config\" in (\S+complete\.json)", told)
    assert found
    said = json.loads(Path(found[1]).read_text())["facts"]["config"]
    (stopped / "config.yaml").write_text(json.dumps(said))
    assert Run.open(stopped).config.to_yaml() == text
    assert resume(stopped).finished


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_of_an_older_version_goes_on(run: Path, whole: Path, finished: bool) -> None:
    make_old(run, {"training": ["schedule", "tbptt", "keep"], "model": ["readout"]})
    if not finished:
        (run / "model.safetensors").unlink()
    assert resume(run).finished
    final = "model.safetensors"
    assert (run / final).read_bytes() == (whole / final).read_bytes()
    assert all(
        torch.equal(one, other)
        for one, other in zip(load(run).parameters(), load(whole).parameters(), strict=True)
    )


def test_an_option_that_came_later_is_no_difference(stopped: Path) -> None:
    # As when a version recorded all that it knew, and a later one knows more.
    for folder in (stopped / "checkpoints").iterdir():
        path = folder / "complete.json"
        facts = json.loads(path.read_text())["facts"]
        del facts["config"]["training"]["tbptt"], facts["config"]["model"]["dropout"]
        write_sealed(path, facts)
    assert load(stopped)
    change(stopped, "tbptt: 1", "tbptt: 2")
    assert "training.tbptt: 1 at step 6, 2 now" in str(complaint(lambda: load(stopped)))


def test_weights_of_an_older_version_that_do_not_fit_are_explained(run: Path) -> None:
    make_old(run, {})
    change(run, "width: 8", "width: 9")
    said = "not of the model in its config.yaml"
    assert said in str(complaint(lambda: load(run)))
    (run / "model.safetensors").unlink()
    assert said in str(complaint(lambda: load(run)))
    told = str(complaint(lambda: resume(run)))
    assert "the checkpoint of step 6" in told
    assert "is not of the model in config.yaml" in told


def test_memories_of_other_parts_are_explained(stopped: Path) -> None:
    make_old(stopped, {})
    change(stopped, "accumulate: 1", "accumulate: 2")
    assert "the states of 1 parts, config.yaml wants 2" in str(complaint(lambda: resume(stopped)))


def test_the_device_may_change(stopped: Path) -> None:
    change(stopped, "device: cpu", "device: auto")
    assert resume(stopped).finished


def test_a_text_may_lie_elsewhere(small: Make, tmp_path: Path, story: str) -> None:
    run = train(small("text", steps=5, checkpoint_every=2), tmp_path / "run").folder
    (run / "model.safetensors").unlink()
    moved = shutil.copy(story, tmp_path / "moved.txt")
    change(run, story, str(moved))
    assert load(run)
    assert resume(run).finished
    (run / "model.safetensors").unlink()
    Path(moved).write_text(Path(story).read_text().replace("9", "8"))
    _corpus.cache_clear()
    assert "not the one it began with" in str(complaint(lambda: resume(run)))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-7],
    "empty": lambda content: b"",
    "flipped": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "other bytes": lambda content: b"\x00" * len(content),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("use", [resume, load])
def test_a_damaged_model_is_not_said_to_be_well(
    run: Path, whole: Path, damage: str, use: Callable[[Path], Any]
) -> None:
    path = run / "model.safetensors"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    told = complaint(lambda: use(run))
    assert told
    assert f"{path} is damaged" in told
    assert f"Delete it and train the last steps again: mnemoscope resume {run}" in told
    assert told.endswith("continues from step 6")
    path.unlink()
    assert resume(run).finished
    assert path.read_bytes() == (whole / path.name).read_bytes()


def test_a_damaged_model_without_checkpoints(run: Path) -> None:
    (run / "model.safetensors").write_bytes(b"")
    shutil.rmtree(run / "checkpoints")
    assert str(complaint(lambda: resume(run))).endswith("continues from the beginning")


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"facts": {"config": 3}, "seal": ""}'])
def test_a_damaged_finished_json_may_be_deleted(run: Path, content: bytes) -> None:
    (run / "finished.json").write_bytes(content)
    told = str(complaint(lambda: load(run)))
    assert "finished.json is damaged" in told
    assert "delete it" in told
    (run / "finished.json").unlink()
    assert load(run)
