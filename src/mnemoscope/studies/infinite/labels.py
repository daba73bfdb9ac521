"""What readers of the page see of what reads the novels. Imports no torch."""

from __future__ import annotations

LABELS = {
    "floor": "window alone",
    "ceiling": "whole context",
    "carried": "keys of half a window carried",
    "transformer_xl": "Transformer-XL's cache",
    "compressive": "Compressive Transformer's means",
    "even": "∞-former, evenly sampled",
    "sticky": "∞-former, sticky",
    "lora": "LoRA without memory, trained",
    "added": "∞-former's densities, trained",
    "added_sticky": "the same, sticky",
    "added_kl": "the same, KL",
    "added_gate": "the same, gate",
    "added_everywhere": "the same, in all layers",
    "added_published": "the same, all of the published recipe",
}
# What learns from other novels, the rival without memory first.
LEARNT = ("lora", *(kind for kind in LABELS if kind.startswith("added")))
