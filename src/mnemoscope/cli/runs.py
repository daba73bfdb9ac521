"""``mnemoscope train``, ``resume``, ``study`` and ``generate``.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from mnemoscope.cli.app import app
from mnemoscope.cli.options import Options, Trust, examples, pairs
from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.core.registry import find
from mnemoscope.core.trust import trusting


@app.command(
    help_epilogue=examples(
        "mnemoscope train copy --memory gru --lag 30",
        "mnemoscope train characters --memory transformer --source book.txt",
        "mnemoscope train recall --pairs 8 --length 64 --out runs/recall",
        "mnemoscope train runs/recall/config.yaml --lr 0.003 --out runs/faster",
    ),
)
def train(
    task: str,
    /,
    *options: Options,
    memory: str | None = None,
    out: Path | None = None,
    trust: Trust = None,
) -> None:
    """Train a model with some memory on a task.

    Any option of the task, the model or the training can follow by name: see
    "mnemoscope list copy", "mnemoscope list lstm", "mnemoscope list training".
    Several processes: torchrun --nproc-per-node 2 -m mnemoscope train …

    Parameters
    ----------
    task
        What to learn: see "mnemoscope list tasks"; or a YAML file with all of it.
    memory
        What to learn it with: see "mnemoscope list memories" and "mnemoscope list translators";
        by default lstm, for translation encoder_decoder.
    out
        A new folder for the run; by default runs/TASK-MEMORY.
    """
    from mnemoscope.api import train as run_training

    _say_trained(run_training(task, memory, out, trust=trust, **pairs(options)))


@app.command(
    help_epilogue=examples(
        "mnemoscope resume runs/copy-gru",
    ),
)
def resume(run: Path, /, *, trust: Trust = None) -> None:
    """Continue a run that was stopped, to the same weights as if it had not been.

    Parameters
    ----------
    run
        The folder of the run.
    """
    from mnemoscope.api import resume as resume_training

    _say_trained(resume_training(run, trust=trust))


@app.command(
    help_epilogue=examples(
        "mnemoscope study retention",
        "mnemoscope study lag --memories gru,lstm --steps 300 --out runs/lag-short",
        "mnemoscope study lag --engine shared --out /shared/lag",
    ),
)
def study(
    name: str,
    /,
    *options: Options,
    preset: str = "quick",
    out: Path | None = None,
    jobs: int | None = None,
    images: bool = False,
    engine: str = "local",
    trust: Trust = None,
) -> None:
    """Answer a question: run a study and write its page.

    Any option of the study can follow by name: see "mnemoscope list lag".
    A study that was stopped continues when the same command is given again.
    Options of the engine follow by name too: see "mnemoscope list engines".

    Parameters
    ----------
    name
        Which study: see "mnemoscope list studies".
    preset
        How large: quick takes minutes; paper has the size of the papers and wants an accelerator.
        What a preset changes and, where it was measured, costs: see "mnemoscope list NAME".
    out
        Folder for report.html, result.json and all runs; by default runs/NAME-PRESET.
    jobs
        Trainings at the same time; by default one for each core.
    images
        Write the figures as SVG and PNG too (needs the extra "paper" and a Chromium).
    engine
        Where trainings run: local (processes here), shared (the same command on several machines
        that see the folder), ray or slurm (a cluster; each needs the extra of its name).
    """
    from mnemoscope.api import study as run_study

    console = Console()
    given = pairs(options)
    with trusting(trust), _stopped_by_one_ended_by_two():
        if find("study", name).live:
            folder = (out or Path("runs") / f"{name}-{preset}").absolute()
            console.print(f"page so far  {escape(str(folder / 'report.html'))}", soft_wrap=True)
        published = run_study(name, preset, out, jobs, images, engine=engine, **given)
    page = published.page.absolute()
    console.print(f"[bold]page[/bold]    {escape(str(page))}", soft_wrap=True)
    console.print(f"result  {escape(str(page.with_name('result.json')))}", soft_wrap=True)


@contextmanager
def _stopped_by_one_ended_by_two() -> Iterator[None]:
    """Ctrl-C stops a study in order, which takes a moment; a second one does not wait for that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(received: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except (KeyboardInterrupt, InterruptedRunError):
        before = signal.SIG_DFL
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@app.command(
    help_epilogue=examples(
        'mnemoscope generate runs/characters-transformer "The "',
        'mnemoscope generate runs/text-lstm "A class" --temperature 0',
    ),
)
def generate(
    run: Path,
    /,
    prompt: str,
    *,
    length: int = 200,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    trust: Trust = None,
) -> None:
    """Let a model that was trained on text write on.

    Parameters
    ----------
    run
        The folder of a run on the task text or characters.
    prompt
        What it reads first.
    length
        Tokens to write.
    temperature
        How freely it chooses; 0 always takes the likeliest.
    top_k
        Choose among the k likeliest only.
    top_p
        Choose among the likeliest that together reach this probability only.
    seed
        Root of the randomness.
    """
    from mnemoscope.training.run import Run

    with trusting(trust):
        opened = Run.open(run)
    if not opened.vocabulary.encode(prompt).size:
        raise UserError("the prompt is empty: give at least one character")
    import torch

    from mnemoscope.api import generate as speak
    from mnemoscope.core.seeds import derive

    drawn = torch.Generator().manual_seed(derive(seed, "generate"))
    how: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    said = speak(opened, prompt, length, generator=drawn, **how)
    sys.stdout.write(f"{prompt}{said.texts[0]}\n")


def _say_trained(run: Any) -> None:
    if os.environ.get("RANK", "0") != "0":
        return  # torchrun starts several of us; one speaks
    last: dict[str, Any] = {}
    for entry in run.metrics():
        last.update(entry)
    console = Console()
    facts = ", ".join(
        f"{name.replace('_', ' ')} {last[name]:.4g}"
        for name in ("loss", "valid_loss", "valid_accuracy", "majority_accuracy")
        if name in last
    )
    console.print(f"[bold]run[/bold]  {escape(str(run.folder))}  ({facts})", soft_wrap=True)
