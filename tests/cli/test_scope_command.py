"""``mnemoscope scope`` as a user types it."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command import refused


def test_mistakes_in_the_command_scope_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no folder" in refused(capsys, "scope", str(tmp_path / "none"))
    none = str(tmp_path / "none")
    assert "no port 99999" in refused(capsys, "scope", none, "--model", "a/b", "--port", "99999")
    assert "there is no folder" in refused(
        capsys, "scope", str(tmp_path), "--texts", str(tmp_path / "none")
    )
    assert "there is no folder" in refused(
        capsys, "scope", str(tmp_path), "--model", "/nowhere/at/all"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(capsys, "scope", str(tmp_path), "--port", port, "--no-open")
    assert "choose another --port" in said
    assert "cannot open" in refused(
        capsys, "scope", str(tmp_path), "--host", "no.such.host.invalid"
    )


@pytest.mark.parametrize(
    ("host", "said"),
    [
        *((host, "is no address: give --host") for host in ("", " ", "\t")),
        ("a\0b", "holds a NUL character"),
        *((host, "is no address: give --host") for host in (" 127.0.0.1", "127.0.0.1\n", "*")),
        *((host, "is no address: give --host") for host in ("\udcff", "[::1]", "http://x")),
    ],
)
def test_an_empty_host_does_not_mean_everybody(
    host: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, "scope", str(tmp_path), "--host", host)


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "999.1.1.1", "::g", "ß" * 70])
def test_what_is_no_host_is_explained(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot open" in refused(capsys, "scope", str(tmp_path), "--no-open", "--host", host)


def test_a_missing_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "mnemoscope.scope.serve", raising=False)
    assert "pip install 'mnemoscope[scope]'" in refused(capsys, "scope", str(tmp_path))


def test_the_command_scope_prints_its_address_answers_and_stops(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    words = [sys.executable, "-m", "mnemoscope", "scope", str(tmp_path), "--port", "0", "--no-open"]
    env = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\n", line)
        assert found, line
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=90)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    assert rest.endswith("closed\n")
