"""What all tests share: threads, instructions, no hub, one browser.

``TEST_INSTRUCTIONS=avx2`` or ``plain`` makes this machine compute as one with fewer instructions,
``TEST_THREADS=2`` with more threads; `make exact` does both for every test marked exact.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from instructions import INSTRUCTIONS, LIMITS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Before torch is imported, which reads them once; processes that tests start do as we do.
os.environ.update(LIMITS.get(INSTRUCTIONS, {}))
# Tensors this small gain nothing from more threads; tests run side by side instead.
THREADS = int(os.environ.get("TEST_THREADS", "1"))
os.environ["OMP_NUM_THREADS"] = str(THREADS)
# With several processes of several threads, those that wait must not keep the others waiting.
os.environ["OMP_WAIT_POLICY"] = "passive"

import torch  # noqa: E402

torch.set_num_threads(THREADS)
# No test may ask a hub for anything.
os.environ["HF_HUB_OFFLINE"] = "1"
# Nor are lines of progress to come in between what a command says, however busy the machine is.
os.environ["CI"] = "1"
# A busy machine must not fail a test that is about mathematics.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

NAMES = ("chromium", "chromium-browser", "google-chrome")
OFFLINE = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


# What `make check` leaves out: whole trainings, processes of their own, pages and pictures.
# By folder or file below tests/; all the rest takes about two minutes of one processor.
SLOW = (
    *(
        "benchmarks",
        "campaign",
        "cli",
        "compatibility",
        "docs",
        "huggingface",
        "lenses",
        "scope",
        "studies",
    ),
    *("core/test_trust.py", "memories/test_recurrent_kernels.py", "memories/test_sparse.py"),
    *("memories/test_state_crafted.py", "memories/test_state_names.py", "models/test_padding.py"),
    *("models/test_state_bits.py", "models/test_state_fits.py", "models/test_stream_state.py"),
    *("models/test_translator.py", "training/test_loop.py", "training/test_processes.py"),
    *("training/test_resume.py", "training/test_run_files.py", "training/test_training_errors.py"),
    *("test_doctor.py", "test_fresh_process.py", "test_imports.py", "test_instructions.py"),
    *("test_open.py", "test_package.py", "test_shipped.py"),
)
TESTS = Path(__file__).parent


def pytest_report_header() -> str:
    kind = torch.backends.cpu.get_cpu_capability()
    return f"instructions: {kind}, limited to {INSTRUCTIONS}; threads of torch: {THREADS}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nobody has to remember: what compares bit for bit is exact, what is listed above slow."""
    for item in items:
        source = inspect.getsource(item.function) if isinstance(item, pytest.Function) else ""
        if "torch.equal(" in source or "rtol=0, atol=0)" in source:
            item.add_marker(pytest.mark.exact)
        if any(item.path.is_relative_to(TESTS / slow) for slow in SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests that look at a page."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser found (looked for {', '.join(NAMES)})")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(OFFLINE))
        yield browser
        browser.close()
