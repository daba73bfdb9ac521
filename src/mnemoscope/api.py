"""What a user types: ``ms.build``, ``ms.train``, ``ms.load``, ``ms.lens``, ``ms.study``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope.core.aliases import canonical
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import ATTACHED, find, model_kind
from mnemoscope.core.trust import Modules, trusting
from mnemoscope.publish import Published, lens, study
from mnemoscope.training.asked import resolve

if TYPE_CHECKING:
    from mnemoscope.memories.config import ModelConfig
    from mnemoscope.models.model import SequenceModel
    from mnemoscope.models.stream import Stream
    from mnemoscope.models.translator import Translator
    from mnemoscope.training.run import Run

__all__ = [
    "Published",
    "attach",
    "build",
    "lens",
    "load",
    "resume",
    "stream",
    "study",
    "train",
    "translator",
]


def build(
    memory: str | type[ModelConfig], *, trust: Modules = None, **options: Any
) -> SequenceModel:
    """Return a fresh model: ``build("lstm", vocab=20, width=64)``. ``vocab`` is required.

    Models that translate are built by their names as well, and need a ``source_vocab`` too. A
    memory that is not ours is given as its config class, or by its path ``module:Name``; then
    ``trust`` must name the module.
    """
    with trusting(trust):
        # A Transformer that is given a source is the one that translates.
        sort = "translator" if "source_vocab" in options else ""
        kind = find(sort or model_kind(memory), memory) if isinstance(memory, str) else memory
    model: SequenceModel = kind.make(**options).build()
    return model


def train(
    task: str | Path,
    model: str | type[ModelConfig] | SequenceModel | None = None,
    out: str | Path | None = None,
    *,
    trust: Modules = None,
    **options: Any,
) -> Run:
    """Train a memory by name, or a model that exists, on a task; leaves a run in ``out``.

    Options belong to the task, the model or the training, by plain name: ``lag=50, steps=2000``.
    A YAML file such as a run's config.yaml can stand for task and model; options change it.
    Without ``out`` the first free of runs/TASK-MEMORY, runs/TASK-MEMORY-2 … is taken.
    ``trust`` names modules that tasks and memories named ``module:Name`` may be imported from.
    """
    with trusting(trust):
        config, start = resolve(task, model, options)
    # Whatever is wrong with the options shows here; only then comes torch, which takes its time.
    config.check()
    from mnemoscope.training import loop

    return loop.train(config, out or _free_folder(f"{config.task_name}-{config.memory}"), start)


def _free_folder(name: str) -> Path:
    safe = name.replace(":", "-").replace("/", "-")
    names = itertools.chain([safe], (f"{safe}-{number}" for number in itertools.count(2)))
    return next(path for path in (Path("runs") / one for one in names) if not path.exists())


def attach(model: Any, memory: str, *, tokenizer: Any = None, **options: Any) -> Any:
    """Give a causal language model of `transformers` a memory.

    ``memory`` is documents, infinite or transformer_xl:

    ``attach(model, "documents", layer=15, entries=32)`` returns a `DocumentMemory`, the other two
    an `InfiniteMemory`; ``detach()`` of either gives the model back as it was.
    """
    memory = canonical("attached", memory)
    if memory not in ATTACHED:
        raise UserError(f"cannot attach {memory!r}; {suggestion(memory, ATTACHED)}")
    from mnemoscope.huggingface import config as known

    if memory == "documents":
        chosen = known.DocumentOptions.make(**options)
        from mnemoscope.huggingface.documents.memory import DocumentMemory

        return DocumentMemory(model, chosen, tokenizer)
    kind = known.InfiniteOptions if memory == "infinite" else known.TransformerXLOptions
    chosen_past = kind.make(**options)
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory

    return InfiniteMemory(model, chosen_past)


def resume(folder: str | Path, *, trust: Modules = None) -> Run:
    """Go on with a run that was stopped, to the same weights as if it had not been."""
    from mnemoscope.training import loop

    with trusting(trust):
        return loop.resume(folder)


def load(folder: str | Path, *, trust: Modules = None) -> SequenceModel:
    """Return the model of a run, ready to be used.

    A memory or task that is not ours is imported only when ``trust`` names its module.
    """
    from mnemoscope.training.run import Run

    with trusting(trust):
        return Run.open(folder).model()


def stream(source: Any, *, trust: Modules = None, **options: Any) -> Stream:
    """Return any model behind one call: ``stream("gpt2").read(tokens).state.nbytes``.

    ``source`` is a model of ours or of `transformers`, a memory attached to one, the folder of any
    of them, a name on the hub, or the name of a memory with its options. A saved document memory
    reads under ``document``; ``base`` is the model of a saved memory that does not say which.
    """
    from mnemoscope.open import open_stream

    with trusting(trust):
        return open_stream(source, **options)


def translator(folder: str | Path, *, trust: Modules = None) -> Translator:
    """Return what a run on translation learnt: ``translator("runs/a")(["I see."])``."""
    from mnemoscope.training.run import Run

    with trusting(trust):
        return Run.open(folder).translator()
