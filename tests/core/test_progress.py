"""Without a terminal, long work says a line now and then: how much is done, how fast, until when.

What is drawn in a terminal is tested with the training loop.
"""

from __future__ import annotations

import pytest

from mnemoscope.core import progress


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def shown(capsys: pytest.CaptureFixture[str], steps: int, silent: bool = False) -> list[str]:
    with progress.progress("documents", 10, 2, silent) as show:
        for done in range(3, 3 + steps):
            show(done, "loss 0.5")
    said = capsys.readouterr()
    assert not said.out
    return said.err.splitlines()


def test_a_line_says_how_much_how_fast_and_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST", 0)
    monkeypatch.setattr(progress, "EVERY", 0)
    lines = shown(capsys, 3)
    assert len(lines) == 3
    label, done, rate, left, note = lines[-1].split("  ")
    assert (label, done, note) == ("documents", "5/10", "loss 0.5")
    assert rate.endswith(("/s", " s each"))
    assert left.endswith("0:00:00 left")


def test_lines_do_not_come_one_a_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(capsys, 8) == []  # done before the first is due
    monkeypatch.setattr(progress, "FIRST", 0)
    monkeypatch.setattr(progress, "EVERY", 3600)
    assert len(shown(capsys, 8)) == 1


def test_ci_and_who_asks_for_silence_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST", 0)
    monkeypatch.setattr(progress, "EVERY", 0)
    assert shown(capsys, 3, silent=True) == []
    monkeypatch.setenv("CI", "true")
    assert shown(capsys, 3) == []
