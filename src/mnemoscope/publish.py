"""Running a study or a lens and writing its page.

A study that is started again continues where it was stopped.
"""

from __future__ import annotations

import json
import math
import shlex
import time
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from mnemoscope import report
from mnemoscope.checks.page import Check
from mnemoscope.checks.result import CheckResult
from mnemoscope.core.bounded import read_lines
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.core.files import write_whole
from mnemoscope.core.interrupts import postponed
from mnemoscope.core.registry import find, options_of, registered
from mnemoscope.core.texts import read_texts
from mnemoscope.core.trust import Modules, trusted, trusting
from mnemoscope.huggingface.saving import check_destination
from mnemoscope.lenses.lens import Lens, Result
from mnemoscope.report.document import Report, Reproduce, Section
from mnemoscope.studies.engines.engine import current, kind_of, named, using
from mnemoscope.studies.folder import (
    RESULT,
    VERSION,
    Finished,
    claimed,
    known_result,
    options_yaml,
    write_result,
)
from mnemoscope.studies.notices import Collected, collected
from mnemoscope.studies.trials import cpu_seconds

if TYPE_CHECKING:
    from mnemoscope.models.inputs import Inputs
    from mnemoscope.studies.study import Study

# A longer value is described, not written down, where a call in Python is shown.
LONGEST_ARGUMENT, WRITABLE = 100, str | int | float | list | tuple | None
# Seconds between pages of a study that shows what it has while it runs.
SHOW_EVERY = 15


@dataclass(frozen=True)
class Published:
    """A study that has been run: its page, and its result."""

    page: Path
    result: Any

    def __repr__(self) -> str:
        return f"Published({self.page}, {self.result!r})"

    def _repr_html_(self) -> str:
        link = f'<a href="{escape(self.page.absolute().as_uri())}">{escape(str(self.page))}</a>'
        return f"<p>{link}</p>{self.result._repr_html_()}"

    def open(self) -> None:
        """Show the page in the browser."""
        webbrowser.open(self.page.absolute().as_uri())


def study(
    name: str,
    preset: str,
    out: str | Path | None,
    jobs: int | None,
    images: bool,
    engine: str,
    trust: Modules,
    options: Mapping[str, Any],
) -> Published:
    """Run a study or continue it, and write its page; see `mnemoscope.shipped.study`."""
    with trusting(trust):
        own, given = _parted(name, engine, options)
        with using(named(engine, given)):
            return _study(name, preset, out, jobs, images, own, given)


def _parted(
    name: str, engine: str, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the study, and those of the engine: by a name that the study has not, or in full
    as ``engine.NAME``.
    """
    study, kind = find("study", registered("study", name)), kind_of(engine)
    own: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for key, value in options.items():
        short = key.removeprefix("engine.")
        if short != key or (key in kind.model_fields and key not in study.model_fields):
            given[short] = value
        else:
            own[key] = value
    return own, given


def _study(
    name: str,
    preset: str,
    out: str | Path | None,
    jobs: int | None,
    images: bool,
    options: dict[str, Any],
    for_engine: dict[str, Any],
) -> Published:
    name = registered("study", name)
    kind: type[Study] = find("study", name)
    config = kind.preset(preset, **options)
    folder = Path(out or Path("runs") / f"{name}-{preset}")
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be at least 1, not {jobs}")
    engine = current()
    changed = _changes(options)
    changed += "".join(f" --trust {module}" for module in trusted())
    command = f"mnemoscope study {name} --preset {preset}{changed} --out {shlex.quote(str(folder))}"
    here = {"command": command, "config": options_yaml(name, config)}
    try:
        with claimed(folder, name, config, engine) as known, collected() as said:
            finished = known_result(folder, known, kind.Result)
            if finished is None:
                finished = _answer(name, config, folder, jobs or engine.jobs(), here, said)
                # Somebody who shares the folder may have found what we had to do without.
                others = known_result(folder, known, kind.Result) if finished.missing else None
                finished = others or finished
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
        if engine.name != "local":
            more += f" --engine {engine.name}"
        more += _changes(for_engine)
        raise InterruptedRunError(
            f"stopped; nothing is lost. Continue with: {command}{more}"
        ) from error
    return Published(page, finished.result)


def _answer(
    name: str, config: Study, folder: Path, jobs: int, here: dict[str, str], said: Collected
) -> Finished:
    """Run a study; one that is live has a page meanwhile."""
    with postponed():
        import torch  # noqa: F401
    began, shown = time.perf_counter(), -math.inf  # what there is first is shown at once
    before = cpu_seconds()

    def finished(result: Any) -> Finished:
        # As it will be read from the file, so that a page never depends on where it came from.
        again: Any = from_plain(type(config).Result, to_plain(result))
        spent = time.perf_counter() - began, cpu_seconds() - before
        made = Reproduce.here(**here, seconds=spent[0], cpu_seconds=spent[1], threads=jobs)
        return Finished(name, again, made, tuple(said.notices), missing=tuple(said.missing))

    def share(partial: Any) -> None:
        nonlocal shown
        if time.perf_counter() - shown >= SHOW_EVERY:
            report.write(drawn(type(config), finished(partial)), folder)
            shown = time.perf_counter()

    return finished(config.run_live(folder, jobs, share))


def drawn(kind: type[Study] | type[Lens] | type[Check], finished: Finished) -> Report:
    """The page of a result, with last sections on what is missing, and on what had to be done
    again. Needs no torch.
    """
    question = kind.asked(finished.models) if issubclass(kind, Lens) else kind.question
    sections = [*kind.page(finished.result)]
    if finished.missing:
        again = "The same command tries them again."
        sections.append(Section("What is missing", [*finished.missing, again]))
    if finished.notices:
        sections.append(Section("What was done again", finished.notices))
    return Report(kind.title, question, sections, finished.made)


def _changes(options: Mapping[str, Any]) -> str:
    """Options as they are typed on a command line."""
    return "".join(f" --{key.replace('_', '-')} {typed(v)}" for key, v in options.items())


def typed(value: Any) -> str:
    """A value as it is typed on a command line."""
    return shlex.quote(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def lens(
    name: str,
    models: Any,
    texts: Inputs | Path | None = None,
    out: str | Path | None = None,
    *,
    trust: Modules = None,
    **options: Any,
) -> Result:
    """Look into models with a lens: ``lens("information", "runs/a", texts).figure()``.

    ``models`` is one or a list of run folders, Hugging Face folders, names or objects; ``texts``
    is a text, token ids, a tensor of them or a list of such, or the path of a file with a text on
    each line, or in paragraphs if its lines are broken to fit a page. Which it takes, and its
    ``options``, says ``mnemoscope lens NAME --help``. With ``out`` its page is written there,
    beside the result.json from which ``mnemoscope show`` draws it again.
    """
    return look(name, models, texts, out, trust, options)


def look(
    name: str,
    models: Any,
    texts: Any,
    out: str | Path | None,
    trust: Modules,
    options: dict[str, Any],
    command: str | None = None,
) -> Result:
    """`lens`, whose page says how it was asked: by ``command``, or else by a call in Python."""
    with trusting(trust):
        name = registered("lens", name)
        chosen = options_of("lens", name).make(**options)
        if out is not None:
            check_destination(out)
        given = list(models) if isinstance(models, list | tuple) else [models]
        kind: type[Lens] = find("lens", name)
        # Pairs and tags are told line by line.
        by_line = kind.reads == "pairs" or getattr(chosen, "tags", None) is not None
        lines = _lines(texts, by_line)
        kind.check(given, lines)
        began, before = time.perf_counter(), cpu_seconds()
        result = kind.measure(given, lines or [], chosen)
        if out is not None:
            facts = {"lens": name, "texts": len(lines or []), **chosen.model_dump(mode="json")}
            command = command or _lens_call(name, given, texts, out, options)
            spent = time.perf_counter() - began, cpu_seconds() - before
            config = yaml.safe_dump(facts, sort_keys=False)
            here = Reproduce.here(command, config, spent[0], 1, spent[1])
            names = tuple(_called(model) for model in given)
            finished = Finished(name, result, here, kind="lens", models=names)
            _leave(kind, finished, Path(out))
    return result


def keep_check(
    result: CheckResult, out: str | Path, command: str, options: Check, spent: tuple[float, float]
) -> Path:
    """Write the page of a check, beside the result.json from which it can be drawn again.

    ``spent`` is wall and CPU time in seconds.
    """
    config = yaml.safe_dump(options.model_dump(mode="json"), sort_keys=False)
    here = Reproduce.here(command, config, spent[0], 1, spent[1])
    here = replace(here, versions={**here.versions, **result.versions})
    names = tuple(row.name for row in result.rows)
    return _leave(Check, Finished("check", result, here, kind="check", models=names), Path(out))


def _leave(kind: type[Lens] | type[Check], finished: Finished, out: Path) -> Path:
    """The page of a lens or check, its tables, and its result if it can be read again."""
    document = drawn(kind, finished)
    report.write_data(document, out)
    if kind.Result is not None:
        whole = {"version": VERSION, **to_plain(finished)}
        write_whole(out / RESULT, json.dumps(whole).encode())
    return report.write(document, out)


def _lines(texts: Inputs | Path | None, by_line: bool) -> list[Any] | None:
    """The texts, or the token ids of each."""
    if texts is None:
        return None
    if isinstance(texts, Path):
        return read_lines(texts) if by_line else read_texts(texts)
    from mnemoscope.models.inputs import as_list, token_rows

    given = as_list(texts)
    return given if isinstance(given[0], str) else token_rows(given, None, "")


def _called(model: Any) -> str:
    """What a page calls a model: the name of its folder, its memory, or its class."""
    if isinstance(model, str | Path):
        return Path(model).name
    config = getattr(model, "config", None)
    names = (getattr(config, name, None) for name in ("memory", "model_type"))
    return next((name for name in names if isinstance(name, str)), type(model).__name__)


def _lens_call(
    name: str, models: Sequence[Any], texts: Any, out: str | Path, options: Mapping[str, Any]
) -> str:
    """The call in Python that gives the same; comments say what cannot be written down."""
    notes: dict[str, None] = {}

    def written(value: Any, called: str) -> str:
        if isinstance(value, Path):
            return f"pathlib.Path({str(value)!r})"
        whole = isinstance(value, str) and called != "texts"
        if whole or (isinstance(value, WRITABLE) and len(repr(value)) <= LONGEST_ARGUMENT):
            return repr(value)
        many = f" of {len(value)}" if isinstance(value, list | tuple) else ""
        notes[f"# {called} is a {type(value).__name__}{many}"] = None
        return called

    names = ["model"] if len(models) == 1 else [f"model_{n + 1}" for n in range(len(models))]
    few = [written(model, called) for model, called in zip(models, names, strict=True)]
    words = [repr(name), few[0] if len(few) == 1 else f"[{', '.join(few)}]"]
    words += [] if texts is None else [written(texts, "texts")]
    words += [f"out={written(out, 'out')}"]
    words += [f"{option}={written(value, option)}" for option, value in options.items()]
    words += [f"trust={list(trusted())}"] if trusted() else []
    call = f"ms.lens({', '.join(words)})"
    paths = ["import pathlib"] if "pathlib.Path(" in call else []
    return "\n".join([*paths, "import mnemoscope as ms", *notes, call])
