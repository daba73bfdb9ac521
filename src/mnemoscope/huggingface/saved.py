"""What a saved memory says of itself, checked before any of it is used."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from torch import Tensor

from mnemoscope.core.aliases import canonical
from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.stored import FORMAT, check_format
from mnemoscope.huggingface.blocks import fingerprint
from mnemoscope.huggingface.config import DocumentOptions, InfiniteOptions, TransformerXLOptions
from mnemoscope.huggingface.texts import check_cutting
from mnemoscope.memories.state import read_tensors, write_tensors

REMEDY = "save the memory again, or copy it from where it came"
DOCUMENTS, INFINITE = "documents.safetensors", "endless.safetensors"
# By the names that `ms.attach` knows them by.
INFINITE_KINDS: dict[str, type[InfiniteOptions]] = {
    "infinite": InfiniteOptions,
    "transformer_xl": TransformerXLOptions,
}
Shape = tuple[int, ...]
Chosen = TypeVar("Chosen", bound=Config)
About = TypeVar("About", "SavedDocuments", "SavedInfinite")


class SavedDocuments(BaseModel):
    """What stands beside the tensors of a document memory."""

    model_config = ConfigDict(strict=True)

    format: int = 0
    options: dict[str, Any]
    names: list[str]
    cutting: dict[str, int] = {}  # the first memories did not say
    base: str
    model: str
    width: int


def _kind(word: Any) -> Any:
    return canonical("attached", word) if isinstance(word, str) else word


class SavedInfinite(BaseModel):
    """What stands beside the tensors of a long-term memory."""

    model_config = ConfigDict(strict=True)

    format: int = 0
    kind: Annotated[Literal["infinite", "transformer_xl"], BeforeValidator(_kind)]
    options: dict[str, Any]
    base: str
    model: str


def write_memory(path: Path, tensors: dict[str, Tensor], word: str, about: dict[str, Any]) -> Path:
    """Write the file of a memory, and the folders it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, {word: json.dumps({"format": FORMAT, **about})})
    return path


def read_documents(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a document memory and what is said about them, each fitting the other."""
    path = Path(folder) / DOCUMENTS
    tensors, about = _read(path, "documents", SavedDocuments)
    if "bias" in tensors:  # the first memories had no centre
        tensors.setdefault("centre", torch.zeros_like(tensors["bias"]))
    _check_documents(path, tensors, about)
    return tensors, about.model_dump()


def read_infinite(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a long-term memory and what is said about them."""
    path = Path(folder) / INFINITE
    tensors, about = _read(path, "endless", SavedInfinite)
    options_of(path, INFINITE_KINDS[about.kind], about.options)
    return tensors, about.model_dump()


def kind_of(folder: str | Path) -> str | None:
    """Which memory a folder holds, documents or infinite (Transformer-XL's too); None if none."""
    files = {"documents": DOCUMENTS, "infinite": INFINITE}
    # Of os.path, which has an answer whatever the name: too long, or with a NUL in it.
    held = (kind for kind, file in files.items() if os.path.isfile(Path(folder) / file))
    return next(held, None)


def base_of(folder: str | Path, kind: str, given: Any = None) -> Any:
    """The model to attach a saved memory to: the one that is ``given``, or where it is.

    A base that learnt too lies beside its memory; any other is known by its name.
    """
    read = read_documents if kind == "documents" else read_infinite
    name = read(folder)[1]["model"]  # so that a damaged memory shows before a model is loaded
    beside = Path(folder) / "model"
    if given is not None:
        return given
    if os.path.isfile(beside / "config.json"):
        return str(beside)
    if not name:
        raise UserError(
            f"the memory in {folder} does not say which model it is for: give that as base=, or "
            "as --model"
        )
    return name


def facts_of(base: Any) -> dict[str, str]:
    """What is saved of the model that a memory is attached to."""
    return {"base": fingerprint(base), "model": getattr(base.config, "_name_or_path", "")}


def check_base(folder: str | Path, about: Mapping[str, Any], base: Any) -> None:
    """Refuse a model that a saved memory was not attached to."""
    if about["base"] != fingerprint(base):
        raise UserError(
            f"the memory in {folder} was attached to another base model "
            f"({about['model'] or 'without a name'}): load that one"
        )


def _read(path: Path, word: str, kind: type[About]) -> tuple[dict[str, Tensor], About]:
    """The tensors of a memory, all of them finite, and what is said about them as ``kind``."""
    tensors, metadata = read_tensors(path)
    if word not in metadata:
        raise UserError(f"{path.parent} holds no {word} memory")
    try:
        about = kind.model_validate_json(metadata[word])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or word
        raise damaged(path, f"{where}: {first['msg'].lower()}") from None
    check_format(about.format, str(path))
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise damaged(path, f"{name} holds what are no finite numbers")
    return tensors, about


def options_of(path: Path, kind: type[Chosen], values: Mapping[str, Any]) -> Chosen:
    """Options as they were saved."""
    try:
        return kind.make(**values)
    except UserError as error:
        raise damaged(path, str(error).splitlines()[0]) from None


def _check_documents(path: Path, tensors: dict[str, Tensor], about: SavedDocuments) -> None:
    """Refuse tensors that are not what options and names make them; nothing is built before."""
    if len(set(about.names)) != len(about.names) or not all(n.strip() for n in about.names):
        raise damaged(path, "two documents have one name, or none")
    if about.cutting:
        try:
            check_cutting(**about.cutting)
        except (UserError, TypeError):
            raise damaged(path, f"texts cannot have been cut by {about.cutting}") from None
    options = options_of(path, DocumentOptions, about.options)
    entries, keys, count = options.entries, options.key_dim, len(about.names)
    if f"mapping.{options.depth - 1}" not in tensors:
        raise damaged(path, f"depth={options.depth}, but there are fewer layers")
    wanted: dict[str, Shape] = {
        "asking": (entries, about.width),
        "asking_bias": (entries,),
        "values": (about.width, entries),
        "bias": (about.width,),
        "keys": (count, keys),
        "masks": (count if options.control != "none" else 0, entries),
        "centre": (about.width,),
    }
    for layer in range(options.depth):
        wanted[f"mapping.{layer}"] = (entries, entries if layer else keys)
        wanted[f"mapping_bias.{layer}"] = (entries,)
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name) != wanted.get(name):
            raise damaged(path, f"{name} is {found.get(name)}, wanted is {wanted.get(name)}")


def damaged(path: Path, why: str) -> UserError:
    """What to say of a file that says what cannot be."""
    return UserError(f"{path} is damaged ({why}): {REMEDY}")
