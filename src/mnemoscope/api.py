"""What a user types: ``ms.build``, ``ms.train``, ``ms.load``, ``ms.lens``, ``ms.study``."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope import shipped
from mnemoscope.core.aliases import canonical
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.nearby import refuse_missing
from mnemoscope.core.registry import ATTACHED, find, model_kind
from mnemoscope.core.trust import Modules, trusting
from mnemoscope.publish import Published as Published
from mnemoscope.publish import lens as lens
from mnemoscope.shipped import study as study
from mnemoscope.studies.folder import MARK, RESULT
from mnemoscope.training.asked import resolve

if TYPE_CHECKING:
    from mnemoscope.checks.result import CheckResult
    from mnemoscope.memories.config import ModelConfig
    from mnemoscope.models.generation import Generated
    from mnemoscope.models.inputs import Inputs
    from mnemoscope.models.model import SequenceModel
    from mnemoscope.models.stream import Stream
    from mnemoscope.models.translator import Translator
    from mnemoscope.training.run import Run


# What a result is called that was too large to be shipped as it is.
PACKED = f"{RESULT}.gz"


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

    return InfiniteMemory(model, chosen_past, tokenizer)


def resume(folder: str | Path, *, trust: Modules = None) -> Run:
    """Continue a run that was stopped, to the same weights as if it had not been."""
    from mnemoscope.training import loop

    with trusting(trust):
        return loop.resume(folder)


def load(path: str | Path, *, base: Any = None, trust: Modules = None) -> Any:
    """Return whatever was saved there, ready to be used.

    Of a run its model, of a study or lens its result, of a saved state the `State`, of an attached
    memory the memory on its base (``base``, or the one that it was saved with), of a folder or name
    of Hugging Face the model. A memory or task that is not ours is imported only when ``trust``
    names its module.
    """
    refuse_missing(path)
    where = Path(os.path.expanduser(path))
    results = [where] if where.name.startswith(RESULT) else [where / RESULT, where / PACKED]
    found = next((one for one in results if os.path.isfile(one)), None)
    if base is None and found is not None:
        return shipped.read(found).result
    if os.path.isfile(where / MARK):
        raise UserError(f"{path} is a study without a result yet: start it again to continue it")
    if base is None and os.path.isfile(where):
        from mnemoscope.memories.state import State

        return State.load(where)
    if base is None and os.path.isfile(where / "config.yaml"):
        from mnemoscope.training.run import Run

        with trusting(trust):
            return Run.open(where).model()
    # No name on a hub: nobody is to wait for a network to be told so.
    if not os.path.lexists(where) and path in shipped.shipped():
        raise UserError(f"{path} is a result that comes with mnemoscope: ms.show({path!r}).result")
    from mnemoscope.open import open_model

    opened = open_model(path, base=base)
    return opened.model if opened.memory is None else opened.memory


def show(name: str | Path, out: str | Path | None = None) -> Published:
    """Draw the page of a result that comes with the package, or of a study's or lens's folder.

    ``show("retention").open()`` shows it in the browser, and its ``result`` is what it was drawn
    from. Nothing is trained.
    """
    return shipped.show(name, out)


def stream(source: Any, *, trust: Modules = None, **options: Any) -> Stream:
    """Return any model behind one call: ``stream("gpt2").read(tokens).state.nbytes``.

    ``source`` is a model of ours or of `transformers`, a memory attached to one, the folder of any
    of them, a name on the hub, or the name of a memory with its options. A saved document memory
    reads under ``document``; ``base`` is the model of a saved memory that does not say which.

    ``stream(model, cache="window", budget=64)`` lets a model of `transformers` carry a compressed
    cache: full, window, random, h2o, snapkv or quantised, with the options of that cache.
    """
    from mnemoscope.open import open_stream

    with trusting(trust):
        return open_stream(source, **options)


def check(
    model: Any,
    out: str | Path | None = None,
    *,
    only: Sequence[str] | None = None,
    trust: Modules = None,
    tokens: int = 24,
    seed: int = 0,
    **options: Any,
) -> CheckResult:
    """Ask a model for its promises about state: ``print(check(model).text())``.

    ``model`` is whatever `stream` takes, or any callable ``(tokens, state) -> (logits, state)``,
    which must say how many token ids it reads: ``vocab=``. ``only`` names some of the promises,
    ``declared`` the bytes that one stream is said to have after the tokens, or a function of them.
    With ``out`` a page is written there.
    """
    from mnemoscope.checks.page import Check

    chosen = Check.make(tokens=tokens, seed=seed)
    from mnemoscope.checks import measure
    from mnemoscope.publish import keep_check
    from mnemoscope.studies.trials import cpu_seconds

    began, before = time.perf_counter(), cpu_seconds()
    with trusting(trust):
        result = measure.check(model, only=only, tokens=tokens, seed=seed, **options)
    if out is not None:
        spent = time.perf_counter() - began, cpu_seconds() - before
        command = f"ms.check({model!r})" if isinstance(model, str | Path) else "ms.check(model)"
        keep_check(result, out, command, chosen, spent)
    return result


def generate(
    model: Any,
    prompt: Inputs,
    steps: int,
    *,
    tokenizer: Any = None,
    trust: Modules = None,
    **options: Any,
) -> Generated:
    """Let a model read a prompt and say ``steps`` tokens: ``generate("runs/a", "The ", 80).texts``.

    ``model`` is whatever `stream` takes, ``prompt`` a text, token ids or a tensor (B, T) of them.
    ``temperature=0`` is greedy. ``top_k`` keeps the k likeliest tokens, ``top_p`` the likeliest
    whose probabilities reach p; ``generator`` is torch's, which draws. After ``stop`` a row says
    nothing but ``stop``. The last token said has not been read: feed it with ``state=`` that of
    the result to continue.
    """
    from torch import nn

    from mnemoscope.models import generation
    from mnemoscope.models.evaluating import evaluating
    from mnemoscope.models.inputs import as_list, token_batch
    from mnemoscope.models.model import SequenceModel
    from mnemoscope.open import open_model

    # What is opened is put into evaluation mode; a model that somebody trains goes on training.
    with trusting(trust), evaluating(model) if isinstance(model, nn.Module) else nullcontext():
        text = isinstance(as_list(prompt)[0], str)
        reader = open_model(model, tokenizer=tokenizer, text=text)
        tokens = token_batch(prompt, reader.encode, reader.name).to(reader.device)
        native = isinstance(reader.model, SequenceModel)
        call: Any = reader.model if native else reader.stream().call
        said = generation.generate(call, tokens, steps, **options)
    return replace(said, texts=reader.texts(said.tokens))


def translator(folder: str | Path, *, trust: Modules = None) -> Translator:
    """Return what a run on translation learnt: ``translator("runs/a")(["I see."])``."""
    from mnemoscope.training.run import Run

    with trusting(trust):
        return Run.open(folder).translator()
