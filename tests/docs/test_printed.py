"""README, guide and notebooks do what they say: what they print is typed, in order, as printed.

Every page is read in a folder that looks like a fresh clone after `make setup`. What would take
minutes stands in the table below with its reason; what only a reader has is in `brought`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import page_server
import printed
import pytest
from brought import BROUGHT
from filelock import FileLock
from page_server import Typed
from printed import ROOT, Block

import mnemoscope as ms
from mnemoscope.cli.commands import app

pytest.importorskip("transformers")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="forks, as Linux has them"
)


@dataclass(frozen=True)
class Declared:
    """Commands that are not typed to their end: which, what is typed instead, and why.

    ``begin`` stops them when they have understood their options and begun to work.
    """

    pattern: str
    instead: str
    reason: str
    begin: bool = False


DECLARED = (
    Declared(r"make (\w+)", r"make -n \1", "sets up an environment, trains or tests for minutes"),
    Declared(r"\. \.venv/bin/activate", "test -d .venv/bin", "what it activates is in use already"),
    Declared(r"pip install .*", "true", "needs a network; that the extras exist is a test below"),
    Declared(
        r"((?:PYTHONPATH=\. )?mnemoscope (?:train|infinite fit) (?!.*--steps).*)",
        r"\1 --steps 2",
        "minutes of training: two steps",
    ),
    Declared(
        r"(mnemoscope train .*--steps )(?:[5-9]|\d\d)\d\d(.*)",
        r"\g<1>2\2",
        "minutes of training: two steps",
    ),
    Declared(
        r"mnemoscope example (\S+) --model smollm2",
        r"mnemoscope example \1 --steps 2",
        "a minute, and a package of 93 MB: a small model in its place",
    ),
    Declared(
        r"torchrun .* -m (mnemoscope train .*)",
        r"\1 --steps 2",
        "two processes take long to start, and tests/training has them: here as one",
    ),
    Declared(
        r"(mnemoscope study .*)--engine (?:ray|slurm) .*",
        r"\1--engine shared",
        "needs a cluster, which tests/studies/engines has as far as one machine can",
        begin=True,
    ),
    Declared(
        r"mnemoscope doctor --engine .*",
        "mnemoscope list engines",
        "needs a cluster; tests/studies/engines has it",
    ),
    Declared(
        r"python -m campaign.*", "python -m campaign --help", "a quarter of an hour of faults"
    ),
    Declared(
        r"(mnemoscope study .*)--device cuda (.*)",
        r"\1\2",
        "hours of training on a GPU, which the tests do without",
        begin=True,
    ),
    Declared(
        r"(mnemoscope study infinite --model (?:(?!--windows).)*)(?:--windows \S+ )?(.*)",
        r"\1\2 --context 512 --windows 64",
        "hours of reading novels, which are longer than the books that are brought",
        begin=True,
    ),
    Declared(r"mnemoscope study .*", r"\g<0>", "minutes to hours of training", begin=True),
    Declared(
        r"mnemoscope check --all .*",
        "mnemoscope check --all --family gpt2",
        "minutes for all families: one of them",
    ),
    Declared(r"mnemoscope scope.*", r"\g<0> --port 0", "serves until it is stopped", begin=True),
    Declared(
        r"python -m benchmarks (\w+)",
        r"python -m benchmarks | grep -x \1",
        "minutes on a quiet machine; that it is a benchmark is asked",
    ),
    Declared(
        r"python -m mnemoscope\.shipped (\S+) .*",
        r"test -f \1/result.json",
        "writes into the results of the package",
    ),
    Declared(
        r"\S+=.* \.venv/bin/python -m pytest -m exact (\S+)",
        r"test -d \1",
        "runs tests, as `make exact` does",
    ),
)


def bare(block: Block) -> str:
    """A command without its comment."""
    return re.sub(r"\s+#.*", "", block.text)


def tried(block: Block) -> Typed:
    """How a block is tried: as it stands, unless a table says otherwise."""
    if block.kind == "python":
        return Typed(block.line, "python", block.text, block.title)
    for one in DECLARED:
        if re.fullmatch(one.pattern, bare(block)):
            way = "begin" if one.begin else "command"
            return Typed(block.line, way, re.sub(one.pattern, one.instead, bare(block)))
    return Typed(block.line, "command", block.text)


class Reader:
    """The process that types what pages print."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, page_server.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self, folder: Path, blocks: list[Typed]) -> list[Typed]:
        """How each block ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"folder": str(folder), "blocks": [vars(block) for block in blocks]}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return [Typed(**one) for one in json.loads(self.process.stdout.readline())]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.process.communicate(timeout=60)
    assert made.process.returncode == 0


@pytest.fixture(scope="module")
def small(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example model that several pages begin with, trained once for all of them."""
    root = tmp_path_factory.getbasetemp()
    # Tests that run side by side share the folder above their own.
    shared = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "example-model"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            shared.mkdir()
            (done,) = reader.read(shared, [Typed(1, "command", "mnemoscope example small")])
            assert done.code == 0, done.said
    return shared / "small"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a reader stands in: the project, an environment, nothing of his own yet."""
    for path in ROOT.iterdir():
        if path.name not in ("runs", ".venv", ".git", "site", "dist"):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


def typed_on(page: str) -> list[Block]:
    """Blocks to be typed; a title with a folder in it is a part of a file of the project."""
    return [block for block in printed.blocks(page) if "/" not in (block.title or "")]


TYPED = [page for page in printed.pages() if typed_on(page)]
COMMANDS = {
    page: [bare(block) for block in typed_on(page) if block.kind == "command"] for page in TYPED
}


@pytest.mark.parametrize("page", TYPED)
def test_all_that_a_page_prints_runs(
    page: str, reader: Reader, clone: Path, request: pytest.FixtureRequest
) -> None:
    blocks = typed_on(page)
    all_text = "\n".join(block.text for block in blocks)
    for name, make in BROUGHT.items():
        if name in all_text and not (clone / name).exists():
            make(clone / name)
    if re.search(r"\bsmall\b", all_text):
        shutil.copytree(request.getfixturevalue("small"), clone / "small")
    done = reader.read(clone, [tried(block) for block in blocks])
    last = done[-1]
    assert not last.code, f"{page}, line {last.line}: {last.text}\n{last.said}"
    for block, one in zip(blocks, done, strict=True):
        assert block.shown in (None, one.said), f"{page}, line {block.line}"


def test_the_page_that_promises_it_shows_what_its_code_prints() -> None:
    assert sum(block.shown is not None for block in typed_on("docs/hello.md")) > 8


def test_nothing_is_declared_or_brought_that_no_page_prints() -> None:
    lines = [line for page in COMMANDS.values() for line in page]
    for one in DECLARED:
        assert any(re.fullmatch(one.pattern, line) for line in lines), one.pattern
    for name in BROUGHT:
        assert any(name in line for line in lines), name


@pytest.mark.parametrize("page", TYPED)
def test_no_two_studies_of_a_page_share_a_folder(page: str) -> None:
    """A folder holds one study: the second would be refused."""
    folders = []
    for line in COMMANDS[page]:
        if study := re.match(r"mnemoscope study (\w+)", line):
            preset = re.search(r"--preset (\w+)", line)
            out = re.search(r"--out (\S+)", line)
            folders.append(out[1] if out else f"runs/{study[1]}-{preset[1] if preset else 'quick'}")
    assert len(folders) == len(set(folders))


def test_commands_in_a_sentence_exist() -> None:
    spans = [
        span.split()
        for page in printed.pages()
        for span in re.findall(r"`mnemoscope ([^`]+)`", (ROOT / page).read_text())
    ]
    assert len(spans) > 50
    for first, *rest in spans:
        assert first in app, first
        if first in ("documents", "infinite") and rest:
            assert rest[0] in app[first], (first, rest[0])


def test_extras_that_pages_name_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        name
        for page in printed.pages()
        for names in re.findall(r"mnemoscope\[([\w,]+)\]", (ROOT / page).read_text())
        for name in names.split(",")
    }
    assert named
    assert named <= set(project["optional-dependencies"])


@pytest.mark.parametrize("page", [page for page in TYPED if page.endswith(".ipynb")])
def test_a_notebook_is_short_bare_and_uses_what_is_public(page: str) -> None:
    cells = json.loads((ROOT / page).read_text())["cells"]
    assert len(cells) <= 25
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    code = "".join(block.text for block in typed_on(page))
    assert "import mnemoscope as ms\n" in code
    assert not re.search(r"mnemoscope\.|from mnemoscope", code)
    assert set(re.findall(r"\bms\.(\w+)", code)) <= set(ms.__all__)
