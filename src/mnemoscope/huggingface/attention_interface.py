"""Between the attention layers of a Hugging Face model and the function that computes them.

Their models look up this function by name at every call (`AttentionInterface`). Inside
`intercept_attention` the name leads to a function that shows queries and keys, lets them and the
mask be changed, and then calls the one that was there: no weight and no other model is touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

# module, query (B, H, T, E), key (B, H', S, E), mask or None, options -> the mask to use
Listener = Callable[[nn.Module, Tensor, Tensor, Tensor | None, dict[str, Any]], Tensor | None]
# module, query, key -> those to use instead
Changer = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor]]


@contextmanager
def intercept_attention(
    model: nn.Module, listener: Listener | None = None, changer: Changer | None = None
) -> Iterator[None]:
    """Call ``listener`` before every attention of ``model`` inside the block.

    What a ``changer`` makes of queries and keys is what the listener gets and the model uses.
    """
    from transformers import modeling_utils

    functions = modeling_utils.ALL_ATTENTION_FUNCTIONS
    config: Any = model.config
    name: str = getattr(config, "_attn_implementation", None) or "eager"
    before = functions.get(name)
    own = set(model.modules())

    def intercepted(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any
    ) -> Any:
        # Eager attention is not registered: each file of models has its own.
        call = before or sys.modules[type(module).__module__].__dict__["eager_attention_forward"]
        if module in own and changer is not None:
            query, key = changer(module, query, key)
        if module in own and listener is not None:
            mask = listener(module, query, key, mask, options)
        return call(module, query, key, value, mask, **options)

    functions[name] = intercepted
    try:
        yield
    finally:
        del functions[name]
        if before is not None and functions.get(name) is not before:
            functions[name] = before
