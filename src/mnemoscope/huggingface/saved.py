"""What a saved memory says of itself, checked before any of it is used.

A memory is two files: its tensors, and a config beside them. Memories of version 0.1 have the same
config in the head of the first file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from torch import Tensor

from mnemoscope.core.aliases import canonical, stored
from mnemoscope.core.bounded import read_text
from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import write_whole
from mnemoscope.core.stored import FORMAT, check_format
from mnemoscope.huggingface import bases
from mnemoscope.huggingface.config import (
    DocumentOptions,
    Fitting,
    Guidance,
    InfiniteOptions,
    TransformerXLOptions,
)
from mnemoscope.huggingface.texts import check_cutting
from mnemoscope.memories.documents.tfidf import SHINGLE
from mnemoscope.memories.state import read_tensors, write_tensors

REMEDY = "save the memory again, or copy it from where it came"
FREQUENCIES = "frequencies"
DOCUMENTS, INFINITE = "documents.safetensors", "endless.safetensors"
CONFIGS = {DOCUMENTS: "documents_config.json", INFINITE: "infinite_config.json"}
# As many names of documents as the head of a file of tensors had room for.
MOST_CONFIG = 8 * 2**20
# More than any document that can be recited.
MOST_TOKENS = 10**7
# By the names that `ms.attach` knows them by.
OPTIONS: dict[str, type[Config]] = {
    "documents": DocumentOptions,
    "infinite": InfiniteOptions,
    "transformer_xl": TransformerXLOptions,
}
Shape = tuple[int, ...]
Chosen = TypeVar("Chosen", bound=Config)
About = TypeVar("About", "SavedDocuments", "SavedInfinite")


def _kind(word: Any) -> Any:
    return canonical("attached", word) if isinstance(word, str) else word


class SavedMemory(BaseModel):
    """What stands in the config of every memory; the base is known by name and fingerprint."""

    model_config = ConfigDict(strict=True)

    format: int = 0
    options: dict[str, Any]
    base: str = Field(validation_alias=AliasChoices("base_fingerprint", "base"))
    model: str = Field(validation_alias=AliasChoices("base_model_name_or_path", "model"))
    # Not said by version 0.1.
    architecture: str = ""
    width: int | None = None


class SavedDocuments(SavedMemory):
    """The config of a document memory."""

    kind: Literal["documents"] = "documents"
    names: list[str]
    # The first memories did not say how texts begin, were cut, or were learnt.
    beginnings: dict[str, tuple[int, int]] = {}
    cutting: dict[str, int] = {}
    guidance: dict[str, Any] = {}
    fitting: dict[str, Any] = {}
    width: int


class SavedInfinite(SavedMemory):
    """The config of a long-term memory."""

    kind: Annotated[Literal["infinite", "transformer_xl"], BeforeValidator(_kind)]


def write_memory(path: Path, tensors: dict[str, Tensor], about: dict[str, Any], base: Any) -> Path:
    """Write the two files of a memory, and the folders they are in."""
    content = {"format": FORMAT, **bases.facts_of(base), **about}
    write_whole(path.parent / CONFIGS[path.name], json.dumps(content, indent=2).encode())
    write_tensors(path, tensors, {})
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
    kind = OPTIONS[about.kind]
    about.options = stored(kind.model_fields, about.options)
    options_of(path, kind, about.options)
    return tensors, about.model_dump()


READ = {"documents": read_documents, "infinite": read_infinite}


def kind_of(folder: str | Path) -> str | None:
    """Which memory a folder holds, documents or infinite (Transformer-XL's too); None if none."""
    files = {"documents": DOCUMENTS, "infinite": INFINITE}
    # Of os.path, which has an answer whatever the name: too long, or with a NUL in it.
    held = (kind for kind, file in files.items() if os.path.isfile(Path(folder) / file))
    return next(held, None)


def base_of(folder: str | Path, kind: str, given: Any = None) -> Any:
    """The model to attach a saved memory to: the one that is ``given``, or where it is."""
    about = READ[kind](folder)[1]  # so that a damaged memory shows before a model is loaded
    return bases.find(Path(folder), about) if given is None else given


def _read(path: Path, word: str, kind: type[About]) -> tuple[dict[str, Tensor], About]:
    """The tensors of a memory, all of them finite, and what is said about them as ``kind``."""
    tensors, metadata = read_tensors(path)
    config = path.parent / CONFIGS[path.name]
    if word in metadata:
        said = metadata[word]
    elif os.path.exists(config):
        said = read_text(config, MOST_CONFIG)
    else:
        raise UserError(f"{path.parent} holds no {word} memory: {config.name} is missing")
    try:
        about = kind.model_validate_json(said)
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
    odd = [count for _, count in about.beginnings.values() if not 2 <= count <= MOST_TOKENS]
    if odd or not about.beginnings.keys() <= set(about.names):
        raise damaged(path, "beginnings of documents that are not there, or of no length")
    if about.cutting:
        try:
            check_cutting(**about.cutting)
        except (UserError, TypeError):
            raise damaged(path, f"texts cannot have been cut by {about.cutting}") from None
    options_of(path, Guidance, about.guidance)
    options_of(path, Fitting, about.fitting)
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
    if FREQUENCIES in found:  # as many as there are words; the first memories have none
        run = {"tfidf": 1, "shingles": SHINGLE}.get(options.start, -1)
        wanted[FREQUENCIES] = (found[FREQUENCIES][0], run + 1)
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name) != wanted.get(name):
            raise damaged(path, f"{name} is {found.get(name)}, wanted is {wanted.get(name)}")


def damaged(path: Path, why: str) -> UserError:
    """What to say of a file that says what cannot be."""
    return UserError(f"{path} is damaged ({why}): {REMEDY}")
