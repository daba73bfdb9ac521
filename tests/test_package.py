"""What would be published: wheel and sdist are built, installed without the project, and tried.

Nothing is downloaded. The environment is empty but for the wheel and one line that lets it import
the packages of the environment the tests run in: torch is not installed a second time. Such a line
is not followed into that environment's own lines, so the project, which is installed there to be
edited, stays out of sight.
"""

from __future__ import annotations

import email
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import mnemoscope

ROOT = Path(__file__).parents[1]


def build(project: Path, out: Path, *kinds: str) -> list[Path]:
    """Wheel and sdist of a project, by the builder that is installed here."""
    pytest.importorskip("hatchling")
    flags = [f"-t{kind}" for kind in kinds]
    command = [sys.executable, "-m", "hatchling", "build", *flags, "-d", str(out)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    return sorted(out.iterdir())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    wheel, sdist = build(ROOT, tmp_path_factory.mktemp("dist"), "wheel", "sdist")
    return wheel, sdist


def inside(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_code_pages_results_and_notices(built: tuple[Path, Path]) -> None:
    names = inside(built[0])
    code = ROOT / "src" / "mnemoscope"
    for path in [*code.rglob("*.py"), *code.rglob("*.css"), *code.rglob("*.js"), code / "py.typed"]:
        assert f"mnemoscope/{path.relative_to(code).as_posix()}" in names
    assert "mnemoscope/scope/web/index.html" in names
    for path in (ROOT / "results").glob("*/*"):
        assert f"mnemoscope/{path.relative_to(ROOT).as_posix()}" in names
    (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    licences = about.replace("METADATA", "licenses")
    assert {f"{licences}/LICENSE", f"{licences}/NOTICE"} <= names
    metadata = email.message_from_bytes(zipfile.ZipFile(built[0]).read(about))
    assert metadata["Version"] == mnemoscope.__version__
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_sdist_builds_the_same_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(built[1]) as packed:
        packed.extractall(tmp_path / "sdist", filter="data")
    (project,) = (tmp_path / "sdist").iterdir()
    for name in ("tests/conftest.py", "docs/index.md", "benchmarks/RESULTS.md", "Makefile"):
        assert (project / name).is_file()
    (again,) = build(project, tmp_path / "dist", "wheel")
    assert inside(again) == inside(built[0])


def test_the_wheel_works_where_the_project_is_not(built: tuple[Path, Path], tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    python, command = home / "bin" / "python", home / "bin" / "mnemoscope"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    install = [*pip, "install", "--quiet", "--no-index", "--no-deps", str(built[0])]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}

    def said(*words: str | Path) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = said(python, "-c", "import mnemoscope; print(mnemoscope.__file__)")
    assert Path(where.strip()).is_relative_to(packages)
    assert mnemoscope.__version__ in said(command, "--version")
    assert "ok   exactness" in said(command, "doctor")
    assert "report.html" in said(command, "show", "lag", "--no-open")
    assert (tmp_path / "runs" / "shipped-lag" / "report.html").stat().st_size > 1_000_000
    said(command, "train", "copy", "--memory", "gru", "--lag", "2", "--steps", "2")
    assert (tmp_path / "runs" / "copy-gru" / "model.safetensors").is_file()


def test_the_version_is_the_same_wherever_it_is_said() -> None:
    newest = next(
        line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")
    )
    assert newest.split()[1] == mnemoscope.__version__.partition(".dev")[0]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {mnemoscope.__version__}\n" in citation


def test_pythons_that_are_named_are_those_that_are_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if ":: 3." in one]
    assert named == ["3.11", "3.12", "3.13"]
    assert project["requires-python"] == f">={named[0]}"
