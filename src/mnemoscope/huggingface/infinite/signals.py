"""What an attention layer of another model needs to read a signal of the ∞-former.

Shapes: R rows, T tokens, D width, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.infinite.slots import SlotState
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.infinite.long_term import LongTerm
from mnemoscope.memories.infinite.signal import ContinuousState
from mnemoscope.memories.layer import Context

if TYPE_CHECKING:
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory


@dataclass
class CallSignals:
    """What the hooks of one call share: one signal for each layer that reads, in their order.

    inputs   what the layers were given, (R, T, D) each, noted for a later write; None = no writing
    counted  (R, T) tokens whose attention mass counts for sticky memories; None = all
    losses   what signals ask for beside the task, by name
    slots    for each block what its own attention reads of earlier windows; empty if nothing
    """

    signals: list[ContinuousState]
    inputs: list[Tensor] | None = None
    counted: Tensor | None = None
    losses: dict[str, Tensor] = field(default_factory=dict)
    slots: list[SlotState] = field(default_factory=list)


class SignalReader(nn.Module):
    """Reads a signal with queries that begin as those of an attention layer.

    As they are before a rotation: the signal has no positions that one could be relative to.
    """

    def __init__(self, config: Infinite, attention: nn.Module, heads: int) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width, bias=False)
        weight, bias = query_map(attention, config.width, heads)
        if weight is not None:
            self.query.weight.data.copy_(weight)
        if bias is not None:
            self.query.bias = nn.Parameter(bias.to(self.query.weight.dtype, copy=True))
        self.longterm = LongTerm(config)
        # A memory that has learnt nothing says nothing: training starts from the base's own loss.
        nn.init.zeros_(self.longterm.out.weight)

    def forward(
        self, inputs: Tensor, signal: ContinuousState, context: Context
    ) -> tuple[Tensor, ContinuousState]:
        """inputs (R, T, D) -> output (R, T, D), and the signal with updated attention mass."""
        rows, length, width = inputs.shape
        queries = self.query(inputs).view(rows, length, self.heads, width // self.heads)
        read: tuple[Tensor, ContinuousState] = self.longterm(
            queries.transpose(1, 2), signal, context
        )
        return read

    def add(self, index: int, call: CallSignals | None, hidden: Tensor, output: Any) -> Any:
        """What an attention layer returned for ``hidden`` (R, T, D), plus what its signal gives."""
        if call is None:
            return output
        inputs = hidden.to(self.query.weight.dtype)
        if call.inputs is not None:
            call.inputs[index] = inputs
        signal = call.signals[index]
        if not bool(signal.count.any()):
            return output
        if len(inputs) != signal.batch:
            signal = signal.select(repeated(signal.batch, len(inputs)))
        added, updated = self(inputs, signal, Context(call.counted, None, call.losses))
        if call.inputs is not None:
            call.signals[index] = updated
        first = output[0] if isinstance(output, tuple) else output
        return parts.with_hidden(output, first + added.to(first.dtype))


class ReadHook:
    """The hook behind an attention layer: adds the output of the signal, notes what was given."""

    def __init__(self, memory: InfiniteMemory, index: int) -> None:
        self.memory, self.index = memory, index

    def __call__(self, module: nn.Module, given: Any, named: Any, output: Any) -> Any:
        """Called by torch with what the layer got and returned."""
        hidden = named["hidden_states"] if "hidden_states" in named else given[0]
        return self.memory.reader(self.index).add(self.index, self.memory.now, hidden, output)


def is_read(attention: nn.Module) -> bool:
    """Whether a memory reads behind this layer already."""
    return any(isinstance(hook, ReadHook) for hook in attention._forward_hooks.values())


def query_map(attention: Any, width: int, heads: int) -> tuple[Tensor | None, Tensor | None]:
    """The map from a layer's input to its queries: weight (D, D) and, if it has one, bias (D,).

    Both are None where no known map has the shape. `q_proj` is a map of its own; GPT-2's `c_attn`
    has queries, keys and values side by side and is stored transposed; GPT-NeoX's
    `query_key_value` has the three within each of the layer's ``heads``.
    """
    own = getattr(attention, "q_proj", None)
    joint = getattr(attention, "c_attn", None)
    by_head = getattr(attention, "query_key_value", None)
    known = next((one for one in (own, joint, by_head) if one is not None), None)
    weight, bias = getattr(known, "weight", None), getattr(known, "bias", None)
    if weight is None:
        return None, None
    parts = tuple(weight.shape)
    if known is joint and parts == (width, 3 * width):
        weight, bias = weight.T[:width], None if bias is None else bias[:width]
    elif known is by_head and parts == (3 * width, width):
        rows = torch.arange(3 * width).view(heads, 3, -1)[:, 0].flatten().to(weight.device)
        weight, bias = weight[rows], None if bias is None else bias[rows]
    elif known is not own or parts != (width, width):
        return None, None
    return weight.detach(), None if bias is None else bias.detach()


def repeated(rows: int, batch: int) -> Sequence[int]:
    """Which row each beam or returned sequence belongs to."""
    if batch % rows:
        raise UserError(f"the past has {rows} rows, the batch {batch}")
    return torch.arange(rows).repeat_interleave(batch // rows).tolist()
