"""Queries, keys and masks of every attention layer of any model, captured while it reads.

Shapes: B texts, H heads, T tokens, E width of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mnemoscope.activations.sites import attention_of, stacks
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.attention_interface import intercept_attention
from mnemoscope.memories.layer import Tap
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.models.model import SequenceModel


@dataclass(frozen=True, eq=False)
class AttentionInputs:
    """Captured queries and keys of one attention layer, and what its scores are made with.

    queries, keys   (B, H, T, E), keys that heads share repeated, rotary positions applied
    visible         (T, T), whether a row may attend to a column
    bias            (1 or H, T, T) that is added to the scores, or None
    shared          how many heads share one key
    """

    layer: int
    queries: Tensor
    keys: Tensor
    scale: float
    visible: Tensor
    bias: Tensor | None
    shared: int

    def kept(self, where: slice) -> AttentionInputs:
        """The same for some of the positions."""
        bias = None if self.bias is None else self.bias[:, where, where]
        return replace(
            self,
            queries=self.queries[:, :, where],
            keys=self.keys[:, :, where],
            visible=self.visible[where, where],
            bias=bias,
        )

    def scores(self) -> Tensor:
        """What the softmax gets, (B, H, T, T), masked ones too."""
        scores = (self.queries * self.scale) @ self.keys.transpose(2, 3)
        return scores if self.bias is None else scores + self.bias

    def attention(self, scores: Tensor) -> Tensor:
        """The softmax of scores over what is visible, (B, H, T, T)."""
        if bool(self.visible.all()):
            return scores.softmax(-1)
        return scores.masked_fill(~self.visible, -torch.inf).softmax(-1)


Receive = Callable[[AttentionInputs], None]
# layer, "q" or "k", (B, H, T, E) with the keys as the model has them -> what to use instead
Change = Callable[[int, Literal["q", "k"], Tensor], Tensor]


def attentions(model: nn.Module) -> dict[int, nn.Module]:
    """The attention of every layer, by its number."""
    stack = stacks(model).get("")
    found = {
        number: attention
        for number, layer in enumerate(stack or [])
        if (attention := attention_of(layer)) is not None
    }
    if isinstance(model, SequenceModel):
        for attention in found.values():
            if isinstance(attention, RelativeAttention):
                raise UserError(
                    "this model adds distances to its scores itself: q·k alone is not its "
                    "attention. Its lens is `attention_maps`"
                )
        found = {
            n: one for n, one in found.items() if isinstance(getattr(one, "queries", None), Tap)
        }
    if not found:
        raise UserError(f"{type(model).__name__} has no layers with queries and keys")
    return found


@contextmanager
def capture_attention_inputs(
    model: nn.Module, receive: Receive, change: Change | None = None
) -> Iterator[None]:
    """Call ``receive`` for every attention inside the block, after ``change`` if there is one.

    An attention that never comes by is an error at the end of the block.
    """
    modules = attentions(model)
    numbers = {module: number for number, module in modules.items()}
    silent = set(modules)

    def received(one: AttentionInputs) -> None:
        silent.discard(one.layer)
        receive(one)

    with ExitStack() as stack:
        if isinstance(model, SequenceModel):
            for number, module in modules.items():
                _tap(stack, number, module, received, change)
        else:
            stack.enter_context(_intercept(model, numbers, received, change))
        yield
    if silent:
        raise UserError(
            f"queries and keys of layer {min(silent)} were not captured: this model does not "
            "compute its attention through the interface of transformers"
        )


def _tap(
    stack: ExitStack, number: int, module: Any, receive: Receive, change: Change | None
) -> None:
    seen: dict[str, Tensor] = {}

    def query(tap: nn.Module, given: Any, value: Tensor) -> Tensor:
        seen["q"] = value if change is None else change(number, "q", value)
        return seen["q"]

    def key(tap: nn.Module, given: Any, value: Tensor) -> Tensor:
        value = value if change is None else change(number, "k", value)
        queries = seen.pop("q")
        length = queries.shape[2]
        if value.shape[2] != length:
            raise UserError("begin a new stream: what was read before has keys of its own")
        sees = torch.ones(length, length, dtype=torch.bool, device=value.device)
        if getattr(module, "causal", True):
            reach = min(getattr(module, "context", length), length)
            sees = sees.tril() & sees.triu(1 - reach)
        scale = queries.shape[3] ** -0.5
        receive(AttentionInputs(number, _precise(queries), _precise(value), scale, sees, None, 1))
        return value

    stack.callback(module.queries.register_forward_hook(query).remove)
    stack.callback(module.keys.register_forward_hook(key).remove)


def _intercept(
    model: nn.Module, numbers: dict[nn.Module, int], receive: Receive, change: Change | None
) -> Any:
    def listener(
        module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> Tensor | None:
        if module in numbers:
            shared = query.shape[1] // key.shape[1]
            sees, bias = _mask(module, query, mask, options)
            scale = options.get("scaling")
            scale = query.shape[3] ** -0.5 if scale is None else float(scale)
            keys = key.repeat_interleave(shared, 1) if shared > 1 else key
            one = numbers[module], _precise(query), _precise(keys), scale, sees, bias, shared
            receive(AttentionInputs(*one))
        return mask

    def changer(module: nn.Module, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        if change is None or module not in numbers:
            return query, key
        number = numbers[module]
        return change(number, "q", query), change(number, "k", key)

    return intercept_attention(model, listener, changer)


def _precise(value: Tensor) -> Tensor:
    """In single precision at least: sums over thousands of scores would drown in half of it."""
    return value.detach().float() if value.dtype.itemsize < 4 else value.detach()


def _mask(
    module: nn.Module, query: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> tuple[Tensor, Tensor | None]:
    """What is visible (T, T), and the bias of scores; nothing is padded, so rows are alike."""
    length = query.shape[2]
    sees = torch.ones(length, length, dtype=torch.bool, device=query.device)
    bias: Tensor | None = options.get("position_bias")
    bias = None if bias is None else bias[0].detach()
    if mask is None:
        causal = options.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        return (sees.tril() if causal else sees), bias
    given = mask[0].detach()[..., :length]  # (1 or H, T, T)
    if given.dtype == torch.bool:
        return given[0].expand(length, length), bias
    sees = (given[0] > torch.finfo(given.dtype).min / 2).expand(length, length)
    added = given.masked_fill(~sees, 0)
    if bool(added.any()):  # biases by distance come in the mask
        bias = added if bias is None else bias + added
    return sees, bias
