"""The numbers of a report as CSV, and its figures as image files."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.core.files import write_whole
from mnemoscope.plots.figure import PAPER
from mnemoscope.report.document import Report, Table, slug

WIDTH = 800
# Image pixels to a pixel of the figure; dots are doubled for print, drawings need none.
FORMATS = {"svg": 1, "pdf": 1, "png": 2, "jpeg": 2, "webp": 2}
# Starting a cold browser takes seconds, a figure a fraction of one: far beyond both, it hangs.
START_SECONDS, FIGURE_SECONDS = 60, 30


def write_data(report: Report, folder: Path | str) -> list[Path]:
    """Write the rows of each figure and table to ``folder/figures/NAME.csv``."""
    tables = [*(figure.table() for figure in report.figures()), *report.tables()]
    return [write_whole(_path(folder, one.name, "csv"), _csv(one)) for one in tables]


def write_images(
    report: Report, folder: Path | str, formats: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """Write each figure to ``folder/figures/NAME.FORMAT``, on white, with one browser for all."""
    for form in formats:
        if form not in FORMATS:
            raise UserError(f"unknown image format {form!r}; known: {', '.join(FORMATS)}")
    jobs = [
        (_on_white(one.figure), _path(folder, one.name, form), form)
        for one in report.figures()
        for form in formats
    ]
    if not jobs:
        return []
    # A notebook already runs an event loop in this thread; a second one needs its own.
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, _render(jobs)).result()


async def _render(jobs: Sequence[tuple[dict[str, Any], Path, str]]) -> list[Path]:
    try:
        import kaleido  # type: ignore[import-untyped]
        from kaleido import errors
    except ImportError as error:
        raise UserError("images need kaleido: pip install 'mnemoscope[paper]'") from error
    paths = []
    try:
        # MathJax would be fetched from the network; no figure here uses it.
        async with (
            asyncio.timeout(START_SECONDS + FIGURE_SECONDS * len(jobs)),
            kaleido.Kaleido(mathjax=False, timeout=FIGURE_SECONDS) as browser,
        ):
            for figure, path, form in jobs:
                options = {"format": form, "width": WIDTH, "scale": FORMATS[form]}
                paths.append(write_whole(path, await browser.calc_fig(figure, options)))
    except errors.ChromeNotFoundError as error:
        raise UserError(
            "images need Chrome or Chromium: install one (Debian: apt install chromium), "
            "or name it in the environment variable BROWSER_PATH"
        ) from error
    except (errors.BrowserFailedError, errors.BrowserClosedError, TimeoutError) as error:
        raise UserError(
            f"the browser that draws images failed ({type(error).__name__}); "
            "name another Chrome or Chromium in the environment variable BROWSER_PATH"
        ) from error
    return paths


def _on_white(figure: Any) -> dict[str, Any]:
    content: dict[str, Any] = figure.to_dict()
    content["layout"] |= {"paper_bgcolor": PAPER, "plot_bgcolor": PAPER}
    # Nobody can move it on paper; what is drawn is its first step.
    content["layout"].pop("sliders", None)
    return content


def _csv(table: Table) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue().encode()


def _path(folder: Path | str, name: str, ending: str) -> Path:
    return Path(folder) / "figures" / f"{slug(name)}.{ending}"
