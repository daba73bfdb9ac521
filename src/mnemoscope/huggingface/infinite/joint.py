"""The attention function that lets layers of `transformers` read slots together with their window.

`transformers` lets a model name the function that its attention layers compute with. Ours is the
one it had, until a call has slots for the layer: then they are further keys of the same softmax.

Shapes: R rows, H heads, G key-value heads, T queries, S keys of the window, N slots, E size of a
head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.infinite.signals import repeated
from mnemoscope.huggingface.infinite.slots import Rotation, SlotState, relative

if TYPE_CHECKING:
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory

NAME = "mnemoscope_joint"
# Which memory an attention layer reads, and which of its layers it is.
_read_by: WeakKeyDictionary[nn.Module, tuple[InfiniteMemory, int]] = WeakKeyDictionary()


def join(memory: InfiniteMemory, attentions: list[nn.Module]) -> str:
    """Let attention layers read the slots of a memory; returns what `part` needs."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    before: str = memory.base.config._attn_implementation
    if before != "sdpa":
        raise UserError(
            f"the attention of the model is {before!r}, and slots are read beside 'sdpa' only: "
            "load it with attn_implementation='sdpa'"
        )
    AttentionInterface.register(NAME, joint_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    memory.base.set_attn_implementation(NAME)
    for index, layer in enumerate(attentions):
        _read_by[layer] = memory, index
    return before


def part(memory: InfiniteMemory, attentions: list[nn.Module], before: str) -> None:
    """Undo `join`."""
    for layer in attentions:
        _read_by.pop(layer, None)
    memory.base.set_attn_implementation(before)


def joint_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """What attention layers call: queries (R, H, T, E), keys, values -> output (R, T, H, E)."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    memory, index = _read_by.get(module, (None, 0))
    call = None if memory is None else memory.now
    state = None if call is None or not call.slots else call.slots[index]
    if memory is None or call is None or state is None or not bool(state.times.any()):
        plain: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, mask, **options
        )
        return plain
    if len(query) != state.batch:
        state = state.select(repeated(state.batch, len(query)))
    scaling = options.get("scaling")
    found, mass = attend(query, key, value, mask, state, memory.rotation, scaling, call.counted)
    if call.inputs is not None:  # what is only read, as in `past`, stays as it is
        call.slots[index] = state.attended(mass)
    return found.transpose(1, 2).contiguous(), None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    state: SlotState,
    rotation: Rotation,
    scaling: float | None = None,
    counted: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of queries (R, H, T, E) over slots and window (R, G, S, E), and the slots' mass.

    The mask (R, 1, T, S) is true, or zero, where the window may be attended to; without one it is
    causal, the last query seeing all. ``counted`` (R, T) says whose attention counts.
    """
    rows, heads, length, size = query.shape
    keys = torch.cat((rotated(state, rotation), key), 2)
    values = torch.cat((state.values, value), 2)
    if mask is None:
        mask = torch.ones(length, key.shape[2], dtype=torch.bool, device=key.device)
        mask = mask.tril(key.shape[2] - length)
    if mask.dtype != torch.bool:
        mask = mask == 0
    # Query heads in the groups that share keys: (R · G, H / G · T, E).
    groups, slots = key.shape[1], state.times.shape[1]
    scaled = query * (size**-0.5 if scaling is None else scaling)
    grouped = scaled.reshape(rows * groups, heads // groups * length, size)
    scores = torch.bmm(grouped, keys.flatten(0, 1).transpose(1, 2))
    scores = scores.view(rows, heads, length, -1)
    # Only what can be hidden is written again: mostly the window, since slots soon are full.
    scores[..., slots:].masked_fill_(~mask, -torch.inf)
    empty = state.times == 0
    if bool(empty.any()):
        scores[..., :slots].masked_fill_(empty[:, None, None], -torch.inf)
    weights = F.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
    found = (weights.view(rows, groups, -1, weights.shape[-1]) @ values).view(query.shape)
    if counted is None:
        counted = torch.ones(rows, length, dtype=torch.bool, device=query.device)
    # A sum over heads and queries as a product, which reads the weights in one pass.
    summed = counted[:, None].expand(-1, heads, -1).reshape(rows, 1, -1).to(weights.dtype)
    mass = (summed @ weights.detach().view(rows, heads * length, -1))[:, 0, :slots]
    return found, mass


def rotated(state: SlotState, rotation: Rotation) -> Tensor:
    """Keys as they are seen from the window that follows; made once for every write."""
    if "keys" not in state._derived:
        state._derived["keys"] = rotation(state.keys, relative(state))
    return state._derived["keys"]
