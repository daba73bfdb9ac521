"""Models that a page may open: runs, their untrained twins, Hugging Face folders, saved memories.

A page names what the folder of runs holds or what was given on the command line, never a path.
"""

from __future__ import annotations

from pathlib import Path

from mnemoscope.chat.models import ChatModel, open_chat
from mnemoscope.core.errors import UserError
from mnemoscope.scope import huggingface_models, native_models, run_index
from mnemoscope.scope.served import ServedModel
from mnemoscope.training.run import Run


def served_model(identity: str, root: Path, given: list[str]) -> ServedModel:
    """What a page calls ``run:a/b``, ``untrained:a/b``, ``huggingface:a``, ``documents:a``,
    ``infinite:a`` or ``given:0``.
    """
    kind, _, name = identity.partition(":")
    if kind == "given" and name.isdecimal() and int(name) < len(given):
        return _given(given[int(name)])
    if kind not in ("run", "untrained", "huggingface", *run_index.ATTACHED):
        raise UserError(f"there is no model {identity[:80]!r} here")
    path = run_index.find(root, name, "run" if kind == "untrained" else kind).path
    if kind in run_index.ATTACHED:
        return huggingface_models.attached(path, name, kind, [*given, str(root.resolve())])
    if kind == "huggingface":
        return huggingface_models.served(str(path), name)
    return native_models.served(path, name, trained=kind == "run")


def chat_model(identity: str, root: Path, given: list[str], memory: str | None) -> ChatModel:
    """The same to be talked to: a run of the task dialogue, a causal model, a memory on one."""
    kind, _, name = identity.partition(":")
    if kind == "given" and name.isdecimal() and int(name) < len(given):
        return open_chat(given[int(name)], memory)
    if kind not in ("run", "huggingface", "infinite"):
        raise UserError(f"{identity[:80]!r} cannot be talked to: choose a run or a causal model")
    path = run_index.find(root, name, kind).path
    if kind == "run":
        native_models.check_size(Run.open(path), path)
    if kind == "infinite":
        huggingface_models.allowed_base(path, name, kind, [*given, str(root.resolve())])
    return open_chat(str(path), memory)


def _given(source: str) -> ServedModel:
    path = Path(source)
    kind = run_index.kind_of(run_index.files_of(path)) if path.is_dir() else None
    if kind == "run":
        return native_models.served(path, path.name, trained=True)
    if kind in run_index.ATTACHED:
        return huggingface_models.attached(path, path.name, kind, None)
    return huggingface_models.served(source, path.name if path.is_dir() else source)
