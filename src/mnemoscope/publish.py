"""Running a study and writing its page; started again, it goes on where it was stopped."""

from __future__ import annotations

import os
import shlex
import time
import webbrowser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope import report
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.core.interrupts import postponed
from mnemoscope.core.registry import find, registered
from mnemoscope.core.trust import Modules, trusted, trusting
from mnemoscope.report.document import Report, Reproduce, Section
from mnemoscope.studies.folder import Finished, claimed, known_result, options_yaml, write_result
from mnemoscope.studies.notices import collected
from mnemoscope.studies.trials import cpu_seconds

if TYPE_CHECKING:
    from mnemoscope.studies.study import Study

# Seconds between pages of a study that shows what it has while it runs.
SHOW_EVERY = 15


@dataclass(frozen=True)
class Published:
    """A study that has been run: its page, and its result."""

    page: Path
    result: Any

    def open(self) -> None:
        """Show the page in the browser."""
        webbrowser.open(self.page.absolute().as_uri())


def study(
    name: str,
    preset: str = "quick",
    out: str | Path | None = None,
    jobs: int | None = None,
    images: bool = False,
    *,
    trust: Modules = None,
    **options: Any,
) -> Published:
    """Run a study, or go on with one that was stopped, and write its page.

    Leaves ``report.html``, ``result.json`` and ``figures/*.csv`` in ``out``; ``images`` adds the
    figures as SVG and PNG. ``jobs`` trainings run at the same time, by default one a core.
    ``trust`` names modules that memories named ``module:Name`` may be imported from.
    """
    with trusting(trust):
        return _study(name, preset, out, jobs, images, options)


def _study(
    name: str,
    preset: str,
    out: str | Path | None,
    jobs: int | None,
    images: bool,
    options: dict[str, Any],
) -> Published:
    name = registered("study", name)
    kind: type[Study] = find("study", name)
    config = kind.preset(preset, **options)
    folder = Path(out or Path("runs") / f"{name}-{preset}")
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be at least 1, not {jobs}")
    changed = "".join(f" --{key.replace('_', '-')} {typed(v)}" for key, v in options.items())
    changed += "".join(f" --trust {module}" for module in trusted())
    command = f"mnemoscope study {name} --preset {preset}{changed} --out {shlex.quote(str(folder))}"
    here = {"command": command, "config": options_yaml(name, config)}
    try:
        with claimed(folder, name, config) as known, collected() as notices:
            finished = known_result(folder, known, kind.Result)
            if finished is None:
                finished = _answer(name, config, folder, jobs or _cores(), here, notices)
                write_result(folder, known, finished)
            # The folder may have been moved, and some options be given in another way.
            made = replace(finished.made, command=here["command"], config=here["config"])
            document = drawn(kind, replace(finished, made=made))
            page = report.write(document, folder)
            report.write_data(document, folder)
            if images:
                report.write_images(document, folder)
    except (KeyboardInterrupt, InterruptedRunError) as error:
        more = (f" --jobs {jobs}" if jobs else "") + (" --images" if images else "")
        raise InterruptedRunError(
            f"stopped; nothing is lost. Go on with: {command}{more}"
        ) from error
    return Published(page, finished.result)


def _answer(
    name: str, config: Study, folder: Path, jobs: int, here: dict[str, str], notices: list[str]
) -> Finished:
    """Run a study; one that is live has a page meanwhile."""
    with postponed():
        import torch  # noqa: F401
    began = shown = time.perf_counter()
    before = cpu_seconds()

    def finished(result: Any) -> Finished:
        # As it will be read from the file, so that a page never depends on where it came from.
        again: Any = from_plain(type(config).Result, to_plain(result))
        spent = time.perf_counter() - began, cpu_seconds() - before
        made = Reproduce.here(**here, seconds=spent[0], cpu_seconds=spent[1], threads=jobs)
        return Finished(name, again, made, tuple(notices))

    def share(partial: Any) -> None:
        nonlocal shown
        if time.perf_counter() - shown >= SHOW_EVERY:
            report.write(drawn(type(config), finished(partial)), folder)
            shown = time.perf_counter()

    return finished(config.run_live(folder, jobs, share))


def drawn(kind: type[Study], finished: Finished) -> Report:
    """The page of a result, with a last section on what had to be done again. Needs no torch."""
    sections = [*kind.page(finished.result)]
    if finished.notices:
        sections.append(Section("What was done again", finished.notices))
    return Report(kind.title, kind.question, sections, finished.made)


def _cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def typed(value: Any) -> str:
    """A value as it is typed on a command line."""
    return shlex.quote(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
