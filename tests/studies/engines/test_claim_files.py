"""Claims: one holder at a time, whatever the clocks say, and none for ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.studies.engines.claims import (
    PATIENCE,
    Claim,
    ClaimedError,
    Holder,
    Watch,
    newest,
    present,
)

# As another machine would write it: nobody here can say whether its process lives.
ABROAD = replace(Holder.here(patience=0.3), machine="another", host="abroad")


def abandon(folder: Path, holder: Holder = ABROAD, beats: bytes = b"..") -> Path:
    """A claim whose holder was killed."""
    folder.mkdir(exist_ok=True)
    path = folder / "a.1"
    path.write_bytes(json.dumps(vars(holder)).encode() + b"\n" + beats)
    return path


def test_what_is_claimed_is_refused_to_others_and_free_when_released(tmp_path: Path) -> None:
    with Claim(tmp_path, "a", Holder.here()), pytest.raises(ClaimedError) as refused:
        Claim(tmp_path, "a", Holder.here()).__enter__()
    assert refused.value.holder.process == os.getpid()
    with Claim(tmp_path, "a", Holder.here()) as again:
        assert again.number == 2
    assert Watch().free(tmp_path, "a") == 2
    assert Watch().free(tmp_path, "never claimed") == 0


def test_of_many_who_want_a_claim_one_gets_it_also_when_it_is_taken_over(tmp_path: Path) -> None:
    for number in range(10):
        folder = tmp_path / str(number)
        stale = 1 if number % 2 else 0
        if stale:
            abandon(folder, replace(ABROAD, patience=0.01))
        ready = threading.Barrier(8)
        won: list[Claim] = []

        def want(folder: Path = folder, stale: int = stale, ready=ready, won=won) -> None:
            ready.wait()
            with suppress(ClaimedError):
                won.append(Claim(folder, "a", Holder.here(), stale).__enter__())

        threads = [threading.Thread(target=want) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        won[0].__exit__(None, None, None)


def test_a_late_taker_of_what_was_taken_over_and_done_meanwhile_gets_nothing(
    tmp_path: Path,
) -> None:
    abandon(tmp_path)
    with Claim(tmp_path, "a", Holder.here(), stale=1), pytest.raises(ClaimedError):
        Claim(tmp_path, "a", Holder.here(), stale=1).__enter__()
    with Claim(tmp_path, "a", Holder.here()), pytest.raises(ClaimedError):
        Claim(tmp_path, "a", Holder.here(), stale=1).__enter__()


def test_a_claim_is_stale_when_it_did_not_change_while_it_was_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, watch = abandon(tmp_path), Watch()
    # Wherever clocks are set to, also of the file system: only the watcher's steady one counts.
    for clock in (0, 2**31):
        os.utime(path, (clock, clock))
        monkeypatch.setattr(time, "time", lambda clock=clock: float(clock))
        assert watch.free(tmp_path, "a") is None
    for _ in range(3):
        time.sleep(0.2)
        with open(path, "ab") as file:
            file.write(b".")
        assert watch.free(tmp_path, "a") is None
    time.sleep(0.35)
    assert watch.free(tmp_path, "a") == 1


def test_a_claim_of_a_process_that_was_killed_here_is_free_at_once(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    abandon(tmp_path, replace(Holder.here(), process=child.pid))
    assert Watch().free(tmp_path, "a") is None
    child.kill()
    while newest(tmp_path, "a").over is False:  # before anybody asks for its exit code, too
        time.sleep(0.01)
    child.communicate()
    assert Watch().free(tmp_path, "a") == 1


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"host": 1}\n', b"[" * 5000])
def test_a_claim_that_a_kill_or_a_fault_left_without_words_is_nobodys(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.1").write_bytes(content)
    watch = Watch()
    assert watch.free(tmp_path, "a") is None
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + 2 * PATIENCE)
    assert watch.free(tmp_path, "a") == 1


SLEEPER = """
import sys, time
from pathlib import Path
from mnemoscope.studies.engines.claims import Claim, Holder
with Claim(Path(sys.argv[1]), "a", Holder.here(patience=0.6)):
    print("claimed", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system has no signals")
def test_who_was_asleep_ends_when_it_wakes_and_finds_its_claim_taken_over(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "claimed\n"
    child.send_signal(signal.SIGSTOP)
    watch, deadline = Watch(), time.monotonic() + 30
    while (stale := watch.free(tmp_path, "a")) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with Claim(tmp_path, "a", Holder.here(), stale):
        child.send_signal(signal.SIGCONT)
        _, said = child.communicate(timeout=30)
    assert child.returncode == 1
    assert "a: another process has taken it over, so process" in said


def test_a_folder_is_for_one_or_for_those_who_share_it(tmp_path: Path) -> None:
    with (
        present(tmp_path, "shared", True, 60),
        present(tmp_path, "shared", True, 60),
        pytest.raises(UserError, match="start all of them with --engine shared"),
        present(tmp_path, "ray", False, 60),
    ):
        pass
    with (
        present(tmp_path, "ray", False, 60),
        pytest.raises(UserError, match="engine ray"),
        present(tmp_path, "shared", True, 60),
    ):
        pass
    assert not list((tmp_path / ".claims").iterdir())


def test_who_was_killed_keeps_nobody_out(tmp_path: Path) -> None:
    home = tmp_path / ".claims"
    abandon(home, replace(ABROAD, engine="ray")).rename(home / "at-work-0.1")
    with present(tmp_path, "local", False, 60):
        assert not (home / "at-work-0.1").exists()


def test_a_claim_that_cannot_be_made_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        Claim(tmp_path / "file" / "folder", "a", Holder.here()).__enter__()
