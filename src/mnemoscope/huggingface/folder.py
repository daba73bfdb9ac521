"""The folder of a Hugging Face model, looked at before `transformers` trusts it.

Only small files and the heads of large ones are read, so a mistake shows at once.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope.core import bounded
from mnemoscope.core.errors import UserError
from mnemoscope.core.nearby import refuse_missing

CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")
AGAIN = "copy the model again from where it came"
SAVE_ONE = "save one beside the model, with tokenizer.save_pretrained(folder)"
# What the names of a tokenizer's files hold, whatever its kind.
TOKENIZERS = ("token", "vocab", "merges", ".model", ".spm", "tekken")
MOST_CONFIG, MOST_INDEX, MOST_HEAD = 4 * 2**20, 64 * 2**20, 100 * 2**20
# Large vocabularies take 35 MB.
MOST_TOKENIZER = 256 * 2**20
# Modules that a config may ask for when its weights hold fewer tensors than this.
FEW_MODULES = 1000
_COUNTS = re.compile(r"(n|num)_(.*_)?(layers?|blocks?|experts)|depth")
_HUB_NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")


@dataclass(frozen=True)
class Held:
    """What the weights of a folder amount to."""

    tensors: int
    nbytes: int


def find_folder(name: str) -> Path | None:
    """The folder that a name means; None when it can only be a name on the hub."""
    if not name.strip():
        raise UserError("the name of the model is empty: give a folder or a name on the hub")
    # Of os.path, whose questions have an answer whatever the name: too long, or with a NUL in it.
    path = os.path.expanduser(name)
    if os.path.isdir(path):
        return Path(path)
    refuse_missing(name)
    if os.path.lexists(path) or not _HUB_NAME.fullmatch(name):
        raise UserError(
            f"cannot load {name[:200]!r}: it is not a folder with a model (the hub is asked for "
            "names such as OWNER/NAME only, if they do not look like a path)"
        )
    return None


def check_folder(folder: Path) -> Held:
    """Say how much the weights of a folder hold, or what is wrong with its files."""
    config = read_config(folder)
    held = [_head(path) for path in _weights(folder, config)]
    whole = Held(sum(one.tensors for one in held), sum(one.nbytes for one in held))
    _check_counts(folder / CONFIG, config, max(FEW_MODULES, whole.tensors))
    return whole


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json says, as far as it makes sense to read on."""
    path = folder / CONFIG
    if (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{folder} holds an adapter: merge it into its model (merge_and_unload) and save that"
        )
    if not path.is_file():
        raise UserError(
            f"{folder} is neither a run (config.yaml) nor a Hugging Face model (config.json)"
        )
    config = bounded.read_json(path, AGAIN, MOST_CONFIG)
    if not isinstance(config, dict):
        raise UserError(f"{path} is damaged (a {type(config).__name__}, not an object): {AGAIN}")
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise UserError(f"{path} does not say its model_type, such as 'llama': {AGAIN}")
    named = config.get("architectures")
    if named is not None and not (
        isinstance(named, list) and all(isinstance(one, str) for one in named)
    ):
        raise UserError(f"{path} is damaged (architectures is no list of names): {AGAIN}")
    for key in ("attn_implementation", "_attn_implementation", "experts_implementation"):
        if "/" in str(config.get(key)):
            raise UserError(
                f"{path} asks for code from a hub ({key}={config[key]!r}), which is never run: "
                "take that line out"
            )
    return config


def check_tokenizer(folder: Path) -> None:
    """Refuse a folder without the files of a tokenizer, or with some too large to be ones."""
    found = [path for path in sorted(folder.iterdir()) if path.is_file()]
    parts = [path for path in found if any(word in path.name for word in TOKENIZERS)]
    if not parts:
        raise UserError(f"{folder} has no tokenizer: {SAVE_ONE}")
    for path in parts:
        if path.stat().st_size > MOST_TOKENIZER:
            raise UserError(f"{path} has {path.stat().st_size} bytes: no tokenizer is so large")


def _weights(folder: Path, config: dict[str, Any]) -> list[Path]:
    """The safetensors files that will be read, all of them inside the folder."""
    named = config.get("transformers_weights")
    if named is not None:
        _plain_name(named, folder / CONFIG)
    for name in [named] if named else [WEIGHTS, INDEX]:
        path = folder / name
        if not path.is_file():
            continue
        return _shards(path) if name.endswith(".index.json") else [path]
    pickle = next((name for name in PICKLES if (folder / name).is_file()), None)
    if pickle:
        raise UserError(
            f"{folder} has only {pickle}, which can run code when it is read: save the model as "
            "safetensors, with model.save_pretrained(folder) where you trust it"
        )
    raise UserError(f"{folder} has no weights ({named or WEIGHTS}): {AGAIN}")


def _shards(index: Path) -> list[Path]:
    listed = bounded.read_json(index, AGAIN, MOST_INDEX)
    shards = listed.get("weight_map") if isinstance(listed, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise UserError(f"{index} is damaged (it has no weight_map): {AGAIN}")
    names = {_plain_name(name, index) for name in shards.values()}
    missing = sorted(name for name in names if not (index.parent / name).is_file())
    if missing:
        raise UserError(
            f"{index} names {missing[0]}, which is not there ({len(missing)} of {len(names)} files "
            f"are missing): {AGAIN}"
        )
    return [index.parent / name for name in sorted(names)]


def _plain_name(name: Any, where: Path) -> str:
    if not isinstance(name, str) or Path(name).name != name or "\\" in name or "\0" in name:
        raise UserError(f"{where} names {name!r} for weights, which is no file in its folder")
    return name


def _head(path: Path) -> Held:
    """Read the head of a safetensors file; the rest must be as long as it says."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(MOST_HEAD, size - 8):
                raise UserError(f"{path} is damaged or no safetensors file: {AGAIN}")
            tensors = json.loads(file.read(length))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged (its head is no JSON): {AGAIN}") from error
    try:
        ends = [one["data_offsets"][1] for name, one in tensors.items() if name != "__metadata__"]
        end = max(ends, default=0)
        wanted = 8 + length + int(end)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged (its head lists no tensors): {AGAIN}") from error
    if wanted != size:
        said = "is cut short" if size < wanted else "is damaged"
        raise UserError(f"{path} {said}: it has {size} bytes of {wanted}; {AGAIN}")
    return Held(len(ends), int(end))


def _check_counts(path: Path, config: dict[str, Any], most: int) -> None:
    """Refuse a config that asks for modules without end; building them would take for ever."""
    waiting: list[Any] = [config]
    while waiting:
        for key, value in waiting.pop().items():
            if isinstance(value, dict):
                waiting.append(value)
            elif isinstance(value, int) and _COUNTS.fullmatch(key) and not 0 <= value <= most:
                raise UserError(f"{path} says {key}={value}, which its weights are not: {AGAIN}")
