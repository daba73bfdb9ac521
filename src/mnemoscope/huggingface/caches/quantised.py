"""Every token in few bits a number: keys are rounded by channel, values by token.

Channels of keys differ by orders of magnitude and tokens of them do not, so a scale is shared along
tokens; with values it is the other way round (KIVI). Hence the last tokens, fewer than a group,
stay as they are until the group is full. Every number is rounded once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.caches.config import Quantised
from mnemoscope.huggingface.caches.layers import HeldLayer, Sizes
from mnemoscope.huggingface.caches.packing import Packed, dequantise, quantise

_PARTS = ("codes", "scale", "zero")


class QuantisedLayer(HeldLayer):
    """Packed keys (B, H, E, tokens) and values (B, H, tokens, E), and the last ones as they are."""

    def __init__(self, options: Quantised) -> None:
        super().__init__()
        self.bits, self.group = options.bits, options.group

    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put the new behind the old, and round groups that are full."""
        width = values.shape[3]
        among = self._value_group(width)
        before_keys = keys[:, :, :0]
        before_values = values[:, :, :0]
        if self.held:
            before_keys = dequantise(self._packed("key"), self.bits, self.group, keys.dtype)
            before_keys = before_keys.transpose(2, 3)
            before_values = dequantise(self._packed("value"), self.bits, among, values.dtype)
            keys = torch.cat([self.held["keys"], keys], 2)
            values = torch.cat([self.held["values"], values], 2)
        full = keys.shape[2] // self.group * self.group
        if full or not self.held:
            by_channel = quantise(keys[:, :, :full].transpose(2, 3), self.bits, self.group)
            by_token = quantise(values[:, :, :full], self.bits, among)
            self._append("key", by_channel, 3)
            self._append("value", by_token, 2)
        self.held |= {"keys": keys[:, :, full:], "values": values[:, :, full:]}
        return torch.cat([before_keys, keys], 2), torch.cat([before_values, values], 2)

    def _packed(self, of: str) -> Packed:
        return Packed(*(self.held[f"{of}_{part}"] for part in _PARTS))

    def _append(self, of: str, new: Packed, axis: int) -> None:
        """Along tokens, which are the last axis of keys and the one before it of values."""
        for part in _PARTS:
            name, tensor = f"{of}_{part}", getattr(new, part)
            before = [self.held[name]] if name in self.held else []
            self.held[name] = torch.cat([*before, tensor], axis)

    def _value_group(self, width: int) -> int:
        among = min(self.group, width)
        if width % among or width * self.bits % 8:
            raise UserError(
                f"group={self.group} does not part values of width {width}: choose a divisor of it"
            )
        return among

    def sizes(self, seen: int) -> Sizes:
        """Groups of tokens are packed, the rest is not."""
        packed = seen // self.group * self.group
        rest = seen - packed
        return {
            "key_codes": (3, packed * self.bits // 8),
            "key_scale": (3, packed // self.group),
            "key_zero": (3, packed // self.group),
            "value_codes": (2, packed),
            "value_scale": (2, packed),
            "value_zero": (2, packed),
            "keys": (2, rest),
            "values": (2, rest),
        }
