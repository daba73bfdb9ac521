from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import results

    return results


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import measure

    return measure


def test_without_a_name_all_are_listed():
    listed = benchmarks()
    assert listed.returncode == 0
    names = ["recurrent", "transformer", "generation", "xl", "continuous", "sparse"]
    names += ["translation", "similarity", "capture", "documents", "waves"]
    assert listed.stdout.split() == names


def test_an_unknown_name_is_refused_with_the_likely_one():
    refused = benchmarks("recurent", "--json")
    assert refused.returncode == 2
    assert "did you mean 'recurrent'?" in refused.stderr
    assert refused.stdout == ""


def test_json_is_one_flat_object_of_ratios_and_results_stay_as_they_are(results):
    before = results.PATH.read_text()
    done = benchmarks("recurrent", "--json", "--quick")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    ratios = json.loads(line)
    for memory in ("rnn", "lstm", "gru"):
        for batch in (1, 32, 64):
            assert f"{memory}_b{batch}_time_vs_torch" in ratios
    assert {"lstm_b1_readable_time_vs_torch", "lstm_b32_layer_time_vs_torch"} <= set(ratios)
    assert all(math.isfinite(ratio) and ratio > 0 for ratio in ratios.values())
    assert results.PATH.read_text() == before


def test_a_new_section_replaces_its_own_and_keeps_the_others(results, tmp_path):
    path = tmp_path / "RESULTS.md"
    for name in ("first", "second", "third"):
        results.replace(path, name, f"## {name}\n\nold {name}\n")
    before = path.read_text()

    results.replace(path, "second", "## second\n\nnew second\n")

    assert path.read_text() == before.replace("old second", "new second")
    assert before.startswith(results.HEAD)


def test_a_section_says_how_it_came_about(results, measure):
    row = measure.Row("a_vs_b", "a / b", "1 ms", "2 ms", measure.Ratio(0.5, 0.4, 0.6), "≤ 1")
    text = results.section("some", "Some title", "How.", [row])
    assert text.startswith("## some\n")
    for part in ("Some title", "How.", "python -m benchmarks some", "torch", "1 thread"):
        assert part in text
    assert "| `a_vs_b` | a / b | 1 ms | 2 ms | 0.50 | 0.40–0.60 | ≤ 1 |" in text


def test_ways_take_turns_and_the_warm_up_does_not_count(measure):
    order: list[str] = []
    ways = {name: lambda name=name: order.append(name) for name in "ab"}
    times = measure.interleave(ways, rounds=2)
    assert order == list("ababab")
    assert [len(spent) for spent in times.values()] == [2, 2]


def test_a_ratio_is_taken_round_by_round(measure):
    found = measure.ratio([2.0, 20.0, 9.0], [1.0, 10.0, 3.0])
    assert (found.median, found.low, found.high) == (2.0, 2.0, 2.5)


def test_sparse_has_its_keys():
    done = benchmarks("sparse", "--json", "--quick")
    assert done.returncode == 0, done.stderr
    ratios = json.loads(done.stdout)
    for pattern in ("strided", "fixed"):
        for what in ("1k_forward_speedup", "1k_train_speedup"):
            assert ratios[f"{pattern}_{what}"] > 0
