"""Is all well on this machine? Versions, threads, device, exactness, folders, pages."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope import __version__
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES, TRANSLATORS, find, model_kind
from mnemoscope.studies.engines.engine import Engine, using

if TYPE_CHECKING:
    import torch

PACKAGES = ("torch", "numpy", "accelerate", "safetensors", "tokenizers", "plotly", "pydantic")
EXTRAS = ("transformers", "datasets", "kaleido", "ray", "submitit")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    well: bool
    found: str


def examine(device: str = "auto") -> Iterator[Check]:
    """Look at one thing after the other."""
    yield _versions()
    yield _threads()
    yield _device(device)
    yield _exactness()
    yield _folders()
    yield _page()


@dataclass(frozen=True)
class Where:
    """On which host a tiny trial was looked at, and its loss."""

    host: str
    loss: float


def where(folder: Path) -> Where:
    """Look at a finished trial, wherever that is done."""
    from mnemoscope.training.run import Run

    return Where(platform.node(), Run.open(folder).valid_loss)


def try_engine(engine: Engine, place: Path) -> Check:
    """Let an engine compute two tiny trials, and compare their weights with ours."""
    from mnemoscope.studies.trials import Trial, run_trials
    from mnemoscope.training.config import RunConfig
    from mnemoscope.training.loop import train

    options = {"steps": 4, "batch": 2, "width": 20, "device": "cpu"}
    trials = [Trial(name, RunConfig.of("copy", name, options)) for name in ("rnn", "gru")]
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="doctor-", dir=place) as home:
            folder = Path(home) / "runs"
            with using(engine):
                found = run_trials(trials, folder, where, 2, "doctor", kind=Where, later=None)
            seconds = time.monotonic() - began
            hosts = sorted({one.host for one in found if isinstance(one, Where)})
            whole = [train(one.config, Path(home) / one.name, silent=True) for one in trials]
            alike = all(
                (folder / one.folder.name / "model.safetensors").read_bytes()
                == (one.folder / "model.safetensors").read_bytes()
                for one in whole
            )
    except (UserError, OSError) as error:
        return Check(engine.name, False, str(error))
    words = f"two trials in {seconds:.0f} s on {', '.join(hosts)}, weights "
    return Check(engine.name, True, words + ("equal bit for bit" if alike else "equal to rounding"))


def _versions() -> Check:
    found = [f"mnemoscope {__version__}", f"Python {platform.python_version()}"]
    missing = []
    for name in (*PACKAGES, *EXTRAS):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            if name in PACKAGES:
                missing.append(name)
    if missing:
        return Check("versions", False, f"missing: {', '.join(missing)}; install with make setup")
    return Check("versions", True, ", ".join(found))


def _threads() -> Check:
    import os

    import torch

    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    words = f"torch uses {threads} of {cores} cores"
    if threads > cores:
        return Check("threads", False, f"{words}; set OMP_NUM_THREADS to at most {cores}")
    return Check("threads", True, words)


def _device(name: str) -> Check:
    """Every model must give the same logits and gradients on the device as on the CPU."""
    from mnemoscope.training.machine import join

    try:
        device = join(name).device
    except UserError as error:
        return Check("device", False, str(error))
    if device.type == "cpu":
        return Check("device", True, "cpu (no accelerator to compare with)")
    worst = {name: _difference(name, device) for name in (*MEMORIES, *TRANSLATORS)}
    words = ", ".join(f"{memory} {value:.1e}" for memory, value in worst.items())
    well = all(value < 1e-3 for value in worst.values())
    advice = "" if well else "; do not trust this device with this version of torch"
    return Check("device", well, f"{device.type} against cpu, largest difference: {words}{advice}")


def _exactness() -> Check:
    """Whether a saved state continues bit for bit here, and what changes the last bits."""
    import torch

    names = (*MEMORIES, *TRANSLATORS)
    broken = [f"a saved state of {name}" for name in names if not _goes_on(name)]
    broken += [] if _resumes() else ["a resumed run"]
    kind, threads = torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()
    here = f"tried on {len(names)} models, {kind} instructions, {threads} threads"
    if broken:
        words = f"only to rounding continues {', '.join(broken)}"
        return Check("exactness", False, f"{words} ({here})")
    words = f"saved states and resumed runs continue bit for bit ({here})"
    # Elsewhere the order of sums may be another one.
    return Check("exactness", True, f"{words}; on another machine or thread count to rounding")


def _resumes() -> bool:
    """Whether a run that was stopped half-way ends with the same weights, to the bit."""
    import torch

    from mnemoscope.training.config import RunConfig
    from mnemoscope.training.loop import resume, train

    options = {"steps": 4, "checkpoint_every": 2, "batch": 2, "width": 20, "device": "cpu"}
    with tempfile.TemporaryDirectory() as folder:
        run = train(RunConfig.of("copy", "gru", options), Path(folder) / "run", silent=True)
        before = run.model().state_dict()
        (run.folder / "model.safetensors").unlink()
        after = resume(run.folder, silent=True).model().state_dict()
    return all(torch.equal(before[name], after[name]) for name in before)


def _goes_on(name: str) -> bool:
    """Whether one model says the same, to the bit, from its state and from a copy in a file."""
    import torch

    from mnemoscope.memories.state import State

    # Heads six numbers wide begin at all kinds of addresses; forty tokens fill a kernel's block.
    model = _small(name, width=24, layers=1).eval()
    tokens = torch.randint(11, (1, 42))
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        state: Any = model.encode(tokens) if name in TRANSLATORS else None
        for part in (tokens[:, :1], tokens[:, 1:41]):
            state = model(part, state).state
        state.save(Path(folder) / "state")
        again = State.load(Path(folder) / "state")
        last = tokens[:, 41:]
        return bool(torch.equal(model(last, state).logits, model(last, again).logits))


def _small(name: str, **options: int) -> Any:
    """A model of eleven tokens, always with the same weights."""
    import torch

    torch.manual_seed(0)
    source = {"source_vocab": 11} if name in TRANSLATORS else {}
    return find(model_kind(name), name).make(vocab=11, **options, **source).build()


def _difference(name: str, device: torch.device) -> float:
    """Largest difference of logits and of any gradient, from the same weights."""
    import torch

    here, there = (_small(name, width=16, layers=2) for _ in range(2))
    there.to(device)
    tokens = torch.randint(11, (3, 12))

    def read(model: Any, tokens: Any) -> Any:
        begun = model.encode(tokens) if name in TRANSLATORS else None
        return model(tokens[:, 6:], model(tokens[:, :6], begun).state).logits

    ours, theirs = read(here, tokens), read(there, tokens.to(device))
    torch.autograd.backward(ours.square().mean())
    torch.autograd.backward(theirs.square().mean())
    worst = float((ours - theirs.cpu()).detach().abs().max())
    for one, other in zip(here.parameters(), there.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        worst = max(worst, float((one.grad - other.grad.cpu()).abs().max()))
    return worst


def _folders() -> Check:
    places = [Path.cwd(), Path(tempfile.gettempdir())]
    for place in places:
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"mnemoscope")
        except OSError as error:
            return Check("folders", False, f"cannot write to {place}: {error.strerror}")
    free = shutil.disk_usage(places[0]).free / 2**30
    words = f"{places[0]} and {places[1]} can be written to, {free:.1f} GiB free"
    return Check("folders", free > 1, words if free > 1 else f"{words}: make room")


def _page() -> Check:
    """Write a small page and, if a browser is here, look whether it draws."""
    from mnemoscope import report
    from mnemoscope.plots.figure import Series, lines
    from mnemoscope.report.document import Figure, Report, Reproduce, Section

    rows = [{"x": x, "y": x * x} for x in (1, 2, 3)]
    curve = lines([Series("y", [1, 2, 3], [1, 4, 9])], "x", "y")
    document = Report(
        "Doctor",
        "Does a page draw?",
        [Section("Yes", [Figure("curve", curve, "x squared", rows)])],
        Reproduce.here("mnemoscope doctor", "", 0.0, 1),
    )
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as folder:
        page = report.write(document, folder)
        size = f"{page.stat().st_size / 1e6:.1f} MB"
        if browser is None:
            return Check("page", True, f"written ({size}); no Chromium here to look at it with")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        flags += ["--disable-background-networking", "--disable-component-update"]
        flags += ["--disable-sync", f"--user-data-dir={folder}/profile", "--dump-dom"]
        try:
            shown = subprocess.run(
                [browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Check("page", False, f"{browser} could not open the page: {error}")
    drawn = "main-svg" in shown.stdout
    words = "drawn by" if drawn else "NOT drawn by"
    return Check("page", drawn, f"{size}, {words} {browser}")
