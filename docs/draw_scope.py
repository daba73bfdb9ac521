"""Take the pictures of the page on scope: ``python docs/draw_scope.py [RUNS]``.

Small models are trained into RUNS first, unless they lie there already; that takes a few minutes of
one processor. A picture is an address of the live page, and maybe a click: see `PICTURES`.
"""

from __future__ import annotations

import io
import shutil
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

import mnemoscope as ms
from mnemoscope.scope.serve import Page

FOLDER = Path(__file__).with_name("figures")
COLOURS = 256
WIDTH = 1160

# By name: task, memory and options.
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "infinite": (
        "characters",
        "infinite",
        {"layers": 2, "width": 96, "mem_len": 32, "chunk": 16, "basis": 32, "sticky": True}
        | {"segment": 32, "tbptt": 3, "batch": 16, "lr": 0.003, "steps": 500},
    ),
    "lstm": (
        "characters",
        "lstm",
        {"width": 128, "segment": 64, "batch": 16, "lr": 0.003, "steps": 500},
    ),
    "recall": (
        "recall",
        "transformer",
        {"keys": 8, "values": 8, "pairs": 4, "queries": 4, "length": 24, "width": 64}
        | {"layers": 2, "heads": 4, "lr": 0.003, "steps": 500},
    ),
    "translator": (
        "translation",
        "encoder_decoder",
        {"width": 64, "heads": 4, "lr": 0.002, "steps": 500},
    ),
}
TEXT = (
    "The keeper of the north light kept a blue key in a tin box. Every evening she climbed ninety "
    "stairs, wiped the lamp and wrote the weather in her book. One night in March a boy named "
    "Tomas came up from the boats and asked for the key. She gave it to him and said that the door "
    "would stick. In the morning the boy was gone."
)
EPISODE = "k1 v4 k7 v1 k5 v3 k6 v4 · · · · · k5 k1 · · · · k7 · · · k6"


@dataclass(frozen=True)
class Picture:
    """One picture: the view, what is pressed on it, where it begins and how tall it is."""

    address: str
    height: int
    press: tuple[str, ...] = ()
    top: str = ".stage"


def live(height: int, press: tuple[str, ...] = (), **query: Any) -> Picture:
    """A model that reads."""
    return Picture(f"live?{urlencode(query)}", height, press)


PICTURES = {
    "scope-infinite": live(
        980, model="run:infinite", text=TEXT, segment=9, token=143, part="layer 2 · signal", head=1
    ),
    "scope-twin": live(
        960, model="run:lstm", **{"with": "untrained:lstm"}, text=TEXT, segment=9, token=252
    ),
    "scope-recall": live(
        1120, (".blank button",), model="run:recall", text=EPISODE, size=8, segment=3, token=20
    ),
    "scope-translator": live(
        900,
        model="run:translator",
        text="the king sees a boat near the tree",
        segment=2,
        token=12,
        part="layer 2 · source",
    ),
    "scope-runs": Picture("?run=infinite&run=lstm&curve=loss", 560, top=".all-runs"),
}


def train(runs: Path) -> None:
    """Train what is not there yet."""
    for name, (task, memory, options) in RUNS.items():
        if not (runs / name / "model.safetensors").is_file():
            ms.train(task, memory, runs / name, **options)


def take(browser: Any, base: str, picture: Picture) -> bytes:
    """One picture as PNG."""
    context = browser.new_context(viewport={"width": WIDTH, "height": 1400})
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{base}#/{picture.address}")
    reads = picture.address.startswith("live")
    page.wait_for_selector(".stage[aria-busy=false] .token.chosen" if reads else ".overlay svg")
    for selector in picture.press:
        page.click(selector)
        page.wait_for_selector(".compared")
    page.evaluate("window.scrollTo(0, 0)")
    page.mouse.move(2, 2)
    page.wait_for_timeout(500)
    box = page.locator(picture.top).bounding_box()
    clip = {"x": 0, "y": max(0, box["y"] - 6), "width": WIDTH, "height": picture.height}
    taken: bytes = page.screenshot(full_page=True, clip=clip)
    context.close()
    return taken


def main(runs: Path) -> None:
    """Train, serve, take all pictures."""
    train(runs)
    server = Page(runs, [], None, "127.0.0.1", 0)
    thread = threading.Thread(target=server.answer, args=(False,))
    thread.start()
    path = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            for name, picture in PICTURES.items():
                image = Image.open(io.BytesIO(take(browser, server.address, picture)))
                small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(FOLDER / f"{name}.png", optimize=True)
            browser.close()
    finally:
        server.server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/scope-pictures"))
