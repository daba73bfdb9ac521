"""What lies in a study's folder is believed only when it is whole and of this very study."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemoscope.core.bounded import read_sealed, write_sealed
from mnemoscope.core.errors import UserError
from mnemoscope.studies.answers import asked
from mnemoscope.studies.lag.study import Lag
from mnemoscope.studies.notices import collected
from mnemoscope.studies.trials import Trial, measure_all, run_trials
from mnemoscope.training.config import RunConfig
from mnemoscope.training.run import Run

SMALL = {"lag": 2, "width": 4, "steps": 4, "batch": 4}
ANYTHING = st.binary(max_size=120) | st.text(alphabet='{}[]":,fasevlu0129.en ', max_size=60).map(
    str.encode
)


@dataclass(frozen=True)
class Loss:
    loss: float


def last_loss(folder: Path, scale: float = 1.0) -> Loss:
    return Loss(scale * Run.open(folder).metrics()[-1]["valid_loss"])


def trials(**options: Any) -> list[Trial]:
    return [Trial(name, RunConfig.of("copy", name, SMALL | options)) for name in ("rnn", "gru")]


def examined(folder: Path, scale: float = 1.0, **options: Any) -> tuple[Any, list[str]]:
    with collected() as said:
        examine = partial(last_loss, scale=scale)
        found = run_trials(trials(**options), folder, examine, jobs=1, label="test", kind=Loss)
    return found, said.notices


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("trials") / "runs"
    found, notices = examined(folder)
    assert notices == []
    return folder, found


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("model.safetensors"))}


def test_what_is_whole_is_not_looked_at_again(done: tuple[Path, Any]) -> None:
    folder, found = done
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert examined(folder) == (found, [])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def flip(content: bytes) -> bytes:
    """Another digit in the first loss that the file tells."""
    place = content.index(b'"loss": ') + len(b'"loss": ') + 3
    return (
        content[:place]
        + (b"7" if content[place : place + 1] != b"7" else b"3")
        + content[place + 1 :]
    )


def older(content: bytes) -> bytes:
    """As versions without seals wrote it, with a number that is not true."""
    return json.dumps({"loss": 0.5}).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: b"{}", "was damaged"),
        (lambda content: b"", "was damaged"),
        (lambda content: content[: len(content) // 2], "was damaged"),
        (flip, "was damaged"),
        (older, "has no seal"),
    ],
    ids=["empty object", "empty", "cut", "flipped", "older"],
)
def test_a_damaged_answer_is_examined_again_without_training(
    done: tuple[Path, Any], tmp_path: Path, change: Any, said: str
) -> None:
    folder = shutil.copytree(done[0], tmp_path / "runs")
    answer = folder / "rnn" / "examined.json"
    answer.write_bytes(change(answer.read_bytes()))
    models = written(folder)
    found, notices = examined(folder)
    assert found == done[1]
    (notice,) = notices
    assert notice.startswith("1 of 2 trials was examined again because what was kept of it")
    assert said in notice
    assert notice.endswith(": rnn.")
    assert written(folder) == models
    # The page owes it to its reader also when the study is cut off after that.
    assert examined(folder) == (found, notices)


def test_the_answer_of_another_model_or_to_another_question_is_not_taken(
    done: tuple[Path, Any], tmp_path: Path
) -> None:
    folder = shutil.copytree(done[0], tmp_path / "runs")
    shutil.copy(folder / "gru" / "examined.json", folder / "rnn" / "examined.json")
    found, notices = examined(folder)
    assert found == done[1]
    assert "other options or other weights: rnn." in notices[0]
    found, notices = examined(folder, scale=2.0)
    assert [row.loss for row in found] == [2 * row.loss for row in done[1]]
    assert "2 of 2 trials were examined again" in notices[0]


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "cut off"])
def test_a_run_of_another_config_is_put_aside_and_trained_again(
    done: tuple[Path, Any], tmp_path: Path, finished: bool
) -> None:
    folder = shutil.copytree(done[0], tmp_path / "runs")
    config = folder / "gru" / "config.yaml"
    config.write_text(config.read_text().replace("lr: 0.001", "lr: 0.1"))
    if not finished:
        (folder / "gru" / "model.safetensors").unlink()
        (folder / "gru" / "examined.json").unlink()
    found, notices = examined(folder)
    assert found == done[1]
    assert "1 of 2 trials was trained again because what lay in its place was a run" in notices[0]
    assert "lr: 0.1" in (folder / "put-aside" / "gru" / "config.yaml").read_text()
    assert examined(folder) == (found, notices)


def test_a_config_in_another_layout_or_without_what_came_later_is_the_same(
    done: tuple[Path, Any], tmp_path: Path
) -> None:
    folder = shutil.copytree(done[0], tmp_path / "runs")
    (folder / "gru" / "examined.json").unlink()
    config = folder / "gru" / "config.yaml"
    lines = config.read_text().splitlines()
    config.write_text("# mine\n" + "\n".join(line for line in lines if "clip:" not in line))
    models = written(folder)
    assert examined(folder) == (done[1], [])
    assert written(folder) == models


def test_another_study_in_the_same_folder_gets_its_own_models(
    done: tuple[Path, Any], tmp_path: Path
) -> None:
    folder = shutil.copytree(done[0], tmp_path / "runs")
    found, notices = examined(folder, lr=0.1)
    assert found == examined(tmp_path / "fresh", lr=0.1)[0]
    assert found != done[1]
    assert notices[0].startswith("2 of 2 trials were trained again")


def test_two_trials_of_one_name_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    twins = [Trial("rnn", RunConfig.of("copy", "rnn", SMALL | {"lr": lr})) for lr in (0.1, 0.2)]
    with pytest.raises(UserError, match="two trials are called 'rnn'"):
        run_trials(twins, tmp_path / "runs", last_loss, jobs=1, label="test", kind=Loss)
    assert not (tmp_path / "runs").exists()


def test_a_trial_that_cannot_be_trained_is_refused_before_the_first_is(tmp_path: Path) -> None:
    wrong = Trial("short", RunConfig.of("copy", "transformer", SMALL | {"width": 8, "context": 2}))
    with pytest.raises(UserError, match="longer than the context"):
        run_trials(
            [*trials(), wrong], tmp_path / "runs", last_loss, jobs=1, label="test", kind=Loss
        )
    assert not (tmp_path / "runs").exists()


@settings(max_examples=12)
@given(ANYTHING)
def test_any_bytes_in_an_answer_give_the_true_values(
    done: tuple[Path, Any], content: bytes
) -> None:
    answer = done[0] / "rnn" / "examined.json"
    good = answer.read_bytes()
    try:
        answer.write_bytes(content)
        found, notices = examined(done[0])
    finally:
        answer.write_bytes(good)
    assert found == done[1]
    assert len(notices) == 1


@dataclass(frozen=True)
class Measured:
    name: str
    steps: int


def measured(options: Lag, folder: Path, name: str) -> Measured:
    return Measured(name, options.steps)


measure_them = partial(measure_all, kind=Measured)


def test_any_bytes_in_a_measurement_give_the_true_values(tmp_path: Path) -> None:
    measure = partial(measured, Lag(steps=3), tmp_path)
    true = measure_them(["a b", "c"], measure, tmp_path, jobs=1, label="test")

    @settings(max_examples=60)
    @given(ANYTHING)
    def holds(content: bytes) -> None:
        (tmp_path / "a-b.json").write_bytes(content)
        with collected() as said:
            assert measure_them(["a b", "c"], measure, tmp_path, 1, "test") == true
        assert said.notices[0].startswith("1 of 2 trials was measured again")
        assert said.notices[0].endswith(": a b.")

    holds()


def test_a_measurement_of_other_options_is_not_taken(tmp_path: Path) -> None:
    measure_them(["a"], partial(measured, Lag(steps=3), tmp_path), tmp_path, 1, "test")
    with collected() as said:
        other = partial(measured, Lag(steps=4), tmp_path)
        assert measure_them(["a"], other, tmp_path, 1, "test") == {"a": Measured("a", 4)}
    assert "other options" in said.notices[0]
    shutil.move(tmp_path / "a.json", tmp_path / "b.json")
    with collected() as said:
        assert measure_them(["b"], other, tmp_path, 1, "test")["b"].name == "b"
    assert said.notices


def test_where_a_study_lies_is_no_part_of_what_it_asks(tmp_path: Path) -> None:
    here = partial(measured, Lag(steps=3), tmp_path)
    there = partial(measured, Lag(steps=3), tmp_path / "moved")
    assert asked(here) == asked(there) != asked(partial(measured, Lag(steps=4), tmp_path))


def test_a_seal_around_something_else_is_no_answer(done: tuple[Path, Any], tmp_path: Path) -> None:
    folder = shutil.copytree(done[0], tmp_path / "runs")
    answer = folder / "rnn" / "examined.json"
    others: list[Any] = [[], {}, {**read_sealed(answer, ""), "version": 0}]
    for facts in others:
        write_sealed(answer, facts)
        assert examined(folder)[0] == done[1]


def test_a_finished_run_that_is_damaged_is_told_with_a_remedy(
    done: tuple[Path, Any], tmp_path: Path
) -> None:
    for name, content in {"metrics.jsonl": b"{}\n", "model.safetensors": b"nothing"}.items():
        folder = shutil.copytree(done[0], tmp_path / name)
        (folder / "rnn" / "examined.json").unlink()
        (folder / "rnn" / name).write_bytes(content)
        with pytest.raises(UserError, match=f"{name}.*delete that folder: the trial is trained"):
            run_trials(trials(), folder, with_model, jobs=1, label="test", kind=Loss)
        shutil.rmtree(folder / "rnn")
        assert examined(folder)[0] == done[1]


def with_model(folder: Path) -> Loss:
    Run.open(folder).model()
    return last_loss(folder)
