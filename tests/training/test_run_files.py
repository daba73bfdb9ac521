"""Any bytes in any file of a run give the object or a `UserError`, in bounded time and memory."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from complaints import complaint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemoscope.core import bounded
from mnemoscope.core.registry import KINDS, TASKS, find
from mnemoscope.training import checkpoint, metrics
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import resume, train
from mnemoscope.training.run import Run

# The folder is the same for all examples; each of them writes the whole file.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**70), 10**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["none", "1e999", "-1", "0", "", "a:b", ":", "gru", "copy", "os:path"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PAIRS = [(task, model) for task in TASKS for model in KINDS[find("task", task).models]]


@st.composite
def damage(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with a byte changed, cut, doubled or swapped for something else altogether."""
    kind = draw(st.sampled_from(["flip", "cut", "insert", "other"]))
    place = draw(st.integers(0, max(0, len(content) - 1)))
    if kind == "flip" and content:
        return (
            content[:place]
            + bytes([content[place] ^ draw(st.integers(1, 255))])
            + content[place + 1 :]
        )
    if kind == "cut":
        return content[:place]
    if kind == "insert":
        return content[:place] + draw(st.binary(min_size=1, max_size=40)) + content[place:]
    return draw(st.binary(max_size=200))


@pytest.fixture(scope="module")
def whole(story: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on text with checkpoints at steps 2 and 4."""
    options = {"source": story, "unit": "characters", "segment": 8, "width": 4, "batch": 2}
    options |= {"steps": 5, "checkpoint_every": 2, "warmup": 2, "device": "cpu"}
    config = RunConfig.of("text", "gru", options)
    return train(config, tmp_path_factory.mktemp("files") / "run").folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "run")


# --- config.yaml ---------------------------------------------------------------------------------


@given(st.sampled_from(PAIRS), st.data())
def test_any_value_of_any_option_is_taken_or_explained(
    pair: tuple[str, str], data: st.DataObject
) -> None:
    content = CONTENT[pair]
    part = data.draw(st.sampled_from(sorted(content)))
    name = data.draw(st.sampled_from(sorted(content[part])) | st.text(max_size=5))
    changed = {**content, part: {**content[part], name: data.draw(VALUES)}}
    told = complaint(lambda: RunConfig.from_yaml(yaml.safe_dump(changed), "here.yaml"))
    assert told is None or told


CONTENT = {pair: RunConfig.of(*pair, {"vocab": 99}).plain() for pair in PAIRS}


@shared
@given(data=st.data())
def test_any_bytes_of_a_config_are_a_config_or_explained(run: Path, data: st.DataObject) -> None:
    text = CONTENT[("copy", "gru")]
    (run / "config.yaml").write_bytes(data.draw(damage(yaml.safe_dump(text).encode())))
    told = complaint(lambda: Run.open(run))
    assert told is None or str(run / "config.yaml") in told or "option" in told or ":" in told


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x00\xff", "config.yaml is not UTF-8 text"),
        (b"[" * 100_000, "nested deeper than 64"),
        (b"a: &a [1]\nb: *a", "aliases"),
        (b"x" * 300_000, "more than the 262144 allowed"),
        (b"", "needs the parts task, model"),
        (b"task: {name: copy, lag: " + b"9" * 5000 + b"}", "a number of 5000 characters"),
    ],
)
def test_a_config_that_is_none_is_explained(run: Path, content: bytes, said: str) -> None:
    (run / "config.yaml").write_bytes(content)
    told = str(complaint(lambda: resume(run)))
    assert str(run / "config.yaml") in told
    assert said in told
    assert "stands under" in told


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "text.digest", "vocabulary.json"])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_file_of_a_run_that_is_none_is_not_waited_for(run: Path, name: str, kind: str) -> None:
    (run / name).unlink()
    (run / "model.safetensors").unlink()
    if kind == "folder":
        (run / name).mkdir()
    else:
        os.mkfifo(run / name)

    def use() -> None:
        opened = Run.open(run)
        opened.metrics()
        _ = opened.vocabulary
        opened.check_text()

    told = complaint(use)
    if name == "metrics.jsonl":
        assert told is None
    else:
        assert str(run / name) in str(told)
        assert "is not a regular file" in str(told) or "Is a directory" in str(told)


# --- metrics.jsonl -------------------------------------------------------------------------------

GOOD = '{"step": 10, "loss": 0.5}'


@shared
@given(data=st.data())
def test_metrics_never_raise_and_keep_what_is_whole(run: Path, data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.binary(max_size=60).map(lambda one: one.replace(b"\n", b""))))
    (run / "metrics.jsonl").write_bytes(b"\n".join([GOOD.encode(), *lines, GOOD.encode(), b""]))
    found = Run.open(run).metrics()
    assert found[0] == found[-1] == json.loads(GOOD)
    for entry in found:
        assert type(entry["step"]) is int
        assert all(f"{value:.4g}" for value in entry.values())


@shared
@given(VALUES, VALUES)
def test_metrics_are_numbers(run: Path, step: Any, loss: Any) -> None:
    line = json.dumps({"step": step, "loss": loss})
    (run / "metrics.jsonl").write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    opened = Run.open(run)
    assert len(opened.metrics()) in (2, 3)
    assert all(f"{value:.4g}" for entry in opened.metrics() for value in entry.values())
    opened.rewind(10)


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\x01\xff",
        b"{" * 2000,
        b"[" * 100_000,
        b'{"step": "ten", "loss": 1.0}',
        b'{"step": true}',
        b'{"step": null}',
        b'{"step": NaN}',
        b'{"step": 1.5}',
        b'{"step": -1}',
        b'{"step": 3, "loss": "low"}',
        b'{"step": 3, "loss": [1]}',
        b'{"step": ' + b"9" * 4000 + b"}",
        b'{"step": 3, "loss": ' + b"9" * 400 + b"}",
        b'{"loss": 3}',
        b"7",
        b"x" * 3_000_000,
    ],
    ids=range(16),
)
def test_a_damaged_line_costs_itself(
    run: Path, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = run / "metrics.jsonl"
    path.write_bytes(b"\n".join([GOOD.encode(), line, GOOD.encode(), b""]))
    opened = Run.open(run)
    for _ in range(3):
        assert opened.metrics() == [json.loads(GOOD)] * 2
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"1 line of {path} cannot be read" in record.getMessage()
    opened.rewind(10)
    assert path.read_text() == f"{GOOD}\n{GOOD}\n"


def test_a_line_that_a_kill_cut_short_is_no_damage(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (run / "metrics.jsonl").write_text(f"{GOOD}\n{GOOD[:9]}")
    assert Run.open(run).metrics() == [json.loads(GOOD)]
    assert not caplog.records


def test_metrics_without_end_are_read_within_bounds(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metrics, "MOST_BYTES", 1000)
    (run / "metrics.jsonl").write_text(f"{GOOD}\n" * 1000)
    assert 30 < len(Run.open(run).metrics()) < 50
    assert len(caplog.records) == 1


def test_values_that_are_not_finite_are_kept(run: Path) -> None:
    Run.open(run).rewind(0)
    Run.open(run).log(step=1, valid_loss=float("inf"))
    assert Run.open(run).metrics() == [{"step": 1, "valid_loss": float("inf")}]


# --- text.digest and vocabulary.json --------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\xff" * 32, b"abc", b"x" * 300_000])
def test_a_damaged_digest_of_the_text_may_be_deleted(run: Path, content: bytes) -> None:
    (run / "model.safetensors").unlink()
    (run / "text.digest").write_bytes(content)
    told = str(complaint(lambda: resume(run)))
    assert str(run / "text.digest") in told
    assert "delete it" in told
    (run / "text.digest").unlink()
    assert resume(run).finished


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 100_000, b'{"unit": []}'])
def test_a_damaged_vocabulary_is_made_again(run: Path, content: bytes) -> None:
    path = run / "vocabulary.json"
    before = path.read_bytes()
    path.write_bytes(content)
    told = str(complaint(lambda: Run.open(run).vocabulary))
    assert str(path) in told
    assert "delete it: it is made again from the text" in told
    path.unlink()
    assert Run.open(run).vocabulary.size == Run.open(run).config.model.vocab
    assert path.read_bytes() == before


def test_a_letter_that_became_another_is_noticed(run: Path) -> None:
    path = run / "vocabulary.json"
    path.write_text(path.read_text().replace("hps", "hpS"))
    assert "its digest does not fit" in str(complaint(lambda: Run.open(run).vocabulary))


# --- checkpoints ---------------------------------------------------------------------------------

FACTS = {
    "step": 4,
    "processes": 1,
    "parts": 1,
    "files": {"model.safetensors": "", "optimizer.safetensors": ""},
    "config": {},
}


@shared
@given(data=st.data())
def test_any_bytes_in_a_checkpoint_are_the_same_or_explained(
    run: Path, whole: Path, data: st.DataObject
) -> None:
    folder = Path("checkpoints") / "step-00000004"
    name = data.draw(st.sampled_from(sorted(path.name for path in (whole / folder).iterdir())))
    before = (whole / folder / name).read_bytes()
    after = data.draw(damage(before))
    (run / folder / name).write_bytes(after)
    told = complaint(lambda: checkpoint.load(run / folder))
    assert (told is None) == (after == before) or name == "complete.json"
    assert told is None or str(run / folder) in told
    (run / folder / name).write_bytes(before)


@shared
@given(st.sampled_from(sorted(FACTS)), VALUES)
def test_facts_that_are_sealed_are_not_trusted_either(
    tmp_path: Path, name: str, value: Any
) -> None:
    folder = tmp_path / "step-00000004"
    folder.mkdir(exist_ok=True)
    for file in ("model.safetensors", "optimizer.safetensors"):
        (folder / file).touch()
    bounded.write_sealed(folder / "complete.json", {**FACTS, name: value})
    assert complaint(lambda: checkpoint.load(folder))
    complaint(lambda: checkpoint.recorded(tmp_path))


@pytest.mark.parametrize("name", ["../../secret", "/dev/zero", "memory-0-0.safetensors/../x", ""])
def test_a_checkpoint_names_no_other_files(tmp_path: Path, name: str) -> None:
    saved = checkpoint.Checkpoint(3, {"w": torch.ones(2)}, {})
    folder = checkpoint.save(tmp_path, saved, keep=1)
    facts = json.loads((folder / "complete.json").read_text())["facts"]
    facts["files"][name] = "0"
    bounded.write_sealed(folder / "complete.json", facts)
    assert "what no checkpoint says" in str(complaint(lambda: checkpoint.load(folder)))


@pytest.mark.parametrize("name", ["complete.json", "model.safetensors", "memory-0-0.safetensors"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_a_checkpoint_is_passed_over(
    run: Path, name: str, make: Callable[[Path], None]
) -> None:
    path = run / "checkpoints" / "step-00000004" / name
    path.unlink()
    make(path)
    found = checkpoint.newest(run / "checkpoints", processes=1)
    assert found
    assert found.step == 2


@shared
@given(st.dictionaries(st.text(max_size=8) | st.sampled_from(["0.step", "1.exp_avg"]), st.none()))
def test_moments_of_other_weights_are_explained(names: dict[str, None]) -> None:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))])
    tensors = {name: torch.ones(3) for name in names}
    told = complaint(lambda: checkpoint.unpack(optimizer, tensors))
    assert bool(told) == bool(names)


BOMBS: dict[str, Callable[[Path], Any]] = {
    "nested config": lambda run: (run / "config.yaml").write_text("a: " + "{a: " * 60_000),
    "nested metrics": lambda run: (run / "metrics.jsonl").write_text("[" * 10**6 + "\n"),
    "nested facts": lambda run: (run / "finished.json").write_text("[" * 10**6),
    "nested vocabulary": lambda run: (run / "vocabulary.json").write_text("[" * 10**6),
    "digits": lambda run: (run / "finished.json").write_text("9" * 10**6),
    "sparse": lambda run: os.truncate(run / "config.yaml", 2**40),
    "sparse vocabulary": lambda run: os.truncate(run / "vocabulary.json", 2**40),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_costs_little(run: Path, name: str) -> None:
    BOMBS[name](run)
    began = time.process_time()

    def use() -> None:
        opened = Run.open(run)
        opened.metrics()
        _ = opened.vocabulary
        opened.model()

    complaint(use)
    assert time.process_time() - began < 5
