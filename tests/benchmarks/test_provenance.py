from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from benchmarks.provenance import Provenance, commit, processor

from benchmarks import measure


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=N", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "code.py").write_text("1")
    (folder / "benchmarks" / "RESULTS.md").write_text("old")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "First")
    return folder


def test_a_clean_tree_is_its_short_hash_and_written_results_do_not_spoil_it(repository):
    head = git(repository, "rev-parse", "--short", "HEAD")
    assert commit(repository) == head
    (repository / "benchmarks" / "RESULTS.md").write_text("new")
    assert commit(repository) == head


@pytest.mark.parametrize("name", ["code.py", "new.py"])
def test_changed_and_new_files_are_told(repository, name):
    (repository / name).write_text("2")
    assert commit(repository) == git(repository, "rev-parse", "--short", "HEAD") + "+changes"


def test_outside_git_or_inside_another_repository_the_commit_is_unknown(repository, tmp_path):
    inside = repository / "unpacked"
    inside.mkdir()
    assert commit(inside) == "unknown"
    assert commit(tmp_path) == "unknown"


def test_without_git_the_commit_is_unknown(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(repository) == "unknown"


def test_the_processor_is_named_as_linux_names_it(tmp_path):
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nmodel name\t: Abacus(R)   9 | 4 GHz\nmodel name\t: other\n")
    assert processor(told) == "Abacus(R) 9 4 GHz"


def test_a_processor_without_a_name_has_its_architecture(tmp_path):
    told = tmp_path / "cpuinfo"
    told.write_text("processor : 0\nBogoMIPS : 50\n")
    assert processor(told).strip()


def test_here_is_this_process():
    with measure.one_thread():
        here = Provenance.here()
    assert here.threads == 1
    assert here.instructions == torch.backends.cpu.get_cpu_capability()
    assert f"torch {torch.__version__}" in here.versions
    assert here.processor
    assert here.commit
