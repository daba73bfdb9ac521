"""What is loaded before anything is done, which decides how long the first word takes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "plotly", "accelerate", "sklearn"}
# What the command line is made with, and what that needs; an import of another package is noticed.
COMMAND_LINE = {
    "attr",
    "attrs",
    "cyclopts",
    "docstring_parser",
    "markdown_it",
    "mdurl",
    "pygments",
    "rich",
    "typing_extensions",
}
# Ours beside the commands: names, messages and a line of progress, none of which needs a package.
NAMED = {
    "core",
    "core.aliases",
    "core.errors",
    "core.progress",
    "core.registry",
    "core.trust",
    "huggingface",
    "huggingface.saving",
}


def loaded_by(code: str) -> set[str]:
    """All modules that some code loads, what the interpreter begins with left out."""
    whole = (
        "import sys\n"
        "begun = set(sys.modules)\n"
        "try:\n"
        f"    {code}\n"
        "except SystemExit as ended:\n"
        "    assert not ended.code, ended.code\n"
        "import json\n"
        "print('\\n' + json.dumps(sorted(set(sys.modules) - begun - {'json'})))\n"
    )
    command = [sys.executable, "-W", "error", "-c", whole]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    """The packages of modules that do not come with Python."""
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names


def test_importing_mnemoscope_loads_nothing_else() -> None:
    loaded = loaded_by("import mnemoscope")
    assert {name for name in loaded if packages({name})} == {"mnemoscope"}


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["train", "--help"], ["lens", "--help"], ["chat", "-h"]]
)
def test_help_loads_the_command_line_and_no_more(words: list[str]) -> None:
    """No numpy, no pydantic: together they took longer than all that is left."""
    loaded = loaded_by(f"from mnemoscope.cli import main; main({words})")
    assert "cyclopts" in loaded
    assert packages(loaded) <= COMMAND_LINE | {"mnemoscope"}
    ours = {name.removeprefix("mnemoscope.") for name in loaded if name.startswith("mnemoscope.")}
    assert {name for name in ours if name.partition(".")[0] != "cli"} <= NAMED


@pytest.mark.parametrize(
    "module",
    [
        "mnemoscope.core.registry",
        "mnemoscope.models.config",
        "mnemoscope.models.footprint",
        "mnemoscope.memories.infinite.config",
        "mnemoscope.memories.sparse.config",
        "mnemoscope.memories.transformer.config",
        "mnemoscope.models.encoder.config",
        "mnemoscope.data.copy",
        "mnemoscope.training.config",
    ],
)
def test_what_is_only_named_is_not_loaded(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert module in loaded
    assert not loaded & HEAVY
