"""The command line as a user meets it: in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from command import refused

import mnemoscope as ms
from mnemoscope import shipped
from mnemoscope.cli import main
from mnemoscope.core.registry import KINDS, find


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``mnemoscope`` in a new process, as wide as needed so that no message is wrapped."""
    env = {**os.environ, "COLUMNS": "400", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "mnemoscope", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=env,
        timeout=300,
    )


def test_train_resume_and_generate_from_end_to_end(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("the quick brown fox jumps over the lazy dog. " * 60)
    words = ["train", "characters", "--memory", "gru", "--source", str(book), "--steps", "20"]
    words += ["--width=16", "--batch", "4", "--segment", "16", "--weight-decay", "0.1"]
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "runs/characters-gru" in done.stdout
    assert "valid accuracy" in done.stdout
    model = ms.load(tmp_path / "runs" / "characters-gru")
    assert model.config.width == 16

    again = command("resume", "runs/characters-gru", cwd=tmp_path)
    assert again.returncode == 0, again.stderr

    said = command("generate", "runs/characters-gru", "the ", "--length", "12", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("the ")
    assert len(said.stdout.rstrip("\n")) <= len("the ") + 12


def test_a_second_run_gets_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(["train", "copy", "--memory", "rnn", "--lag", "2", "--steps", "2", "--width", "4"])
        assert not ended.value.code
    assert sorted(path.name for path in Path("runs").iterdir()) == ["copy-rnn", "copy-rnn-2"]
    first, second = (ms.load(Path("runs") / name) for name in ("copy-rnn", "copy-rnn-2"))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_config_file_trains_with_options_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = ms.train("copy", "gru", "first", lag=2, steps=2, width=4)
    with pytest.raises(SystemExit) as ended:
        main(["train", "first/config.yaml", "--steps", "3", "--out", "second"])
    assert not ended.value.code
    assert ms.load("second").config == first.config.model
    assert Path("second/config.yaml").read_text() == first.config.to_yaml().replace(
        "steps: 2", "steps: 3"
    )
    told = refused(capsys, "train", "first/config.yaml", "--memory", "rnn")
    assert "names its model already" in told
    assert "there is no file nowhere.yaml" in refused(capsys, "train", "nowhere.yaml")
    assert "did you mean 'steps'" in refused(capsys, "train", "first/config.yaml", "--stepz", "3")


def test_mistakes_are_found_before_torch_is_imported() -> None:
    script = (
        "import sys\n"
        "from mnemoscope.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "except SystemExit as ended:\n"
        "    code = ended.code\n"
        "heavy = {'torch', 'transformers', 'accelerate', 'plotly', 'sklearn'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy), 'code:', code)\n"
    )
    mistakes = [
        ["--help"],
        ["train", "--help"],
        ["example", "--help"],
        ["list"],
        ["list", "infinite"],
        ["train", "cpoy"],
        ["train", "copy", "--memory", "ltsm"],
        ["train", "copy", "--memory", "compressive", "--widht", "3"],
        ["train", "copy", "--memory", "transformer", "--positions", "learned", "--context", "4"],
        ["study", "lga"],
        ["study", "lag", "--sedes", "3"],
    ]
    for words in mistakes:
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60
        )
        assert "heavy: []" in done.stdout, (words, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "cpoy"], "unknown task 'cpoy'; did you mean 'copy'"),
        (["train", "copy", "--memory", "ltsm"], "unknown memory 'ltsm'; did you mean 'lstm'"),
        (["train", "copy", "--memory", "encoder_decoder"], "unknown memory 'encoder_decoder'"),
        (
            ["train", "copy", "--memory", "compressive", "--widht", "3"],
            "unknown option 'widht'; did you mean 'width'",
        ),
        (["train", "copy", "--lag", "long"], "lag: input should be a valid integer"),
        (["train", "copy", "--lag"], "--lag needs a value"),
        (["train", "copy", "--lag", "--steps", "3"], "--lag needs a value"),
        (["train", "copy", "--lag", "3", "--lag", "4"], "given twice"),
        (["train", "copy", "lag=3"], "given as --name value"),
        (["train", "copy", "--symbols", "1"], "symbols"),
        (["train", "copy", "--vocab", "4"], "vocabulary has only 4"),
        (["train", "recall", "--keys", "2", "--pairs", "9"], "raise keys or lower pairs"),
        (
            [
                "train",
                "copy",
                "--memory",
                "transformer",
                "--positions",
                "learned",
                "--context",
                "9",
            ],
            "longer than the context of 9",
        ),
        (["train", "text", "--source", "nowhere.txt"], "no file or folder nowhere.txt"),
        (["train", "copy", "--device", "tpu"], "unknown device 'tpu'"),
        (["train", "os:getcwd"], "'os:getcwd' is not in the registry"),
        (["train", "os:getcwd", "--trust", "os"], "'os:getcwd' is no task"),
        (["train", "copy", "--memory", "os:getcwd"], "would import the module 'os'"),
        (["train", "copy", "--memory", "os:getcwd", "--trust", "os"], "'os:getcwd' is no memory"),
        (["train", "copy", "--trust", "os:getcwd"], "'os:getcwd' is no name of a module"),
        (["train", "copy", "--memory", ""], "unknown memory ''"),
        (["train", "copy", "--out", "x" * 300], "longer than the name of a file can be"),
        (["resume", "nowhere"], "is not a run"),
        (["generate", "nowhere", "a"], "is not a run"),
        (["list", "lsmt"], "did you mean 'lstm'"),
        (["list", "sortin"], "did you mean 'sorting' or 'horizon'?"),
        (["study", "lga"], "unknown study 'lga'; did you mean 'lag'"),
        (["study", "lag", "--preset", "papper"], "did you mean 'paper'"),
        (["study", "lag", "--seeds", "0"], "seeds: input should be greater than"),
    ],
)
def test_mistakes_on_the_command_line_are_explained(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert told in refused(capsys, *words)


def test_bad_files_and_folders_on_the_command_line_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("  \n")
    assert "empty.txt is empty" in refused(capsys, "train", "text", "--source", "empty.txt")
    Path("binary.txt").write_bytes(b"abc\x00def")
    assert "NUL at byte 3" in refused(capsys, "train", "text", "--source", "binary.txt")
    Path("short.txt").write_text("too short")
    assert "too few" in refused(capsys, "train", "characters", "--source", "short.txt")
    Path("full").mkdir()
    Path("full/letter").write_text("mine")
    assert "exists already" in refused(capsys, "train", "copy", "--out", "full")
    told = refused(capsys, "train", "copy", "--out", "full/letter/run")
    assert "cannot write to" in told
    told = refused(capsys, "study", "lag", "--out", "full/letter/study")
    assert "cannot write" in told


def test_a_loss_that_is_not_finite_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--lr", "1e38", "--warmup", "0", "--steps", "20", "--width", "4", "--lag", "2"]
    told = refused(capsys, "train", "copy", "--memory", "rnn", *words)
    assert "stopped at step" in told
    assert "Last good checkpoint: step 0" in told


def test_list_names_everything_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["list"])
    said = capsys.readouterr().out
    for table in KINDS.values():
        for name, entry in table.items():
            assert name in said
            assert entry.line.split()[0] in said
    for name in ("lstm", "copy", "lag", "training"):
        with pytest.raises(SystemExit) as ended:
            main(["list", name])
        assert not ended.value.code
        assert "--" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["list", "images"])
    said = capsys.readouterr().out
    assert "task images" in said
    assert "study images" in said


@pytest.mark.parametrize("name", KINDS["study"])
def test_every_preset_of_a_study_says_what_it_costs(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit):
        main(["list", name])
    said = capsys.readouterr().out
    costs = dict(re.findall(r"^ (\w+) +(not measured|\d+ CPU minutes) ", said, re.M))
    assert set(costs) == set(find("study", name).presets)
    made = shipped.load(name).made
    assert made.cpu_seconds
    measured = {preset for preset, cost in costs.items() if cost != "not measured"}
    assert measured == {preset for preset in costs if f"--preset {preset}" in made.command}
    (minutes,) = (int(costs[preset].split()[0]) for preset in measured)
    assert abs(60 * minutes - made.cpu_seconds) <= 30


@pytest.mark.parametrize("name", [[], *[[n] for n in ("list", "train", "resume", "study")]])
def test_every_help_has_an_example(name: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name, "--help"])
    assert not ended.value.code
    said = capsys.readouterr().out
    assert "mnemoscope " + " ".join(name) in said
    assert not name or "Examples" in said


def test_doctor_finds_this_machine_well(tmp_path: Path) -> None:
    done = command("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("versions", "threads", "device", "exactness", "folders", "page"):
        assert re.search(rf"ok +{name}", done.stdout), done.stdout


def test_doctor_says_when_the_device_is_missing() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has the device that should be missing")
    done = command("doctor", "--device", "cuda")
    assert done.returncode == 2
    assert "FAIL device" in done.stdout
    assert "no cuda" in done.stdout


def test_odd_names_and_numbers_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["train", "copy", "--steps", "1", "--width", "4", "--out", "a[bold]b[/x] ü"])
    assert not ended.value.code
    assert "a[bold]b[/x] ü" in capsys.readouterr().out
    assert "trained on copy, not on text" in refused(capsys, "generate", "a[bold]b[/x] ü", "x")
    Path("book.txt").write_text("abc " * 600)
    run = ms.train("characters", "rnn", "run", source="book.txt", steps=1, batch=2, segment=8)
    for words in (["--temperature", "1e-320"], ["--seed", "9" * 18]):
        with pytest.raises(SystemExit) as ended:
            main(["generate", "run", "ab", "--length", "3", *words])
        assert not ended.value.code
    assert "temperature" in refused(capsys, "generate", "run", "ab", "--temperature", "nan")
    (run.folder / "config.yaml").write_bytes(b"\xff\xfe")
    assert "config.yaml is not UTF-8 text" in refused(capsys, "resume", "run")


def test_the_options_of_a_given_model_cannot_be_changed(tmp_path: Path) -> None:
    model = ms.build("gru", vocab=10, width=4)
    with pytest.raises(ms.UserError, match="its width cannot be changed"):
        ms.train("copy", model, tmp_path / "run", width=8)


def test_stopping_is_no_mistake(tmp_path: Path) -> None:
    words = ["train", "copy", "--steps", "1000000", "--width", "4", "--out", "run"]
    running = subprocess.Popen(
        [sys.executable, "-m", "mnemoscope", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 90
    while not (metrics.is_file() and metrics.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert "nothing is lost" in said
    assert "error" not in said
    assert "mnemoscope resume run" in said
