"""Slurm: by submitit's local executor, and by a stand-in for sbatch, srun, sacct and scontrol that
runs jobs as processes here. What a real Slurm does beyond that is not tested.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import slurm_stand_in

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.doctor import try_engine
from mnemoscope.studies.engines import slurm
from mnemoscope.studies.engines.claims import newest
from mnemoscope.studies.engines.engine import named

pytest.importorskip("submitit", reason="needs submitit: pip install 'mnemoscope[slurm]'")
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Slurm is for Linux"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SMALL: dict[str, Any] = {"memories": ("rnn", "gru"), "trust": "tiny_study"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> ms.Published:
    return ms.study("tiny_study:Tiny", out=tmp_path_factory.mktemp("s") / "s", jobs=1, **SMALL)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def weights(published: ms.Published) -> list[bytes]:
    folder = published.page.parent / "runs"
    return [(folder / name / "model.safetensors").read_bytes() for name in SMALL["memories"]]


def test_where_there_is_no_slurm_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"there is no Slurm here .*--cluster local"):
        ms.study("tiny_study:Tiny", out=tmp_path / "s", engine="slurm", **SMALL)
    assert not (tmp_path / "s").exists()


def test_jobs_of_submitits_local_executor_give_what_processes_here_do(
    tmp_path: Path, alone: ms.Published
) -> None:
    found = ms.study(
        "tiny_study:Tiny", out=tmp_path / "s", engine="slurm", cluster="local", **SMALL
    )
    assert found.result == alone.result
    assert weights(found) == weights(alone)


def test_the_doctor_lets_jobs_compute_tiny_trials_and_leaves_nothing(tmp_path: Path) -> None:
    found = try_engine(named("slurm", {"cluster": "local"}), tmp_path)
    assert found.well, found.found
    assert f"on {socket.gethostname()}, weights equal bit for bit" in found.found
    assert not list(tmp_path.iterdir())


def test_the_doctor_says_that_there_is_no_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = try_engine(named("slurm", {}), tmp_path)
    assert not found.well
    assert "there is no Slurm here" in found.found


def test_a_job_that_dies_is_tried_again_and_one_whose_time_is_up_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "stand-in"
    for name, value in slurm_stand_in.install(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm, "ASK_EVERY", 0.5)
    claims = tmp_path / "s" / "runs" / ".claims"

    def time_is_up() -> None:
        deadline = time.monotonic() + 60
        while (claim := newest(claims, "rnn")) is None or not claim.holder.process:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(claim.holder.process, signal.SIGUSR2)

    clock = threading.Thread(target=time_is_up)
    clock.start()
    options: dict[str, Any] = {"dying": ("gru",), "times": 1, "slow": 1.0}
    found = ms.study(
        "tiny_study:Faulty", out=tmp_path / "s", engine="slurm", minutes=5, **options, **SMALL
    )
    clock.join()
    once = ms.study("tiny_study:Faulty", out=tmp_path / "once", jobs=1, times=0, **SMALL)
    assert found.result == once.result
    assert weights(found) == weights(once)
    assert (home / "requeued").read_text()
    script = (home / "1000.sh").read_text()
    assert "#SBATCH --array=0-1%" in script
    assert "#SBATCH --time=5" in script
    assert len(slurm_stand_in.jobs(home)) >= 3
