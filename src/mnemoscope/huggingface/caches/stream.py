"""A causal language model of transformers behind the one call, with a compressed cache as state.

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks
from mnemoscope.huggingface.attention_interface import intercept_attention
from mnemoscope.huggingface.caches.config import Full, KVOptions, Quantised, Window, name_of
from mnemoscope.huggingface.caches.evicting import WatchingLayer
from mnemoscope.huggingface.caches.kv_cache import make_cache, watched
from mnemoscope.huggingface.stream import ROUNDING, position_limit
from mnemoscope.memories.state import State, StreamState, own
from mnemoscope.models.model import Output

_UNFIT = "the state does not fit this model: it must come from out.state"


@dataclass(frozen=True)
class CompressedState(State):
    """What one layer holds, each tensor with rows first, and what the tensors are called."""

    held: tuple[Tensor, ...]
    names: tuple[str, ...]

    def _forget(self, fresh: Tensor) -> CompressedState:
        raise UserError("a row of a compressed cache cannot start anew: begin with state=None")


class CompressedStream(nn.Module):
    """``out = stream(tokens, state)`` of a causal language model whose cache is compressed."""

    def __init__(self, model: Any, options: KVOptions) -> None:
        super().__init__()
        self.model, self.options = model.eval(), options
        self.vocab, self.limit = blocks.words_of(model), position_limit(model)
        described = [name_of(options), options.model_dump()]
        self._owner = json.dumps([type(model).__name__, blocks.fingerprint(model), described])
        self._template = self._first()
        if not isinstance(options, Full | Quantised):
            _check_positions(model)

    def forward(self, tokens: Tensor, state: StreamState | None = None) -> Output:
        """Read tokens (B, T) after ``state``; logits (B, T, V) and the state to continue with."""
        cache = make_cache(self.model, self.options)
        if state is not None:
            self._restore(cache, state, len(tokens))
        logits = self._call(tokens, cache)
        # What is let go shares memory with what is held until it is copied.
        layers = tuple(
            CompressedState(tuple(map(own, layer.held.values())), tuple(layer.held))
            for layer in cache.layers
        )
        count = torch.full((len(tokens),), cache.get_seq_length())
        return Output(logits, StreamState(layers, count, self._owner))

    def _call(self, tokens: Tensor, cache: Any) -> Tensor:
        with watched(self.model, cache):
            out = self.model(input_ids=tokens, past_key_values=cache, use_cache=True)
        _refuse_unseen(self.model, cache)
        found: Tensor = out.logits
        return found

    @torch.no_grad()
    def _first(self) -> dict[str, Tensor]:
        """What a layer holds after one token, which tells the sizes that do not grow."""
        cache = make_cache(self.model, self.options)
        where = next(self.model.parameters()).device
        self._call(torch.zeros(1, 1, dtype=torch.long, device=where), cache)
        held: dict[str, Tensor] = cache.layers[0].held
        return held

    def _restore(self, cache: Any, state: StreamState, rows: int) -> None:
        if state.owner != self._owner:
            raise UserError("the state belongs to another model, or to another cache of this one")
        seen = _tokens_read(state, rows)
        device = next(self.model.parameters()).device
        if len(state.layers) != len(cache.layers):
            raise UserError(_UNFIT)
        for layer, held in zip(cache.layers, state.layers, strict=True):
            sizes = layer.sizes(seen)
            if not isinstance(held, CompressedState) or not self._fits(held, sizes, rows):
                raise UserError(_UNFIT)
            layer.held = {
                name: tensor.to(device) for name, tensor in zip(held.names, held.held, strict=True)
            }
            layer.seen = seen

    def _fits(self, held: CompressedState, sizes: dict[str, tuple[int, int]], rows: int) -> bool:
        """Whether tensors are those of such a layer, of these rows and after so many tokens."""
        if set(held.names) != set(sizes) or len(held.names) != len(held.held):
            return False
        for name, tensor in zip(held.names, held.held, strict=True):
            known, (axis, size) = self._template[name], sizes[name]
            expected = [rows, *known.shape[1:]]
            expected[axis] = size
            if list(tensor.shape) != expected or tensor.dtype != known.dtype:
                return False
        return True


def _tokens_read(state: StreamState, rows: int) -> int:
    """How many tokens every row of a state has read."""
    count = state.count
    if count is None or count.dim() != 1 or len(count) == 0 or int(count.min()) < 1:
        raise UserError(_UNFIT)
    if len(count) != rows:
        raise UserError(f"the state holds {len(count)} rows but the tokens have {rows}")
    if bool((count != count[0]).any()):
        raise UserError("the rows of the state have read different numbers of tokens")
    return int(count[0])


def _refuse_unseen(model: Any, cache: Any) -> None:
    if any(isinstance(layer, WatchingLayer) and layer.waiting for layer in cache.layers):
        raise UserError(
            f"{type(model).__name__} does not compute its attention through the interface of "
            "transformers: choose the cache full, window, random or quantised"
        )


@torch.no_grad()
def _check_positions(model: Any) -> None:
    """Refuse a model that goes wrong once tokens are let go.

    What it predicts from a few tokens that are held must be what it predicts when all are there
    and attention to the others is forbidden. Models that count what is in the cache, or add the
    distance to every key by themselves, take tokens for nearer than they are.
    """
    where = next(model.parameters()).device
    tokens = torch.arange(8, device=where)[None] % blocks.words_of(model)
    begun, more = tokens[:, :6], tokens[:, 6:]
    found = {}
    for options in (Window(budget=3, sinks=1), Full()):
        cache = make_cache(model, options)
        with watched(model, cache):
            model(input_ids=begun, past_key_values=cache, use_cache=True)
        hidden = [] if isinstance(options, Window) else [1, 2, 3]
        with _hiding(model, hidden) if hidden else watched(model, cache):
            out = model(input_ids=more, past_key_values=cache, use_cache=True)
        found[type(options)] = out.logits.float()
    expected = found[Full]
    slack = ROUNDING * torch.finfo(model.dtype).eps * max(1.0, float(expected.abs().max()))
    if bool((found[Window] - expected).abs().max() > slack):
        raise UserError(
            f"{type(model).__name__} takes tokens for nearer than they are once others were let "
            "go: choose the cache full or quantised"
        )


def _hiding(model: Any, columns: list[int]) -> Any:
    """Forbid every attention of the model to some of the tokens."""

    def listener(
        module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> Tensor:
        new, length = query.shape[2], key.shape[2]
        seen = torch.ones(new, length, dtype=torch.bool, device=key.device).tril(length - new)
        seen[:, columns] = False
        nothing = query.new_zeros(new, length)
        return nothing.masked_fill(~seen, torch.finfo(query.dtype).min)[None, None]

    return intercept_attention(model, listener)
