"""What readers of the page see of what reads the novels. Imports no torch."""

from __future__ import annotations

LABELS = {
    "floor": "window alone",
    "ceiling": "whole context",
    "carried": "keys of half a window carried",
    "transformer_xl": "Transformer-XL's cache",
    "compressive": "Compressive Transformer's",
    "even": "∞-former, evenly sampled",
    "sticky": "∞-former, sticky",
    "added": "∞-former's densities, trained",
    "lora": "LoRA without memory, trained",
}
