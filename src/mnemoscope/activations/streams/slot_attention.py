"""Attention of a model of `transformers` over its window and the slots of an attached memory.

Shapes: T tokens fed, S keys of the window, K slots that hold something, N tokens read so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.huggingface_attention import AttentionWatch, Call
from mnemoscope.activations.streams.views.attention import attention
from mnemoscope.activations.streams.views.view import Floats, Ints, Json, slots, spread
from mnemoscope.huggingface.infinite.joint import rotated
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.infinite.slots import Rotation, SlotPlan, SlotState

EARLIER = "keys and values of earlier windows"


@dataclass(eq=False)
class SlotWatch(AttentionWatch):
    """Notes what tokens attend to: keys of the window, and slots where a layer has some."""

    memory: InfiniteMemory

    def hear(self, call: Call) -> Tensor | None:
        """Add the rows of new tokens; the mask stays."""
        now = self.memory.now
        state = now.slots[call.layer] if now is not None and now.slots else None
        if state is None or not bool(state.times.any()):
            return super().hear(call)
        heads, read = call.query.shape[1], self.first + self.new
        held = state.times[0] > 0  # (all slots,)
        keys = torch.cat((rotated(state, self.memory.rotation)[:1, :, held], call.key[:1]), 2)
        keys = keys.repeat_interleave(heads // keys.shape[1], 1)
        count = int(held.sum())
        open_slots = call.allowed.new_ones(*call.allowed.shape[:3], count)
        allowed = torch.cat((open_slots, call.allowed), 3)
        weights = attention(call.query[:1], keys, allowed, self.pick, call.scale)  # (T, K + S)
        stands = np.arange(call.end - call.key.shape[2], call.end)
        rows = spread(weights[:, count:], stands, 1, read)
        plan = self.memory.slot_plans[call.layer]
        first, each = tokens_held(state, plan)
        # A token may be held twice, in a mean and by itself: shares add up.
        for step in range(each.max(initial=0)):
            some = each > step
            np.add.at(rows.T, first[some] + step, (weights[:, :count] / each)[:, some].T)
        before = self.shares.get(call.layer, np.zeros((0, read)))
        self.shares[call.layer] = np.concatenate((before, rows))[-self.new :]
        self.heads[call.layer] = heads
        return call.mask


def tokens_held(state: SlotState, plan: SlotPlan) -> tuple[Ints, Ints]:
    """The first token that every slot of row 0 that holds something stands for, and how many, (K,).

    A slot is one token, or the mean of ``plan.rate`` neighbours.
    """
    times: Floats = state.times[0].double().cpu().numpy()
    times = times[times > 0]
    each = np.ones(len(times), dtype=np.int64)
    if plan.keep == "pooled":
        # Means lie between tokens; sinks and the last write are tokens.
        each[times % 1 > 0] = plan.rate
    return np.rint(times - 1 - (each - 1) / 2).astype(np.int64), each


def held_positions(state: SlotState) -> Ints:
    """Positions of the tokens that slots of row 0 hold, of means their middle, (K,)."""
    times = state.times[0]
    positions: Ints = (times[times > 0].floor().long() - 1).cpu().numpy()
    return positions


def panel(layer: int, state: SlotState) -> Json:
    """Which tokens the slots of a layer hold."""
    size, room = state.nbytes, state.times.shape[1]
    name = f"layer {layer + 1}"
    return slots(layer, name, EARLIER, held_positions(state), 1, room, size)


def blanked(layer: int, state: SlotState, blank: Blank, rotation: Rotation) -> SlotState:
    """The same with some of what it holds hidden from attention."""
    if not blank.concerns(layer, EARLIER) or blank.unit is not None:
        return state
    positions = (state.times[0].floor().long() - 1).cpu().numpy()
    gone = torch.from_numpy(blank.hides(positions, 1)).to(state.times.device)
    # Turned first: where keys belong is counted from the newest, which may be among those hidden.
    keys = rotated(state, rotation)
    hidden = SlotState(state.keys, state.values, state.times.masked_fill(gone, 0), state.masses)
    hidden._derived["keys"] = keys
    return hidden
