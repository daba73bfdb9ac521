"""Take the pictures of the guide: ``python tests/helpers/take_pictures.py RUNS docs/figures``.

RUNS needs runs on text named ``infinite`` and ``lstm``; docs/scope.md says how to train them.
"""

from __future__ import annotations

import io
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from mnemoscope.scope.serve import Page

# Name of the picture, the models, the segment, the token that is pointed at, lines of pixels.
PICTURES: tuple[tuple[str, str, int, int, int], ...] = (
    ("scope-infinite", "model=run:infinite", 9, 142, 980),
    ("scope-twin", "model=run:lstm&with=untrained:lstm", 9, 251, 960),
)
COLOURS = 256


def take(browser: Any, base: str, models: str, segment: int, token: int, height: int) -> bytes:
    context = browser.new_context(viewport={"width": 1160, "height": 1400})
    page = context.new_page()
    page.goto(f"{base}#/live?{models}")
    page.wait_for_selector("textarea")
    page.click("button[type=submit]")
    page.wait_for_selector(".stage[aria-busy=false]")
    page.locator(".toolbar input").fill(str(segment))
    page.wait_for_selector(f".stage[aria-busy=false] .counter:has-text('segment {segment} ')")
    page.click(f".text .token >> nth={token}")
    page.mouse.move(2, 2)
    page.wait_for_timeout(300)
    box = page.locator(".stage").bounding_box()
    clip = {"x": 0, "y": box["y"] - 6, "width": 1160, "height": height}
    picture: bytes = page.screenshot(full_page=True, clip=clip)
    context.close()
    return picture


def main(runs: str, out: str) -> None:
    server = Page(Path(runs), [], None, "127.0.0.1", 0)
    thread = threading.Thread(target=server.answer, args=(False,))
    thread.start()
    path = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            for name, models, segment, token, height in PICTURES:
                taken = take(browser, server.address, models, segment, token, height)
                picture = Image.open(io.BytesIO(taken))
                small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(Path(out) / f"{name}.png", optimize=True)
            browser.close()
    finally:
        server.server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
