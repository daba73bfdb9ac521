"""State is data: a frozen dataclass of tensors that can be measured, moved, picked and saved.

Every tensor has the batch as its first axis, and zeros are a fresh start: these two rules give
`select` and `reset` to every memory for free.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mnemoscope.core.bounded import opened
from mnemoscope.core.errors import UserError
from mnemoscope.core.shown import TENSOR_TITLES, html_table, tensor_rows
from mnemoscope.core.stored import FORMAT, check_format, state_kind, state_name
from mnemoscope.memories.rebuild import parse, rebuild
from mnemoscope.memories.shapes import Axes, fault, values_fault

# A model of a thousand layers with its optimizer has fewer.
MOST_TENSORS = 50_000
MOST_HEADER = 16 << 20
# Tensors that the short form of a state names.
SHOWN = 4


@dataclass(frozen=True)
class State:
    """Base of all states. Fields are tensors, states, tuples of states, or plain values."""

    # States of somebody else, by the path of their class: files find them once it is imported.
    _kinds: ClassVar[dict[str, type[State]]] = {}

    def __init_subclass__(cls) -> None:
        State._kinds[state_name(cls)] = cls
        # Before `dataclass` writes one that prints every number.
        cls.__repr__ = State.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        held = [f"{name} {tuple(tensor.shape)}" for name, tensor in self.tensors()]
        more = [f"{len(held) - SHOWN} more"] if len(held) > SHOWN else []
        return f"{type(self).__name__}({self.nbytes:,} bytes: {', '.join(held[:SHOWN] + more)})"

    def _repr_html_(self) -> str:
        caption = f"{type(self).__name__}, {self.nbytes:,} bytes"
        return html_table(caption, TENSOR_TITLES, tensor_rows(self.tensors()))

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the same state with ``change`` applied to every tensor in it."""
        return self._rebuilt(change, lambda inner: inner.map(change))

    def _rebuilt(
        self, change: Callable[[Tensor], Tensor], inside: Callable[[State], State]
    ) -> Self:
        """The same state of tensors that were changed, and of states that ``inside`` changed."""

        def apply(value: Any) -> Any:
            if isinstance(value, Tensor):
                return change(value)
            if isinstance(value, State):
                return inside(value)
            if isinstance(value, tuple):
                return tuple(apply(item) for item in value)
            return value

        return type(self)(**{one.name: apply(getattr(self, one.name)) for one in _kept(self)})

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor under its dotted name, for example ``layers.0.hidden``."""
        for field in _kept(self):
            yield from _walk(field.name, getattr(self, field.name))

    @property
    def nbytes(self) -> int:
        """Bytes of everything that is needed to continue."""
        return sum(tensor_bytes(tensor) for _, tensor in self.tensors())

    @property
    def batch(self) -> int:
        """How many rows (independent streams) the state holds."""
        first = next(self.tensors(), None)
        if first is None:
            raise UserError("the state holds no tensor, hence no rows")
        return first[1].shape[0]

    def detach(self) -> Self:
        """Cut the gradient: what was read before is a given from here on."""
        return self.map(Tensor.detach)

    def to(self, device: torch.device | str) -> Self:
        """Return a copy on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def select(self, rows: Tensor | Sequence[int]) -> Self:
        """Return the named rows in the given order; a row may come twice (beam search)."""
        chosen = torch.as_tensor(rows)
        if chosen.dtype == torch.bool:
            chosen = row_mask(chosen, self.batch).nonzero().squeeze(1)
        if not row_mask(chosen, self.batch).any():
            raise UserError("select needs at least one row")
        return self.map(lambda tensor: tensor.index_select(0, chosen.to(tensor.device)))

    def reset(self, rows: Tensor | Sequence[int]) -> Self:
        """Return a state in which the named rows (indices or a boolean mask) start anew."""
        return self._forget(row_mask(rows, self.batch))

    def _forget(self, fresh: Tensor) -> Self:
        def forget(tensor: Tensor) -> Tensor:
            shape = (-1,) + (1,) * (tensor.dim() - 1)
            return tensor.masked_fill(fresh.to(tensor.device).view(shape), 0)

        return self._rebuilt(forget, lambda inner: inner._forget(fresh))

    def save(self, path: str | Path) -> None:
        """Write the state to one safetensors file, complete or not at all."""
        about = {"state": json.dumps(_describe(self)), "format": str(FORMAT)}
        write_tensors(path, dict(self.tensors()), about)

    @staticmethod
    def load(path: str | Path) -> State:
        """Read a state back as it was written, or raise `UserError` when the file is damaged.

        What the file says of its state is checked: anybody can write one with a right digest.
        """
        tensors, metadata = read_tensors(path)
        if "state" not in metadata:
            raise UserError(f"{path} holds tensors but no state; write one with state.save(path)")
        try:
            check_format(metadata.get("format", 0))
            state = rebuild(parse(metadata["state"]), State, tensors, _kind)
        except UserError as error:
            raise UserError(f"{path} holds no state that can be loaded: {error}") from None
        wrong = fault(state) or values_fault(state)
        if wrong is not None:
            raise UserError(f"{path} holds no state that can be used: {wrong}")
        assert isinstance(state, State)
        return state


@dataclass(frozen=True)
class StreamState(State):
    """All that a model carries from one segment to the next.

    layers  one state per layer
    count   (B,) tokens each row has read; None when positions do not matter to the model
    owner   which model wrote it, as JSON
    """

    layers: tuple[State, ...]
    count: Annotated[Tensor, Axes("B", "counts")] | None
    owner: str
    # Derived, never saved: for what a model wrote it, who then need not check it again.
    _fits: list[Any] = dataclasses.field(
        default_factory=list, init=False, repr=False, compare=False
    )


def row_mask(rows: Tensor | Sequence[int], batch: int) -> Tensor:
    """Turn row indices or a boolean mask into a boolean mask of shape (batch,)."""
    chosen = torch.as_tensor(rows)
    if chosen.dtype == torch.bool:
        if chosen.shape != (batch,):
            raise UserError(f"a row mask of shape {tuple(chosen.shape)} for a batch of {batch}")
        return chosen
    if chosen.is_floating_point() and chosen.numel() > 0:
        raise UserError(f"rows must be whole numbers or a boolean mask: got {rows}")
    outside = [int(row) for row in chosen.flatten() if not 0 <= row < batch]
    if outside:
        raise UserError(f"row {outside[0]} does not exist in a batch of {batch}")
    mask = torch.zeros(batch, dtype=torch.bool)
    mask[chosen.long().cpu()] = True
    return mask


def tensor_bytes(tensor: Tensor) -> int:
    """The bytes of a tensor; of one that wraps others, as quantised ones do, those inside it."""
    if hasattr(tensor, "__tensor_flatten__"):
        inside, _ = tensor.__tensor_flatten__()
        return sum(tensor_bytes(getattr(tensor, name)) for name in inside)
    return tensor.numel() * tensor.element_size()


def joined_visibility(
    like: Tensor, past: Tensor | None, held: int, mask: Tensor | None, new: int
) -> Tensor | None:
    """Which of ``held`` and ``new`` tokens a row may attend to, (B, S); None while it is all."""
    if past is None and mask is None:
        return None
    if past is None:
        past = like.new_ones(len(like), held, dtype=torch.bool)
    if mask is None:
        mask = like.new_ones(len(like), new, dtype=torch.bool)
    return torch.cat((past, mask), 1)


def own(tensor: Tensor) -> Tensor:
    """The same numbers in memory of their own, laid out as if they had been read from a file.

    On some processors a product rounds differently with the address of what it multiplies. What
    goes into a state as it is, and not into a sum first, must not be a view into something larger.
    """
    return tensor.clone(memory_format=torch.contiguous_format)


def write_tensors(path: str | Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors atomically, with a digest of all that is written so that damage is noticed."""
    path = Path(path)
    # Half of the room for the header, because quotes in the metadata are written with a backslash.
    if len(tensors) >= MOST_TENSORS or sum(map(len, metadata.values())) > MOST_HEADER // 2:
        raise UserError(f"cannot write {path}: too many tensors, or too much said about them")
    # clone() cuts views free of the larger buffers they may look into
    whole = {name: t.detach().cpu().contiguous().clone() for name, t in sorted(tensors.items())}
    partial = path.with_name(path.name + ".partial")
    try:
        save_file(whole, partial, {**metadata, "digest": _digest(whole, metadata)})
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error}") from error


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read what `write_tensors` wrote and check that not a bit has changed."""
    check_header(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: _lifted(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    # RuntimeError and the rest: shapes and kinds of numbers that torch cannot have.
    except (OSError, SafetensorError, RuntimeError, ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged or not a safetensors file: {error}") from error
    if metadata.pop("digest", None) != _digest(tensors, metadata):
        raise UserError(f"{path} is damaged: its contents do not match their digest")
    return tensors, metadata


def _lifted(tensor: Tensor) -> Tensor:
    """What safetensors hands out is a view into the file, at any address: a copy is not."""
    if tensor.dtype != torch.bool:
        return own(tensor)
    # As bytes: any byte but 0 would become true, and damage be gone before it is noticed.
    return own(tensor.view(torch.uint8)).view(torch.bool)


def check_header(path: str | Path) -> None:
    """Raise `UserError` unless a regular file begins as safetensors do, within bounds.

    Every tensor costs time, an empty one too, and a header of a few bytes a tensor has room for
    millions: what it says is counted before anything is made of it.
    """
    if Path(path).is_dir():
        raise UserError(f"there is no file {path}: it is a folder")
    with opened(path) as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        header = file.read(length) if len(start) == 8 and length <= MOST_HEADER else b""
    damaged = f"{path} is damaged or not a safetensors file"
    if len(start) < 8 or len(header) < length:
        raise UserError(f"{damaged}: its header is cut, or has more than {MOST_HEADER} bytes")
    many = f"{damaged}: its header does not list at most {MOST_TENSORS} tensors"
    # Counted before it is parsed, which would take seconds.
    if header.count(b'"dtype"') > MOST_TENSORS:
        raise UserError(many)
    try:
        entries = json.loads(header)
    # ValueError covers wrong UTF-8 and endless numbers, RecursionError brackets without end.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{damaged}: its header is not JSON") from error
    if not isinstance(entries, dict) or len(entries) > MOST_TENSORS:
        raise UserError(many)


def _digest(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    digest = hashlib.blake2b(json.dumps(metadata, sort_keys=True).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _kept(state: State) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(state) if field.init]


def _walk(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, State):
        for inner, tensor in value.tensors():
            yield f"{name}.{inner}", tensor
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _walk(f"{name}.{index}", item)
    elif isinstance(value, list | dict | set):
        raise TypeError(f"{name} is a {type(value).__name__}: a state holds tensors and tuples")


def _kind(name: str) -> type[State] | None:
    return state_kind(name) or State._kinds.get(name)


def _describe(value: Any) -> Any:
    if isinstance(value, State):
        fields = {f.name: _describe(getattr(value, f.name)) for f in _kept(value)}
        return {"kind": state_name(type(value)), "fields": fields}
    if isinstance(value, Tensor):
        return {"kind": "tensor"}
    if isinstance(value, tuple):
        return {"kind": "tuple", "items": [_describe(item) for item in value]}
    return {"kind": "value", "value": value}
