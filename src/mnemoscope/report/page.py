"""One HTML file that holds a whole report and asks the network for nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from importlib import resources
from numbers import Integral, Real
from pathlib import Path

from mnemoscope import __version__
from mnemoscope.core.files import write_whole
from mnemoscope.report.dark import dark_colours
from mnemoscope.report.document import (
    Cell,
    Code,
    Figure,
    Finding,
    Report,
    Reproduce,
    Section,
    Table,
    slug,
)

# Everything is inline. Plotly needs data: and blob: images to save a figure as a file.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
# Longer data would bury the page; it is in the CSV file.
MOST_ROWS = 100
DIGITS = 4
# Tables with more rows scroll in a frame of their own.
FRAMED = 24
# Cells with more letters are sentences, which need some width on a phone too.
PROSE = 40


def write(report: Report, folder: Path | str) -> Path:
    """Write ``folder/report.html`` and return its path."""
    return write_whole(Path(folder) / "report.html", render(report).encode())


def render(report: Report) -> str:
    """Return the page as text."""
    from plotly.offline import get_plotlyjs

    numbers: dict[str, int] = {}
    numbers |= {slug(part.name): n for n, part in enumerate(report.figures(), start=1)}
    numbers |= {slug(part.name): n for n, part in enumerate(report.tables(), start=1)}
    sections = [_section(n, one, numbers) for n, one in enumerate(report.sections, start=1)]
    titles = [one.title for one in report.sections]
    # A page that has a finding begins with it; its contents stand below.
    leads = int(isinstance(report.sections[0], Finding)) if report.sections else 0
    plots = f"<script>{get_plotlyjs()}</script>\n<script>{_asset('theme.js')}</script>"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f'<meta name="generator" content="mnemoscope {escape(__version__)}">',
            f"<title>{escape(report.title)}</title>",
            f"<style>{_asset('style.css')}</style>",
            "</head>",
            "<body>",
            '<main class="leads">' if leads else "<main>",
            "<header>",
            f"<h1>{escape(report.title)}</h1>",
            f'<p class="question">{escape(report.question)}</p>',
            "</header>",
            "<noscript><p>The figures need JavaScript; nothing is loaded.</p></noscript>",
            *sections[:leads],
            _contents(titles),
            *sections[leads:],
            _reproduce(report.reproduce),
            "</main>",
            f"<footer>Written by mnemoscope {escape(__version__)}</footer>",
            _json_block("dark-colours", json.dumps(dark_colours())),
            plots if any(report.figures()) else "",
            "</body>",
            "</html>",
            "",
        ]
    )


def _asset(name: str) -> str:
    return resources.files("mnemoscope.report").joinpath(name).read_text(encoding="utf-8")


def _json_block(name: str, text: str) -> str:
    """Embed JSON; without any ``<`` it can neither end the script nor open a comment."""
    safe = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{escape(name)}">{safe}</script>'


def _contents(titles: Sequence[str]) -> str:
    entries = [
        f'<li><a href="#section-{number}">{escape(title)}</a></li>'
        for number, title in enumerate(titles, start=1)
    ]
    entries.append('<li><a href="#reproduce">Reproduce</a></li>')
    return f'<nav aria-label="Contents"><ol>{"".join(entries)}</ol></nav>'


def _section(number: int, section: Section, numbers: dict[str, int]) -> str:
    title, drawn = f"<h2>{escape(section.title)}</h2>", []
    for part in section.parts:
        if isinstance(part, Figure):
            drawn.append(_figure(part, numbers[slug(part.name)]))
        elif isinstance(part, Table):
            drawn.append(_captioned_table(part, numbers[slug(part.name)]))
        elif isinstance(part, Code):
            drawn.append(f'<pre tabindex="0">{escape(part)}</pre>')
        else:
            drawn.append(f"<p>{escape(part)}</p>")
    if isinstance(section, Finding):
        *sentences, figure = drawn
        begin = f'<section id="section-{number}" class="finding">'
        return "\n".join([begin, "<div>", title, *sentences, "</div>", figure, "</section>"])
    return "\n".join([f'<section id="section-{number}">', title, *drawn, "</section>"])


def _figure(part: Figure, number: int) -> str:
    import plotly.io

    name = slug(part.name)
    content = plotly.io.to_json(part.figure, validate=False, engine="json")
    height = part.figure.layout.height or part.figure.layout.template.layout.height or 400
    size = f"height:{height:g}px"
    if part.figure.layout.meta:
        size += f";min-width:{part.figure.layout.meta['min_width']}px"
    return "\n".join(
        [
            f'<figure id="part-{name}">',
            f'<div class="plot" data-figure="{name}" style="{size}"></div>',
            f"<figcaption>{_caption('Figure', number, part.name, part.caption)}</figcaption>",
            _data(part.table()),
            _json_block(f"data-{name}", content),
            "</figure>",
        ]
    )


def fragment(part: Figure) -> str:
    """A figure and the first of its data on their own, with all that a notebook needs."""
    import plotly.io

    drawn = plotly.io.to_html(part.figure, full_html=False, include_plotlyjs=True)
    rows = part.table()
    few = Table(rows.name, rows.columns, rows.rows[:MOST_ROWS], rows.caption)
    caption = f"<b>{escape(part.name)}</b> {escape(part.caption)}"
    return f"<figure>{drawn}<figcaption>{caption}</figcaption>{_data(few)}</figure>"


def _data(table: Table) -> str:
    if len(table.rows) > MOST_ROWS:
        return ""
    return f"<details><summary>Data</summary>{_table(table)}</details>"


def _captioned_table(part: Table, number: int) -> str:
    caption = _caption("Table", number, part.name, part.caption)
    return (
        f'<figure id="part-{slug(part.name)}" class="table">'
        f"<figcaption>{caption}</figcaption>{_table(part)}</figure>"
    )


def _caption(kind: str, number: int, name: str, caption: str) -> str:
    end = "" if name.endswith(("?", "!")) else "."
    return f"<b>{kind} {number}. {escape(name)}{end}</b> {escape(caption)}"


def _table(table: Table) -> str:
    columns = [_column([row[place] for row in table.rows]) for place in range(len(table.columns))]
    kinds = [_kind(cells, numeric) for cells, numeric in columns]
    head = "".join(
        f'<th scope="col"{kind}>{escape(title)}</th>'
        for title, kind in zip(table.columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in zip(*(cells for cells, _ in columns), strict=True)
    )
    long = " long" if len(table.rows) > FRAMED else ""
    # Focusable, so that the keyboard can scroll a wide table.
    return (
        f'<div class="wide"><div class="scroll{long}" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def _kind(cells: Sequence[str], numeric: bool) -> str:
    if numeric:
        return ' class="number"'
    return ' class="prose"' if max(map(len, cells), default=0) > PROSE else ""


def _column(cells: Sequence[Cell]) -> tuple[list[str], bool]:
    """Write the cells of a column, numbers with equally many decimals so that they line up."""
    given = [cell for cell in cells if cell is not None]
    numeric = bool(given) and all(
        isinstance(cell, Real) and not isinstance(cell, bool) for cell in given
    )
    if not numeric:
        return ["–" if cell is None else str(cell) for cell in cells], False
    whole = all(isinstance(cell, Integral) for cell in given)
    sizes = [abs(value) for value in map(float, given) if value and math.isfinite(value)]
    if whole:
        shape = "d"
    elif not sizes or 1e-3 <= min(sizes) <= max(sizes) < 1e6:
        whole_digits = math.floor(math.log10(max(sizes, default=1))) + 1
        shape = f".{max(DIGITS - max(whole_digits, 1), 0)}f"
    else:
        shape = f".{DIGITS - 1}g"
    return ["–" if cell is None else format(cell, shape) for cell in cells], True


def _reproduce(given: Reproduce) -> str:
    facts = [
        ("Date", given.date.strftime("%Y-%m-%d %H:%M %Z").strip()),
        ("Wall time", _duration(given.seconds)),
        *([] if given.cpu_seconds is None else [("CPU time", _duration(given.cpu_seconds))]),
        ("Threads", str(given.threads)),
        *given.versions.items(),
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return "\n".join(
        [
            '<section id="reproduce">',
            "<h2>Reproduce</h2>",
            f'<pre class="command" tabindex="0">{escape(given.command)}</pre>',
            "<h3>Configuration</h3>",
            f'<pre tabindex="0">{escape(given.config.rstrip())}</pre>',
            "<h3>Made with</h3>",
            f"<dl>{rows}</dl>",
            "</section>",
        ]
    )


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
