from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Tensors this small gain nothing from more threads; tests run side by side instead, and the
# processes that they start do as they do.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)
# No test may ask a hub for anything.
os.environ["HF_HUB_OFFLINE"] = "1"
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
