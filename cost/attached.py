"""What studies cost that train models of transformers, or memories attached to them.

They do not say beforehand what they train, so it is worked out here from their options; times are
of their own code with few steps. Operations are those that torch counts.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from cost.steps import Kind, Started, Step, along
from mnemoscope.huggingface.config import DocumentOptions, Fitting, Guidance
from mnemoscope.huggingface.documents.fitting import Course
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.texts import Documents
from mnemoscope.studies.caches import small
from mnemoscope.studies.caches.study import CachesStudy
from mnemoscope.studies.documents import base
from mnemoscope.studies.documents.settings import MANY_SEGMENT, MANY_SEGMENTS, Setting
from mnemoscope.studies.documents.study import DocumentsStudy
from mnemoscope.studies.infinite.measure import measure
from mnemoscope.studies.infinite.study import InfiniteStudy, Text

# pythia-1b, which the study `documents` reads: its weights are drawn, its shape is this.
PYTHIA_BLOCKS = 16
PYTHIA: dict[str, Any] = {
    "vocab_size": 50_304, "hidden_size": 2048, "intermediate_size": 8192,
    "num_attention_heads": 8, "max_position_embeddings": 2048,
}  # fmt: skip
# Numbers of steps between which what has no steps cancels out.
FEW, MORE = 4, 20
# Kinds of memory of the study `infinite` that learn anything.
LEARNING = 2


def caches(home: Path) -> list[Kind]:
    """Small Llamas that learn to repeat."""
    study = CachesStudy.preset("paper")
    # Its passages grow while it learns: a few steps have all lengths, as many have.
    step = between(lambda steps: small.train(steps, study.context, 0))
    model = small.train(1, study.context, 0)
    return [_kind("caches", "small Llama", (study.steps,) * study.seeds, model, step, small.TOKENS)]


def infinite(home: Path) -> list[Kind]:
    """The models that single windows are learnt by, then memories attached to them."""
    study = InfiniteStudy.preset("paper")
    brief = study.model_copy(update={"base_steps": 1, "read": 2, "topic_read": 200})
    topics = base.untrained(base.WORDS, base.WIDTH, base.LAYERS, base.POSITIONS, 0)
    made_up = base.untrained(study.vocab_size, 64, 2, 2 * study.window, 0)
    found = []
    for name, model, count, shape in (
        ("small GPT-NeoX", topics, 1, (base.ROWS, base.LENGTH)),
        ("GPT-NeoX, made-up text", made_up, study.seeds, (64, study.window)),
    ):
        ids = torch.randint(study.vocab_size, shape)

        def trained(steps: int, model: Any = model, ids: torch.Tensor = ids) -> None:
            base.train(model, lambda _: ids, steps, "a step is timed")

        step = between(trained)
        steps = (study.base_steps,) * count
        found.append(_kind("infinite", name, steps, model, step, ids.numel()))
    texts: tuple[tuple[Text, Any, int], ...] = (
        ("made-up", made_up, study.window),
        ("topics", topics, study.topic_window),
    )
    for text, model, window in texts:

        def run(steps: int, text: str = text) -> None:
            measure(brief.model_copy(update={"steps": steps}), home, f"{text} seed 0")

        both = between(run)
        step = Step(both.seconds / LEARNING, both.flops / LEARNING, both.started / LEARNING)
        steps = (study.steps,) * (LEARNING * study.seeds)
        rows = study.streams * window
        found.append(_kind("infinite", f"memory of {text}", steps, model, step, rows, frozen=True))
    return found


def documents(home: Path) -> list[Kind]:
    """Memories behind blocks of pythia-1b: what is below them is computed once."""
    study = DocumentsStudy.preset("paper")
    depths = (0, 1)  # blocks above the memory
    rows = [_row(study, above) for above in depths]
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for setting in study.settings():
        behind = study.layers[-1] if setting.layer is None else setting.layer
        read, count = _reads(study, setting)
        groups[PYTHIA_BLOCKS - 1 - behind, read] += [count] * study.seeds
    size = GPTNeoXConfig(num_hidden_layers=PYTHIA_BLOCKS, **PYTHIA)
    with torch.device("meta"):
        model = GPTNeoXForCausalLM(size)
    found = []
    for (above, read), steps in sorted(groups.items()):
        values = [(one.seconds, one.flops) for one in rows]
        seconds, flops = (
            read / study.segment * along(depths, one, above) for one in zip(*values, strict=True)
        )
        started = along(depths, [one.started for one in rows], above)
        name = f"memory behind block {PYTHIA_BLOCKS - 1 - above} of pythia-1b, {read} tokens a step"
        step = Step(seconds, flops, started)
        found.append(_kind("documents", name, tuple(steps), model, step, read, frozen=True))
    return found


def _reads(study: DocumentsStudy, setting: Setting) -> tuple[int, int]:
    """Tokens that a step of a setting reads, under wrong documents too, and its steps."""
    count, segments, length = setting.count or study.documents, study.segments, study.segment
    epochs, batch = study.epochs, study.batch
    if setting.documents is not None:
        count, segments, length = setting.documents, MANY_SEGMENTS, MANY_SEGMENT
        epochs = study.many_epochs
    if setting.count is not None:
        batch = setting.count * segments
    return batch * length * (2 if setting.alpha else 1), epochs * math.ceil(
        count * segments / batch
    )


def _row(study: DocumentsStudy, above: int) -> Step:
    """A segment read with one document and back to the memory, so many blocks above it."""
    size = GPTNeoXConfig(num_hidden_layers=2, bos_token_id=None, eos_token_id=None, **PYTHIA)
    model = GPTNeoXForCausalLM(size).eval()
    ids = torch.randint(size.vocab_size, (2, study.segment))
    texts = {str(n): row.tolist() for n, row in enumerate(ids)}
    given = Documents(texts, segment=study.segment)
    memory = DocumentMemory(model, DocumentOptions(layer=1 - above, entries=study.entries))
    memory.start(given)
    guidance = Guidance(alpha=0.0)
    course = Course(memory, Reader(memory, given, keep=True), given, guidance, 0.0, Fitting())

    def step(_: int = 0) -> None:
        right, _pushed, _wrong = course.both_terms(torch.tensor([0]))
        torch.autograd.backward(right)

    step()
    return Step(_spent(step, 0), *_counted(step, 0))


def between(run: Callable[[int], Any]) -> Step:
    """What each step more costs of something that also does what has no steps."""
    run(1)  # what is loaded or trained once
    seconds = [_spent(run, steps) for steps in (FEW, MORE)]
    flops, started = zip(*(_counted(run, steps) for steps in (FEW, MORE)), strict=True)
    each = [max(0.0, more - few) / (MORE - FEW) for few, more in (seconds, flops, started)]
    return Step(each[0], each[1], each[2])


def _spent(run: Callable[[int], Any], steps: int) -> float:
    # CPU time of the one thread: the machine may have other work meanwhile.
    began = time.process_time()
    run(steps)
    return time.process_time() - began


def _counted(run: Callable[[int], Any], steps: int) -> tuple[float, float]:
    with Started() as started, FlopCounterMode(display=False) as flops:
        run(steps)
    return float(flops.get_total_flops()), float(started.count)


def _kind(
    study: str,
    name: str,
    steps: tuple[int, ...],
    model: Any,
    step: Step,
    tokens: int,
    frozen: bool = False,
) -> Kind:
    """With the bytes of its weights and of what a step keeps of every token."""
    size = model.config
    weights = sum(weight.numel() for weight in model.parameters())
    kept = tokens * (size.num_hidden_layers * size.hidden_size + size.vocab_size)
    # What learns has gradients and two moments too.
    held = 4 * ((1 if frozen else 4) * weights + kept)
    return Kind(study, name, steps, weights, replace(step, bytes=held))


STUDIES = {"caches": caches, "documents": documents, "infinite": infinite}
