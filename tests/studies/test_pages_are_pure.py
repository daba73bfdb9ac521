"""A page is drawn from its result alone: also where there is no torch, years later."""

from __future__ import annotations

import subprocess
import sys

from mnemoscope.core.registry import STUDIES
from mnemoscope.shipped import load, shipped

WITHOUT_TORCH = """
import sys
from importlib.abc import MetaPathFinder

class NoTorch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "accelerate"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, NoTorch())
from mnemoscope import shipped
for name in sys.argv[1:]:
    document = shipped.page(shipped.load(name))
    print(name, len(list(document.figures())), len(list(document.tables())))
"""


def of_studies() -> list[str]:
    return [name for name in shipped() if load(name).kind == "study"]


def test_every_study_has_a_shipped_result() -> None:
    assert {load(name).name for name in of_studies()} == set(STUDIES)


def test_all_pages_of_studies_are_drawn_where_torch_cannot_be_imported() -> None:
    names = of_studies()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    drawn = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert list(drawn) == names
    assert all(figures > 0 for figures in drawn.values())
