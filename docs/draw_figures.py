"""Draw the figures of the guide from the results that are shipped: `make figures`. Trains nothing.

Each is one figure of the page that `mnemoscope show RESULT` draws.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from mnemoscope import report, shipped
from mnemoscope.report.document import Report, Section, slug

FOLDER = Path(__file__).with_name("figures")
# File of the guide: the result it is of, and the name of the figure on its page.
FIGURES: dict[str, tuple[str, str]] = {}


def main(wanted: list[str]) -> None:
    """Draw all, or those whose file names are given."""
    pages: dict[str, Report] = {}
    for file, (result, name) in FIGURES.items():
        if wanted and file not in wanted:
            continue
        if result not in pages:
            pages[result] = shipped.page(shipped.load(result))
        figure = next(one for one in pages[result].figures() if one.name == name)
        alone = replace(pages[result], sections=[Section("Figure", [figure])])
        form = Path(file).suffix[1:]
        with tempfile.TemporaryDirectory() as folder:
            report.write_images(alone, folder, [form])
            drawn = Path(folder) / "figures" / f"{slug(name)}.{form}"
            (FOLDER / file).write_bytes(drawn.read_bytes())
        print(FOLDER.name, file)


if __name__ == "__main__":
    main(sys.argv[1:])
