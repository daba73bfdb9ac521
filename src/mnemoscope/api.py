"""What a user types: ``ms.build``, ``ms.train``, ``ms.load``, ``ms.study``."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import shlex
import time
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from mnemoscope import report
from mnemoscope.bounded import read_text
from mnemoscope.document import Report, Reproduce
from mnemoscope.errors import UserError, suggestion
from mnemoscope.files import held, write_whole
from mnemoscope.registry import ATTACHED, FIRST_CHOICE, KINDS, find, model_kind
from mnemoscope.training.config import RunConfig

if TYPE_CHECKING:
    from mnemoscope.lenses.streams import Stream
    from mnemoscope.models.model import SequenceModel
    from mnemoscope.models.translator import Translator
    from mnemoscope.studies.study import Study
    from mnemoscope.training.run import Run

# Seconds between pages of a study that shows what it has while it runs.
SHOW_EVERY = 15


def build(memory: str, **options: Any) -> SequenceModel:
    """Return a fresh model: ``build("lstm", vocab=20, width=64)``. ``vocab`` is required.

    Models that translate are built by their names as well, and need a ``source_vocab`` too.
    """
    model: SequenceModel = find(model_kind(memory), memory).make(**options).build()
    return model


def train(
    task: str | Path,
    model: str | SequenceModel | None = None,
    out: str | Path | None = None,
    **options: Any,
) -> Run:
    """Train a memory by name, or a model that exists, on a task; leaves a run in ``out``.

    Options belong to the task, the model or the training, by plain name: ``lag=50, steps=2000``.
    A YAML file such as a run's config.yaml can stand for task and model; options change it.
    Without ``out`` the first free of runs/TASK-MEMORY, runs/TASK-MEMORY-2 … is taken.
    """
    start = None
    if Path(task).suffix in (".yaml", ".yml"):
        if model is not None:
            raise UserError(f"{task} names its model already: give one or the other")
        config = RunConfig.from_yaml(read_text(task), str(task), options)
    elif model is None or isinstance(model, str):
        usual = FIRST_CHOICE[find("task", str(task)).models]
        config = RunConfig.of(str(task), usual if model is None else model, options)
    else:
        fixed = sorted(key for key in options if key in type(model.config).model_fields)
        if fixed:
            raise UserError(f"the model is given, its {fixed[0]} cannot be changed: leave it out")
        shape = {f"model.{key}": value for key, value in model.config.model_dump().items()}
        config = RunConfig.of(str(task), _name(model), {**options, **shape})
        start = model
    # Whatever is wrong with the options shows here; only then comes torch, which takes its time.
    config.check()
    from mnemoscope.training import loop

    return loop.train(config, out or _free_folder(f"{config.task_name}-{config.memory}"), start)


def _name(model: SequenceModel) -> str:
    """What the memory of a model is registered as, or else the path of its config."""
    kind, name = type(model.config), model.config.memory
    for named in ("memory", "translator", "encoder"):
        if name in KINDS[named] and find(named, name) is kind:
            return name
    return f"{kind.__module__}:{kind.__qualname__}"


def _free_folder(name: str) -> Path:
    safe = name.replace(":", "-").replace("/", "-")
    names = itertools.chain([safe], (f"{safe}-{number}" for number in itertools.count(2)))
    return next(path for path in (Path("runs") / one for one in names) if not path.exists())


def attach(model: Any, memory: str, *, tokenizer: Any = None, **options: Any) -> Any:
    """Give a causal language model of `transformers` a memory: documents, infinite or cache.

    ``attach(model, "documents", layer=15, entries=32)`` returns a `DocumentMemory`, the other two
    an `EndlessMemory`; ``detach()`` of either gives the model back as it was.
    """
    if memory not in ATTACHED:
        raise UserError(f"cannot attach {memory!r}; {suggestion(memory, ATTACHED)}")
    from mnemoscope.models.huggingface import config as known

    if memory == "documents":
        chosen = known.DocumentOptions.make(**options)
        from mnemoscope.models.huggingface.documents import DocumentMemory

        return DocumentMemory(model, chosen, tokenizer)
    kind = known.EndlessOptions if memory == "infinite" else known.CacheOptions
    endless = kind.make(**options)
    from mnemoscope.models.huggingface.endless import EndlessMemory

    return EndlessMemory(model, endless)


def resume(folder: str | Path) -> Run:
    """Go on with a run that was stopped, to the same weights as if it had not been."""
    from mnemoscope.training import loop

    return loop.resume(folder)


def load(folder: str | Path) -> SequenceModel:
    """Return the model of a run, ready to be used."""
    from mnemoscope.training.run import Run

    return Run.open(folder).model()


def stream(source: Any, **options: Any) -> Stream:
    """Return any model behind one call: ``stream("gpt2").read(tokens).state.nbytes``.

    ``source`` is a model of ours or of `transformers`, a memory attached to one, the folder of any
    of them, a name on the hub, or the name of a memory with its options.
    """
    from mnemoscope.lenses.streams import open_stream

    return open_stream(source, **options)


def translator(folder: str | Path) -> Translator:
    """Return what a run on translation learnt: ``translator("runs/a")(["I see."])``."""
    from mnemoscope.training.run import Run

    return Run.open(folder).translator()


def lens(
    name: str,
    models: Sequence[Any],
    texts: Sequence[str],
    out: str | Path,
    **options: Any,
) -> Path:
    """Look into models with a lens and write its page; returns the page.

    ``name`` is information, similarity, change, influence or waves; ``models`` are run folders,
    Hugging Face folders, names or objects; ``options`` are those of
    `mnemoscope.studies.inspection.inspect`. The lens retention reads no text, and its options are
    those of `mnemoscope.lenses.questions.RetentionOptions`.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already and is not empty; choose another --out")
    began = time.perf_counter()
    shown = " ".join(f"--model {shlex.quote(str(model))}" for model in models)
    if name == "retention":
        from mnemoscope.studies.asking import retention

        found = retention(models, **options)
    else:
        from mnemoscope.studies.inspection import inspect

        found = inspect(name, models, texts, **options)
        shown += " --text FILE"
    given = {key: value for key, value in options.items() if value is not None}
    if "tags" in given:
        given["tags"] = "FILE"
    shown += "".join(f" --{key.replace('_', '-')} {_typed(v)}" for key, v in given.items())
    command = f"mnemoscope lens {name} {shown} --out {shlex.quote(str(folder))}"
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in options.items()}
    config = yaml.safe_dump(
        {"lens": name, "texts": len(texts), **plain, "tags": "tags" in options}, sort_keys=False
    )
    seconds = time.perf_counter() - began
    document = Report(
        found.title, found.question, found.sections, Reproduce.here(command, config, seconds, 1)
    )
    page = report.write(document, folder)
    report.write_data(document, folder)
    return page


@dataclass(frozen=True)
class Published:
    """A study that has been run: its page, and its result as plain values."""

    page: Path
    result: dict[str, Any]

    def open(self) -> None:
        """Show the page in the browser."""
        webbrowser.open(self.page.absolute().as_uri())


def study(
    name: str,
    preset: str = "quick",
    out: str | Path | None = None,
    jobs: int | None = None,
    images: bool = False,
    **options: Any,
) -> Published:
    """Run a study, or go on with one that was stopped, and write its page.

    Leaves ``report.html``, ``result.json`` and ``figures/*.csv`` in ``out``; ``images`` adds the
    figures as SVG and PNG. ``jobs`` trainings run at the same time, by default one a core.
    """
    kind: type[Study] = find("study", name)
    config = kind.preset(preset, **options)
    folder = Path(out or Path("runs") / f"{name}-{preset}")
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be at least 1, not {jobs}")
    mark = _claim(folder, name, config)
    known = folder / "result.json"
    changed = "".join(f" --{key.replace('_', '-')} {_typed(v)}" for key, v in options.items())
    command = f"mnemoscope study {name} --preset {preset}{changed} --out {shlex.quote(str(folder))}"

    def told(result: dict[str, Any], made: dict[str, Any]) -> Report:
        here = made | {"command": command, "config": _yaml(name, config)}
        here["date"] = datetime.datetime.fromisoformat(made["date"])
        sections = config.tell(result, folder)
        return Report(config.title, config.question, sections, Reproduce(**here))

    with held(mark, f"working on {folder}"):
        if known.is_file():
            result = json.loads(known.read_text())
        else:
            jobs = jobs or _cores()
            began = shown = time.perf_counter()

            def made() -> dict[str, Any]:
                here = Reproduce.here("", "", time.perf_counter() - began, jobs or 1)
                return {**vars(here), "date": here.date.isoformat()}

            def share(partial: dict[str, Any]) -> None:
                nonlocal shown
                if time.perf_counter() - shown >= SHOW_EVERY:
                    report.write(told(partial, made()), folder)
                    shown = time.perf_counter()

            result = config.run_live(folder, jobs, share)
            result["made"] = made()
            write_whole(known, json.dumps(result).encode())
    document = told(result, result["made"])
    page = report.write(document, folder)
    report.write_data(document, folder)
    if images:
        report.write_images(document, folder)
    return Published(page, result)


def _cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _claim(folder: Path, name: str, config: Study) -> Path:
    """Make the folder this study's own; what another study left there is never mixed in."""
    mark, content = folder / "study.yaml", _yaml(name, config)
    # A mark alone is what a study left that was refused before its first training.
    begun = folder.is_dir() and any(
        path != mark and path.suffix != ".part" for path in folder.iterdir()
    )
    if mark.is_file() and begun:
        if mark.read_text() != content:
            raise UserError(
                f"{folder} holds a study with other options (see {mark}); choose another --out"
            )
    elif begun or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder} exists already and is not a study; choose another --out")
    else:
        write_whole(mark, content.encode())
    return mark


def _yaml(name: str, config: Study) -> str:
    values = {"study": name, **config.model_dump(mode="json")}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None)


def _typed(value: Any) -> str:
    return shlex.quote(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
