"""Keep what was captured in files: one safetensors file a site, filled and read row by row."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.batches import to_batches
from mnemoscope.activations.capture import COLUMNS, Observed, estimate, observe
from mnemoscope.core.bounded import MOST_TEXT, read_json
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import write_whole
from mnemoscope.open import open_reader

log = logging.getLogger(__name__)

TYPES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64"}


def save(
    model: Any,
    inputs: Any,
    folder: str | Path,
    *,
    sites: str | Sequence[str],
    tokenizer: Any = None,
    length: int | None = None,
    batch: int = 32,
) -> Path:
    """Write what `capture` gives to a folder; never more than one batch is in memory.

    Logs first how much it will be. `saved` reads the folder back.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already; choose another")
    reader = open_reader(model, tokenizer)
    batches = to_batches(reader, inputs, length, batch)
    log.info("%s", estimate(reader, batches, sites))
    kept = sum(int((~np.isin(b.numpy(), list(reader.special))).sum()) for b, _ in batches)
    files: dict[str, Tensor] = {}
    done = 0
    for tokens, texts in batches:
        seen = observe(reader, tokens, sites, texts)
        columns = {f"token.{name}": torch.from_numpy(getattr(seen, name)) for name in COLUMNS}
        for name, value in {**seen.sites, **columns}.items():
            if name not in files:
                files[name] = _room(folder / f"{name}.safetensors", name, value, kept)
            files[name][done : done + len(value)] = value.cpu()
        done += len(seen)
    names = [name for name in files if not name.startswith("token.")]
    write_whole(folder / "sites.json", json.dumps(names).encode())
    return folder


def _room(path: Path, name: str, like: Tensor, rows: int) -> Tensor:
    """An empty file in the layout of safetensors, mapped into memory to be filled row by row."""
    shape = [rows, *like.shape[1:]]
    count = int(np.prod(shape))
    size = count * like.element_size()
    kind = "I64" if like.dtype == torch.int64 else TYPES[like.dtype]
    head = json.dumps({name: {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}).encode()
    head += b" " * (-len(head) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + size)
    storage = torch.UntypedStorage.from_file(str(path), shared=True, nbytes=8 + len(head) + size)
    whole = torch.empty(0, dtype=torch.uint8)
    whole.set_(storage)  # type: ignore[arg-type]
    return whole[8 + len(head) :].view(like.dtype).view(shape)


def saved(folder: str | Path, batch: int = 4096) -> Iterator[Observed]:
    """Yield what `save` wrote, ``batch`` tokens at a time, without loading the files whole."""
    folder = Path(folder)
    sites = _sites(folder)
    names = [*(f"token.{name}" for name in COLUMNS), *sites]
    slices = {name: _slice(folder / f"{name}.safetensors", name) for name in names}
    rows = {name: one.get_shape()[0] if one.get_shape() else 0 for name, one in slices.items()}
    total = rows["token.tokens"]
    for name, count in rows.items():
        if count != total:
            raise UserError(
                f"{folder / name}.safetensors is damaged (it has {count} rows, others {total}): "
                f"delete {folder} and capture it again"
            )
    for at in range(0, total, batch):
        part = {name: one[at : at + batch] for name, one in slices.items()}
        columns = {name: part[f"token.{name}"].numpy() for name in COLUMNS}
        yield Observed(**columns, sites={name: part[name] for name in sites})


def _sites(folder: Path) -> list[str]:
    """The sites that were captured, each of which has its file; none has a file but no name."""
    path, remedy = folder / "sites.json", f"delete {folder} and capture it again"
    if not path.is_file():
        raise UserError(f"{folder} holds nothing that was captured: there is no {path}")
    found = read_json(path, remedy, MOST_TEXT)
    files = {file.name.removesuffix(".safetensors") for file in folder.glob("*.safetensors")}
    there = {name for name in files if not name.startswith("token.")}
    if (
        not isinstance(found, list)
        or not all(isinstance(name, str) for name in found)
        or len(set(found)) < len(found)
        or set(found) != there
    ):
        raise UserError(f"{path} is damaged (its sites are not those in {folder}): {remedy}")
    return found


def _slice(path: Path, name: str) -> Any:
    """One tensor in a file, of which nothing is read yet."""
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(str(path), framework="pt")
        return file.get_slice(name)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): delete {path.parent} and capture it again"
        ) from error
