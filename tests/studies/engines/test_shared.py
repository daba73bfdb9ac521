"""The same command several times on one folder, for real: every trial once, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_study import Losses

import mnemoscope as ms
from mnemoscope.core.data import to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.studies.engines.claims import newest

MEMORIES = ("rnn", "gru", "lstm", "transformer")
STUDY = "study tiny_study:Faulty --trust tiny_study --out s --jobs 1 --engine shared --patience 2"
OPTIONS = ["--memories", ",".join(MEMORIES), "--slow", "0.3"]

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no signals")


def started(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mnemoscope", *STUDY.split(), *OPTIONS],
        cwd=home,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def claimed_by(folder: Path, process: int) -> list[str]:
    seen = {name: newest(folder / "runs" / ".claims", name) for name in MEMORIES}
    return [n for n, one in seen.items() if one and one.holder.process == process]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Losses]:
    folder = tmp_path_factory.mktemp("alone") / "s"
    found = ms.study(
        "tiny_study:Faulty", out=folder, jobs=1, trust="tiny_study", memories=MEMORIES, slow=0.3
    )
    return folder, found.result


def weights(folder: Path) -> dict[str, bytes]:
    return {name: (folder / "runs" / name / "model.safetensors").read_bytes() for name in MEMORIES}


def test_one_of_two_is_killed_and_every_trial_is_done_once(
    tmp_path: Path, alone: tuple[Path, Losses]
) -> None:
    folder = tmp_path / "s"
    first, second = started(tmp_path), started(tmp_path)
    # In the middle: the first has something under way, and both have begun.
    wait_until(lambda: claimed_by(folder, first.pid) and claimed_by(folder, second.pid))
    wait_until(lambda: list(folder.glob("runs/*/examined.json")))
    first.kill()
    said, _ = second.communicate(timeout=180)
    assert second.returncode == 0, said
    first.communicate(timeout=180)
    assert first.returncode == -signal.SIGKILL

    found = json.loads((folder / "result.json").read_text())
    assert found["result"] == to_plain(alone[1])
    assert weights(folder) == weights(alone[0])
    claims = sorted((folder / "runs" / ".claims").iterdir())
    done = [path.stem for path in claims if b"released" in path.read_bytes()]
    assert sorted(done) == sorted(MEMORIES)
    # What was under way when the other was killed was begun twice.
    assert len(claims) <= len(MEMORIES) + 1


def test_a_study_that_is_shared_is_not_for_who_does_not_share_it(tmp_path: Path) -> None:
    study = started(tmp_path)
    wait_until(lambda: claimed_by(tmp_path / "s", study.pid))
    with pytest.raises(UserError, match="start all of them with --engine shared"):
        ms.study(
            "tiny_study:Faulty", out=tmp_path / "s", trust="tiny_study", memories=MEMORIES, slow=0.3
        )
    study.kill()
    study.communicate()
