"""A compressed cache for a model of transformers, and the attention that decides what it holds.

with compressed_cache(model, "h2o", budget=64) as cache:
    model.generate(**prompt, past_key_values=cache)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.attention_interface import intercept_attention
from mnemoscope.huggingface.caches.config import (
    H2O,
    Full,
    KVOptions,
    Quantised,
    Random,
    SnapKV,
    Window,
    cache_options,
)
from mnemoscope.huggingface.caches.evicting import (
    EvictingLayer,
    H2OLayer,
    RandomLayer,
    SnapKVLayer,
    WatchingLayer,
    WindowLayer,
)
from mnemoscope.huggingface.caches.layers import FullLayer, HeldLayer
from mnemoscope.huggingface.caches.quantised import QuantisedLayer

# Of options, the layer of a number that they describe.
_LAYERS: dict[type[KVOptions], Callable[[Any, int], HeldLayer]] = {
    Full: lambda options, index: FullLayer(),
    Window: lambda options, index: WindowLayer(options),
    Random: RandomLayer,
    H2O: lambda options, index: H2OLayer(options),
    SnapKV: lambda options, index: SnapKVLayer(options),
    Quantised: lambda options, index: QuantisedLayer(options),
}


def make_cache(model: Any, options: KVOptions) -> Cache:
    """An empty cache for one batch of streams."""
    known = DynamicCache(config=model.config).layers
    other = next((layer for layer in known if type(layer) is not DynamicLayer), None)
    if other is not None or not known:
        kind = "no layers that it says" if other is None else f"a {type(other).__name__}"
        raise UserError(
            f"{type(model).__name__} has {kind} in its cache: only caches of plain keys and "
            "values, of all tokens, can be compressed"
        )
    return Cache(layers=[_LAYERS[type(options)](options, index) for index in range(len(known))])


@contextmanager
def compressed_cache(model: Any, cache: str | KVOptions, **options: Any) -> Iterator[Cache]:
    """A compressed cache to give to ``model`` and to its ``generate`` inside the block.

    Rows must be of one length: of tokens that were let go, no mask can say that they were padding.
    """
    made = make_cache(model, cache_options(cache, **options))
    with watched(model, made):
        yield made


def watched(model: Any, cache: Cache) -> Any:
    """Show the attention of ``model`` to the layers of its cache inside the block."""
    if not any(isinstance(layer, EvictingLayer) for layer in cache.layers):
        return nullcontext()

    def listener(
        module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> Tensor | None:
        layer = cache.layers[module.layer_idx]
        if module.layer_idx == 0:
            _refuse_padding(mask)
        if isinstance(layer, WatchingLayer):
            scale = options.get("scaling")
            layer.watch(query, key, query.shape[3] ** -0.5 if scale is None else float(scale))
        return mask

    return intercept_attention(model, listener)


def _refuse_padding(mask: Tensor | None) -> None:
    """What the last token attends to is all there is, but for padding."""
    if mask is None:
        return
    last = mask[:, :, -1]
    seen = last if last.dtype == torch.bool else last > torch.finfo(last.dtype).min / 2
    if not bool(seen.all()):
        raise UserError(
            "rows of different lengths cannot share an evicting cache: read them one by one, or "
            "choose the cache full or quantised"
        )
