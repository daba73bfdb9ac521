"""Running a study or a lens and writing its page.

A study that is started again goes on where it was stopped.
"""

from __future__ import annotations

import json
import os
import shlex
import time
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from mnemoscope import report
from mnemoscope.core.bounded import read_lines
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.core.files import write_whole
from mnemoscope.core.interrupts import postponed
from mnemoscope.core.registry import find, options_of, registered
from mnemoscope.core.trust import Modules, trusted, trusting
from mnemoscope.huggingface.saving import check_destination
from mnemoscope.lenses.lens import Lens, Result
from mnemoscope.report.document import Report, Reproduce, Section
from mnemoscope.studies.folder import (
    RESULT,
    VERSION,
    Finished,
    claimed,
    known_result,
    options_yaml,
    write_result,
)
from mnemoscope.studies.notices import collected
from mnemoscope.studies.trials import cpu_seconds

if TYPE_CHECKING:
    from mnemoscope.core.config import Config
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


def drawn(kind: type[Study] | type[Lens], finished: Finished) -> Report:
    """The page of a result, with a last section on what had to be done again. Needs no torch."""
    question = kind.asked(finished.models) if issubclass(kind, Lens) else kind.question
    sections = [*kind.page(finished.result)]
    if finished.notices:
        sections.append(Section("What was done again", finished.notices))
    return Report(kind.title, question, sections, finished.made)


def _cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def typed(value: Any) -> str:
    """A value as it is typed on a command line."""
    return shlex.quote(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def lens(
    name: str,
    models: Any,
    texts: str | Path | Sequence[str] | None = None,
    out: str | Path | None = None,
    *,
    trust: Modules = None,
    **options: Any,
) -> Result:
    """Look into models with a lens: ``lens("information", "runs/a", texts).figure()``.

    ``models`` is one or a list of run folders, Hugging Face folders, names or objects; ``texts``
    is a text, a list of them, or the path of a file with a text on each line. Which it takes, and
    its ``options``, says ``mnemoscope lens NAME --help``. With ``out`` its page is written there,
    beside the result.json from which ``mnemoscope show`` draws it again.
    """
    with trusting(trust):
        name = registered("lens", name)
        chosen = options_of("lens", name).make(**options)
        if out is not None:
            check_destination(out)
        given = list(models) if isinstance(models, list | tuple) else [models]
        lines = _lines(texts)
        kind: type[Lens] = find("lens", name)
        kind.check(given, lines)
        began = time.perf_counter()
        result = kind.measure(given, lines or [], chosen)
        if out is not None:
            facts = {"lens": name, "texts": len(lines or []), **chosen.model_dump(mode="json")}
            command = _lens_command(name, given, texts, Path(out), chosen)
            seconds = time.perf_counter() - began
            here = Reproduce.here(command, yaml.safe_dump(facts, sort_keys=False), seconds, 1)
            names = tuple(_called(model) for model in given)
            finished = Finished(name, result, here, kind="lens", models=names)
            document = drawn(kind, finished)
            report.write(document, out)
            report.write_data(document, out)
            if kind.Result is not None:
                whole = {"version": VERSION, **to_plain(finished)}
                write_whole(Path(out) / RESULT, json.dumps(whole).encode())
    return result


def _lines(texts: str | Path | Sequence[str] | None) -> list[str] | None:
    if isinstance(texts, Path):
        return read_lines(texts)
    return [texts] if isinstance(texts, str) else None if texts is None else list(texts)


def _called(model: Any) -> str:
    """What a page calls a model: the name of its folder, its memory, or its class."""
    if isinstance(model, str | Path):
        return Path(model).name
    config = getattr(model, "config", None)
    names = (getattr(config, name, None) for name in ("memory", "model_type"))
    return next((name for name in names if isinstance(name, str)), type(model).__name__)


def _lens_command(
    name: str, models: Sequence[Any], texts: Any, folder: Path, options: Config
) -> str:
    """What is typed to get the same; FILE and MODEL stand for what was given in Python."""
    words = ["mnemoscope lens", name]
    for model in models:
        words += ["--model", typed(model) if isinstance(model, str | Path) else "MODEL"]
    if texts is not None:
        words += ["--text", typed(texts) if isinstance(texts, Path) else "FILE"]
    for option, value in options:
        if option in options.model_fields_set:
            shown = "FILE" if isinstance(value, list) else typed(value)
            words += [f"--{option.replace('_', '-')}", shown]
    words += [word for module in trusted() for word in ("--trust", module)]
    return " ".join([*words, "--out", typed(folder)])
