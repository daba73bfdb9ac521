"""Keep what was captured in files: one safetensors file a site, filled and read row by row."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.errors import UserError
from mnemoscope.lenses.capture import Observed, estimate, observe
from mnemoscope.lenses.reader import open_reader, to_batches

_COLUMNS = ("tokens", "positions", "rows", "left", "right", "labels")
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

    Says first how much it will be. `saved` reads the folder back.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already; choose another")
    reader = open_reader(model, tokenizer)
    batches = to_batches(reader, inputs, length, batch)
    print(estimate(reader, batches, sites), file=sys.stderr)
    kept = sum(int((~np.isin(b.numpy(), list(reader.special))).sum()) for b, _ in batches)
    files: dict[str, Tensor] = {}
    done = 0
    for tokens, texts in batches:
        seen = observe(reader, tokens, sites, texts)
        columns = {f"token.{name}": torch.from_numpy(getattr(seen, name)) for name in _COLUMNS}
        for name, value in {**seen.sites, **columns}.items():
            if name not in files:
                files[name] = _room(folder / f"{name}.safetensors", name, value, kept)
            files[name][done : done + len(value)] = value.cpu()
        done += len(seen)
    (folder / "sites.json").write_text(json.dumps([n for n in files if n[:6] != "token."]))
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
    from safetensors import safe_open

    folder = Path(folder)
    try:
        sites = json.loads((folder / "sites.json").read_text())
    except OSError as error:
        raise UserError(f"{folder} holds nothing that was captured: {error}") from error
    names = [*(f"token.{name}" for name in _COLUMNS), *sites]
    files: dict[str, Any] = {
        n: safe_open(str(folder / f"{n}.safetensors"), framework="pt") for n in names
    }
    slices = {name: file.get_slice(name) for name, file in files.items()}
    total = slices["token.tokens"].get_shape()[0]
    for at in range(0, total, batch):
        part = {name: one[at : at + batch] for name, one in slices.items()}
        columns = {name: part[f"token.{name}"].numpy() for name in _COLUMNS}
        yield Observed(**columns, sites={name: part[name] for name in sites})
