from __future__ import annotations

import importlib
import json
import math
import re
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import pytest
from benchmarks.__main__ import run_all
from benchmarks.provenance import Provenance

from benchmarks import BENCHMARKS, measure, results
from mnemoscope.core.statistics import Interval

ROOT = Path(__file__).parents[2]


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_without_a_name_all_are_listed():
    listed = benchmarks()
    assert listed.returncode == 0
    names = ["recurrent", "transformer", "generation", "xl", "continuous", "sparse"]
    names += ["translation", "similarity", "capture", "documents", "waves"]
    names += ["engines", "check", "infinite_hf", "evolution"]
    assert listed.stdout.split() == names


def test_an_unknown_name_is_refused_with_the_likely_one():
    refused = benchmarks("recurent", "--json")
    assert refused.returncode == 2
    assert "did you mean 'recurrent'?" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_at_a_tiny_size_and_gives_the_rows_that_are_written_down(name):
    benchmark = importlib.import_module(BENCHMARKS[name])
    assert benchmark.TITLE
    assert benchmark.SETTING
    if name == "engines":
        pytest.importorskip("ray", reason="needs ray: pip install 'mnemoscope[ray]'")
    with measure.one_thread():
        rows = benchmark.run(quick=True)
    keys = [row.key for row in rows]
    assert len(set(keys)) == len(keys)
    # One of sparse's is left out when quick: at a tiny size it would be the same as another.
    written = [key for key in results.keys(results.PATH, name) if "64k_memory" not in key]
    assert keys == written
    for row in rows:
        assert all(math.isfinite(one) and one > 0 for one in astuple(row.ratio)), row
        numbers = re.findall(r"[\d.,]+", row.ours + " " + row.theirs)
        assert len(numbers) >= 2, row


def test_a_new_section_replaces_its_own_and_keeps_the_others(tmp_path):
    path = tmp_path / "RESULTS.md"
    for name in ("first", "second", "third"):
        results.replace(path, name, f"## {name}\n\nold {name}\n")
    before = path.read_text()

    results.replace(path, "second", "## second\n\nnew second\n")

    assert path.read_text() == before.replace("old second", "new second")
    assert before.startswith(results.HEAD)


def test_a_section_says_how_it_came_about_and_every_row_where():
    row = measure.Row("a_vs_b", "a / b", "1 ms", "2 ms", Interval(0.5, 0.4, 0.6), "≤ 1")
    origin = Provenance("Abacus 9", "AVX2", 1, "Python 3, torch 2", "2026-01-02", "abc1234+changes")
    text = results.section("some", "Some title", "How.", [row], origin)
    assert text.startswith("## some\n")
    for part in ("Some title", "How.", "python -m benchmarks some", "torch 2", "1 thread, process"):
        assert part in text
    text_of_waits = results.section("some", "Some title", "How.", [row], origin, "wall-clock time")
    assert "1 thread, wall-clock time," in text_of_waits
    assert "- date: 2026-01-02" in text
    cells = "`a_vs_b` | a / b | 1 ms | 2 ms | 0.50 | 0.40–0.60 | ≤ 1"
    assert f"| {cells} | Abacus 9, AVX2 | abc1234+changes |" in text


def test_all_rows_in_the_file_have_their_origin_and_every_benchmark_a_section():
    text = results.PATH.read_text(encoding="utf-8")
    assert text.startswith(results.HEAD)
    header = [*results.COLUMNS, *results.ORIGIN]
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == len(header)
            assert all(cells[-2:])
    assert all(results.keys(results.PATH, name) for name in BENCHMARKS)


def test_all_go_on_after_one_that_fails_and_json_leaves_the_file_alone(capfd):
    before = results.PATH.read_bytes()
    # An unknown name stands for a benchmark that breaks.
    assert run_all(["none", "capture"], as_json=True, quick=True) == 1
    out, err = capfd.readouterr()
    assert list(json.loads(out)) == ["capture_time_vs_plain"]
    assert err.splitlines()[-1] == "failed, and left as they were: none"
    assert results.PATH.read_bytes() == before


def test_ways_take_turns_and_the_warm_up_does_not_count():
    order: list[str] = []
    ways = {name: lambda name=name: order.append(name) for name in "ab"}
    times = measure.interleave(ways, rounds=2)
    assert order == list("ababab")
    assert [len(spent) for spent in times.values()] == [2, 2]


def test_a_ratio_is_taken_round_by_round():
    found = measure.ratio([2.0, 20.0, 9.0], [1.0, 10.0, 3.0])
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.5)
