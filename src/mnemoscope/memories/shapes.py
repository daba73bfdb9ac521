"""What the tensors of a state must look like: to each other, and to the model that continues.

A field says it in its annotation: ``keys: Annotated[Tensor, Axes("BHSE")]``. The first axis is
the batch, in all tensors of a state alike. A letter that a layer has a size for must have that
size; any other is a length, the same wherever it stands in one state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

# More tokens than anybody reads, and few enough to be counted on from there.
MOST_COUNTED = 1 << 53


@dataclass(frozen=True)
class Axes:
    """Axes by letter, and what the numbers are.

    vectors  floats, of the kind that the model computes in
    sums     floats that are added up for long: never less than float32
    flags    booleans
    counts   int64, from 0
    """

    letters: str
    kind: Literal["vectors", "sums", "flags", "counts"] = "vectors"


@dataclass(frozen=True)
class Wanted:
    """The state that a layer can continue from.

    kind    its class
    sizes   of its axes, by letter
    inside  what is wanted of the states in its fields, of one or of a tuple of them
    given   optional fields that must be there, and those that must not
    """

    kind: type[Any]
    sizes: Mapping[str, int] = field(default_factory=dict)
    inside: Inside = field(default_factory=dict)
    given: Mapping[str, bool] = field(default_factory=dict)


Inside = Mapping[str, Wanted | tuple[Wanted | None, ...]]


@dataclass(frozen=True)
class Part:
    """One field of a kind of state: what it may hold, and the axes of its tensor if it says so."""

    name: str
    choices: tuple[Any, ...]
    axes: Axes | None
    required: bool


_PARTS: dict[type[Any], tuple[Part, ...]] = {}


def parts_of(kind: type[Any]) -> tuple[Part, ...]:
    """The fields that a state is built from; looked up once for each kind."""
    if kind not in _PARTS:
        hints = get_type_hints(kind, include_extras=True)
        _PARTS[kind] = tuple(
            _part(one, hints[one.name]) for one in dataclasses.fields(kind) if one.init
        )
    return _PARTS[kind]


def _part(one: dataclasses.Field[Any], hint: Any) -> Part:
    axes = [found for found in map(axes_of, _alternatives(hint)) if found is not None]
    required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    return Part(one.name, choices(hint), axes[0] if axes else None, required)


def choices(hint: Any) -> tuple[Any, ...]:
    """The types that an annotation allows, without what it says beside them."""
    bare = (
        get_args(one)[0] if get_origin(one) is Annotated else one for one in _alternatives(hint)
    )
    return tuple(bare)


def axes_of(hint: Any) -> Axes | None:
    """What an annotation says of axes."""
    if get_origin(hint) is not Annotated:
        return None
    return next((one for one in get_args(hint)[1:] if isinstance(one, Axes)), None)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def fault(
    state: Any,
    inside: Inside | None = None,
    given: Mapping[str, bool] | None = None,
    floats: frozenset[torch.dtype] | None = None,
    device: torch.device | None = None,
) -> str | None:
    """Say what is wrong with a state, None when nothing is.

    ``inside`` and ``given`` are those of `Wanted`; ``floats`` are the kinds that a model computes
    in, on its ``device``. Without them a state is only compared with itself.
    """
    look = _Look(floats, device)
    return next(look.state(state, "", {}, inside or {}, given or {}), None)


def values_fault(state: Any) -> str | None:
    """Say which counts of a state on the CPU are none."""
    for name, tensor, axes in _tensors(state, ""):
        if axes is not None and axes.kind == "counts" and tensor.numel():
            low, high = (int(bound) for bound in tensor.aminmax())
            if low < 0 or high > MOST_COUNTED:
                return (
                    f"{name} counts from 0 to {MOST_COUNTED}, and says {low if low < 0 else high}"
                )
    return None


def _tensors(state: Any, prefix: str) -> Iterator[tuple[str, Tensor, Axes | None]]:
    for part in parts_of(type(state)):
        held, name = getattr(state, part.name), prefix + part.name
        if isinstance(held, Tensor):
            yield name, held, part.axes
        elif isinstance(held, tuple):
            for place, one in enumerate(held):
                if dataclasses.is_dataclass(one):
                    yield from _tensors(one, f"{name}.{place}.")
        elif dataclasses.is_dataclass(held):
            yield from _tensors(held, f"{name}.")


@dataclass
class _Look:
    """One look through a state: how many rows the first tensor had, all others must have."""

    floats: frozenset[torch.dtype] | None
    device: torch.device | None
    rows: int | None = None

    def state(
        self,
        state: Any,
        prefix: str,
        sizes: Mapping[str, int],
        inside: Inside,
        given: Mapping[str, bool],
    ) -> Iterator[str]:
        """Look at a state and at all that is in it."""
        known = dict(sizes)
        for part in parts_of(type(state)):
            held, name = getattr(state, part.name), prefix + part.name
            if part.name in given and (held is not None) != given[part.name]:
                yield f"{name} is {'missing' if held is None else 'there, and should not be'}"
            elif isinstance(held, Tensor):
                yield from self.tensor(held, name, part.axes, known)
            else:
                yield from self.value(held, name, inside.get(part.name))

    def value(self, held: Any, name: str, wanted: Any) -> Iterator[str]:
        """Look at whatever is no tensor of a field."""
        if isinstance(held, tuple):
            each = wanted if isinstance(wanted, tuple) else (None,) * len(held)
            if len(each) != len(held):
                yield f"{name} has {len(held)} parts, not {len(each)}"
                return
            for place, (one, want) in enumerate(zip(held, each, strict=True)):
                yield from self.value(one, f"{name}.{place}", want)
        elif isinstance(held, Tensor):
            yield from self.tensor(held, name, None, {})
        elif isinstance(wanted, Wanted) and type(held) is not wanted.kind:
            yield f"{name} is a {type(held).__name__}, not a {wanted.kind.__name__}"
        elif isinstance(wanted, Wanted):
            yield from self.state(held, f"{name}.", wanted.sizes, wanted.inside, wanted.given)
        elif dataclasses.is_dataclass(held):
            yield from self.state(held, f"{name}.", {}, {}, {})

    def tensor(
        self, tensor: Tensor, name: str, axes: Axes | None, known: dict[str, int]
    ) -> Iterator[str]:
        """Look at one tensor; ``known`` are the sizes of axes seen so far, by letter."""
        shape = tensor.shape
        if self.rows is None and len(shape) > 0:
            self.rows = shape[0]
        if len(shape) == 0 or shape[0] != self.rows:
            yield f"{name} of shape {tuple(shape)} does not have {self.rows or 'any'} rows"
            return
        if self.device is not None and tensor.device != self.device:
            yield f"{name} is on {tensor.device}, expected is {self.device}: use state.to(device)"
        if axes is None:
            return
        letters = axes.letters[1:]
        fits = len(shape) == len(axes.letters)
        for letter, size in zip(letters, shape[1:], strict=False):
            fits = fits and known.setdefault(letter, size) == size
        if not fits:
            asked = ", ".join(str(known.get(letter, letter)) for letter in letters)
            yield f"{name} has shape {tuple(shape)}, expected is ({self.rows}, {asked})"
        if not self._right_kind(tensor.dtype, axes.kind):
            yield f"{name} is {_name(tensor.dtype)}, expected is {self._kinds(axes.kind)}"

    def _right_kind(self, dtype: torch.dtype, kind: str) -> bool:
        if kind == "flags":
            return dtype == torch.bool
        if kind == "counts":
            return dtype == torch.int64
        if self.floats is None:
            return dtype.is_floating_point
        return dtype in self.floats if kind == "vectors" else dtype in _wide(self.floats)

    def _kinds(self, kind: str) -> str:
        if kind in ("flags", "counts"):
            return "bool" if kind == "flags" else "int64"
        if self.floats is None:
            return "a float"
        kinds = self.floats if kind == "vectors" else _wide(self.floats)
        return " or ".join(sorted(map(_name, kinds)))


def _wide(floats: frozenset[torch.dtype]) -> frozenset[torch.dtype]:
    return frozenset(torch.promote_types(one, torch.float32) for one in floats)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
