"""Models that a page may open: runs, their untrained twins, Hugging Face folders, documents.

A page names what the folder of runs holds or what was given on the command line, never a path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS
from mnemoscope.data.vocabulary import Ints
from mnemoscope.huggingface import saved
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.loading import architecture
from mnemoscope.models.encoder.model import EncoderModel
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.open import Reader, open_attached, open_model
from mnemoscope.scope import run_index
from mnemoscope.scope.folder import inside
from mnemoscope.scope.frame import Step
from mnemoscope.scope.huggingface_stream import HuggingFacePageStream
from mnemoscope.scope.native_stream import NativePageStream
from mnemoscope.scope.records import is_file
from mnemoscope.training.run import Run

Json = dict[str, Any]

# How families of tokenizers write a space and a line break inside a token.
SHOWN = {"Ġ": " ", "▁": " ", "Ċ": "\n", "<0x0A>": "\n"}


class PageStream(Protocol):
    """Reads on from where it is."""

    def step(self, tokens: Tensor) -> Step:
        """Read tokens (T,) and say what was seen."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that a page reads with, and how text becomes what it reads.

    encode  text -> token ids
    show    token id -> what the page writes for it
    start   a new stream, under the named document if there are documents
    limit   most tokens one stream can have, None when there is no end
    """

    about: Json
    encode: Callable[[str], Ints]
    show: Callable[[int], str]
    start: Callable[[str | None], PageStream]
    limit: int | None


def served_model(identity: str, root: Path, given: list[str]) -> ServedModel:
    """What a page calls ``run:a/b``, ``untrained:a/b``, ``huggingface:a``, ``documents:a`` or
    ``given:0``.
    """
    kind, _, name = identity.partition(":")
    if kind == "given":
        if not name.isdecimal() or int(name) >= len(given):
            raise UserError(f"there is no model {identity[:80]!r} here")
        return _given(given[int(name)])
    if kind not in ("run", "untrained", "huggingface", "documents"):
        raise UserError(f"there is no model {identity[:80]!r} here")
    item = run_index.find(root, name, "run" if kind == "untrained" else kind)
    if kind == "documents":
        return _documents(item.path, name, [*given, str(root.resolve())])
    if kind == "huggingface":
        return _huggingface(str(item.path), name)
    return _run(item.path, name, trained=kind == "run")


def _given(source: str) -> ServedModel:
    path = Path(source)
    if not path.is_dir():
        return _huggingface(source, source)
    kind = run_index.kind_of(run_index.files_of(path))
    if kind == "run":
        return _run(path, path.name, trained=True)
    if kind == "documents":
        return _documents(path, path.name, None)
    if saved.kind_of(path) is not None:
        raise UserError(
            f"{path.name} is a long-term memory, which the page does not show: look at it with "
            "mnemoscope infinite worth, or at what it carries with mnemoscope state"
        )
    return _huggingface(source, path.name)


def _run(folder: Path, name: str, trained: bool) -> ServedModel:
    run = Run.open(folder)
    _check_size(run, folder)
    reader = open_model(run)
    model = reader.model if trained else run.untrained().eval()
    if isinstance(model, SourceModel | EncoderModel) or not isinstance(model, SequenceModel):
        raise UserError(
            f"{name} is a {run.config.memory}: it reads a whole source at once and carries nothing "
            "from one segment to the next; look at it with mnemoscope lens"
        )
    config = model.config
    encode = reader.encode
    label = KINDS["memory"][run.config.memory].label if run.config.memory in KINDS["memory"] else ""
    about = {
        "name": name if trained else f"{name}, untrained",
        "label": label or run.config.memory,
        "trained": trained,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "symbols": None if encode else config.vocab,
        "documents": [],
        "example": "" if encode else _example(run),
    }
    reads = (lambda text: encode([text])[0]) if encode else _numbers(config.vocab)
    return ServedModel(
        about,
        reads,
        reader.decode,
        lambda _: NativePageStream(model, encode is not None),
        reader.limit,
    )


def _check_size(run: Run, folder: Path) -> None:
    """Refuse settings of a model far larger than its weights, before it takes all the memory."""
    model = run.config.model
    # Less than any of our models has: a square a layer, a row a token.
    least = model.layers * model.width**2 + model.vocab * model.width
    kept = [folder / "model.safetensors", *folder.glob("checkpoints/*/model.safetensors")]
    held = sum(path.stat().st_size for path in kept if is_file(path))
    if least > held:
        raise UserError(
            f"config.yaml describes a model of at least {least} numbers, but the weights beside "
            f"it have {held} bytes: one of them belongs to another run"
        )


def _example(run: Run) -> str:
    """An episode of the task, where it needs no data that may be gone."""
    try:
        tokens = run.config.task.batch(0, 1, seed=0, split="valid", length=128).tokens[0]
    except (UserError, OSError):
        return ""
    return " ".join(map(str, tokens[:1024].tolist()))


def _numbers(vocab: int) -> Callable[[str], Ints]:
    def encode(text: str) -> Ints:
        words = text.replace(",", " ").split()
        for word in words:
            if not (word.isdecimal() and len(word) < 10 and int(word) < vocab):
                raise UserError(
                    f"{word[:20]!r} is no token: this model reads numbers from 0 to {vocab - 1}, "
                    "parted by spaces"
                )
        return np.array([int(word) for word in words], dtype=np.int64)

    return encode


def _check_causal(source: str) -> None:
    """Refuse, before any weight is read, a model that has no stream."""
    named = architecture(source)
    if not any(word in named for word in ("CausalLM", "LMHeadModel")):
        raise UserError(
            f"{Path(source).name} ({named or 'unknown'}) is no causal language model: it carries "
            "nothing from one segment to the next; look at it with mnemoscope lens"
        )


def _huggingface(source: str, name: str) -> ServedModel:
    _check_causal(source)
    reader = open_model(source, text=True)
    return _causal(reader, name, type(reader.model).__name__)


def _documents(folder: Path, name: str, allowed: list[str] | None) -> ServedModel:
    base = saved.base_of(folder, "documents")
    # The file says which model it is for; it may not choose one that nobody put here.
    if allowed is not None and not any(_same(base, one) for one in allowed):
        raise UserError(
            f"{name} was learnt on {base}, which is not in the folder of runs: start scope with "
            "--model and that model"
        )
    _check_causal(base)
    return _causal(open_attached(folder, "documents", base, text=True), name, "Document memory")


def _same(base: str, allowed: str) -> bool:
    try:
        inside(Path(allowed), str(Path(base).resolve()))
    except UserError:
        return base == allowed
    return True


def _causal(reader: Reader, name: str, label: str) -> ServedModel:
    memory = reader.memory if isinstance(reader.memory, DocumentMemory) else None
    encode = reader.encode
    assert encode is not None

    def show(token: int) -> str:
        text = reader.decode(token)
        for mark, meant in SHOWN.items():
            text = text.replace(mark, meant)
        return text

    about = {
        "name": name,
        "label": label,
        "trained": True,
        "parameters": sum(weight.numel() for weight in reader.model.parameters()),
        "symbols": None,
        "documents": list(memory.names) if memory is not None else [],
        "example": "",
    }
    return ServedModel(
        about,
        lambda text: encode([text])[0],
        show,
        lambda document: HuggingFacePageStream(reader.model, memory, document),
        reader.limit,
    )
