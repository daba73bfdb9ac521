"""Take activations out of a running model, at named sites, and leave no trace behind.

Shapes: B rows, T tokens, N tokens of a batch one after the other, D width of a site.

    with capture(model, "layer.*.out") as seen:      # watch calls that you make yourself
        model(tokens)
    for seen in capture(model, texts, sites="layer.*.out"):      # or have texts read
        lens.observe(seen)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.batches import Rows, encode, to_batches
from mnemoscope.activations.hooks import Seen as Seen
from mnemoscope.activations.hooks import by_token, watch
from mnemoscope.core.arrays import Ints
from mnemoscope.core.capacity import told_bytes
from mnemoscope.core.errors import UserError
from mnemoscope.core.shown import shows_itself
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.models.inputs import as_list
from mnemoscope.open import Reader, open_reader

log = logging.getLogger(__name__)

# The columns of `Observed`, one entry a token.
COLUMNS = ("tokens", "positions", "rows", "left", "right", "labels")
NOBODY = -1  # where a token has no neighbour


@shows_itself
@dataclass(frozen=True, eq=False)
class Observed:
    """What one batch gave: N tokens, and what each site held for each of them.

    tokens, positions     (N,) what was read and where in its text
    rows                  (N,) which of the texts, or which part of one when they were cut
    left, right           (N,) the tokens beside, `NOBODY` at the ends
    labels                (N,) what was asked there, `NO_QUESTION` where nothing was
    sites                 (N, D) by name, in the order of the layers
    states                (B, …) by name, when the site ``state`` was asked for
    """

    tokens: Ints
    positions: Ints
    rows: Ints
    left: Ints
    right: Ints
    labels: Ints
    sites: dict[str, Tensor]
    states: dict[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)


class Watched(AbstractContextManager[Seen]):
    """Sites that are watched within a block; a loop over it was meant to read."""

    def __init__(self, model: Any, sites: str) -> None:
        self._watching = watch(model, sites)

    def __enter__(self) -> Seen:
        return self._watching.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        return self._watching.__exit__(*error)

    def __iter__(self) -> Iterator[Observed]:
        raise UserError(
            "say which sites to capture while the text is read, for example "
            "capture(model, text, sites='layer.*.out')"
        )


@overload
def capture(model: Any, inputs: str) -> Watched: ...
@overload
def capture(
    model: Any,
    inputs: Any,
    *,
    sites: str | Sequence[str],
    tokenizer: Any = ...,
    length: int | None = ...,
    batch: int = ...,
    labels: Sequence[Tensor] | None = ...,
) -> Iterator[Observed]: ...
def capture(
    model: Any,
    inputs: Any,
    *,
    sites: str | Sequence[str] | None = None,
    tokenizer: Any = None,
    length: int | None = None,
    batch: int = 32,
    labels: Sequence[Tensor] | None = None,
) -> Watched | Iterator[Observed]:
    """Watch sites of a model: ``with capture(model, sites)``, or read with it and yield batches.

    ``model`` is an object (ours or of transformers), the folder of a run or of a Hugging Face
    model, or a name on its hub. ``inputs`` is a text, a list of token ids or a tensor (B, T) of
    them, or a list of such; texts longer than ``length`` tokens are read in parts, ``batch`` at a
    time. ``labels`` go with tensors and say what was asked at every token.

    Within the block of the first form every pass replaces what the one before gave. A site that
    does not exist, or never gave anything, is an error that names near ones.
    """
    if sites is None:
        if not isinstance(inputs, str):
            raise UserError("say which sites to capture, for example sites='layer.*.out'")
        return Watched(model, inputs)
    reader = open_reader(model, tokenizer)
    batches = to_batches(reader, inputs, length, batch)
    if labels is not None and [one.shape for one in labels] != [one.shape for one, _ in batches]:
        raise UserError("labels need tensors as inputs, and the same shapes")
    log.info("%s", estimate(reader, batches, sites))
    return _stream(reader, batches, sites, labels)


def _stream(
    reader: Reader, batches: list[Rows], sites: Any, labels: Sequence[Tensor] | None
) -> Iterator[Observed]:
    for number, (tokens, texts) in enumerate(batches):
        yield observe(reader, tokens, sites, texts, None if labels is None else labels[number])


@torch.no_grad()
def observe(
    reader: Reader, tokens: Tensor, sites: Any, texts: Ints, labels: Tensor | None = None
) -> Observed:
    """Read one batch (B, T) and lay its tokens one after the other."""
    with watch(reader.model, sites) as seen:
        reader.read(tokens)
    rows, length = tokens.shape
    ids = tokens.cpu().numpy().astype(np.int64)
    kept = ~np.isin(ids, list(reader.special)).ravel()
    edge = np.full((rows, 1), NOBODY)
    columns = {
        "tokens": ids,
        "positions": np.broadcast_to(np.arange(length), ids.shape),
        "rows": np.broadcast_to(texts[:, None], ids.shape),
        "left": np.concatenate((edge, ids[:, :-1]), 1),
        "right": np.concatenate((ids[:, 1:], edge), 1),
        "labels": np.full_like(ids, NO_QUESTION) if labels is None else labels.cpu().numpy(),
    }
    vectors, states = {}, {}
    for name, value in seen.items():
        if name.startswith("state."):
            states[name] = value
            continue
        flat = by_token(name, value, tokens.shape).flatten(0, 1)
        vectors[name] = flat if kept.all() else flat[torch.from_numpy(kept).to(flat.device)]
    order = sorted(vectors, key=_in_order)
    flat_columns = {name: column.ravel()[kept] for name, column in columns.items()}
    return Observed(**flat_columns, sites={name: vectors[name] for name in order}, states=states)


def _in_order(name: str) -> tuple[Any, ...]:
    """Sort layer 10 after layer 9, and the embeddings before all."""
    parts = name.split(".")
    return (
        "embeddings" not in parts,
        *((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts),
    )


@dataclass(frozen=True)
class Size:
    """How much there will be to see, before anything is read."""

    tokens: int
    sites: int
    nbytes: int

    def __str__(self) -> str:
        size = told_bytes(self.nbytes)
        return f"{self.tokens:,} tokens at {self.sites} sites: {size} if all were kept at once"


def estimate(reader: Reader, batches: Sequence[Rows], sites: str | Sequence[str]) -> Size:
    """Read two tokens to learn how wide the sites are, and count the rest."""
    with torch.no_grad(), watch(reader.model, sites) as seen:
        reader.read(batches[0][0][:1, :2])
    read = min(2, batches[0][0].shape[1])
    tokens = sum(one.numel() for one, _ in batches)
    each = sum(v.numel() * v.element_size() for n, v in seen.items() if n[:6] != "state.")
    return Size(tokens, len(seen), tokens * each // read)


def together(observed: Mapping[str, Observed]) -> Observed:
    """Put side by side what several models held of the same tokens; sites become NAME/SITE."""
    first, *others = observed.values()
    for other in others:
        if not np.array_equal(first.tokens, other.tokens):
            raise UserError(
                "the models read different tokens: what one keeps of a token cannot be held "
                "against what the other does"
            )
    sites = {f"{name}/{s}": v for name, one in observed.items() for s, v in one.sites.items()}
    return replace(first, sites=sites, states={})


def side_by_side(
    models: Mapping[str, Any], inputs: Any, *, sites: str | Sequence[str], **options: Any
) -> Iterator[Observed]:
    """Let several models read the same tokens: `capture` of each, put `together`."""
    readers = {name: open_reader(model, options.get("tokenizer")) for name, model in models.items()}
    inputs = as_list(inputs)
    if isinstance(inputs[0], str):
        inputs = encode(list(readers.values()), inputs)
    streams = [capture(one, inputs, sites=sites, **options) for one in readers.values()]
    for parts in zip(*streams, strict=True):
        yield together(dict(zip(readers, parts, strict=True)))
