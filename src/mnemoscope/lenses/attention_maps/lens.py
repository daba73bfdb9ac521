"""Attention mass of the heads of a Sparse Transformer, layer by layer.

Shapes: L layers, B rows, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import capture
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.attention_maps.result import (
    LONGEST,
    AttentionMapsOptions,
    AttentionMapsResult,
)
from mnemoscope.lenses.inputs import NativeLens
from mnemoscope.memories.sparse.attention import SparseAttention
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.model import SequenceModel


class AttentionMaps(NativeLens):
    """Watch the attention of a model: ``observe`` batches of equal length, then ``result``."""

    title = "Attention maps"
    question = "Where does the attention of every layer of {models} go?"
    Options, Result = AttentionMapsOptions, AttentionMapsResult
    needs = "attention maps are those of a sparse model (pattern=dense sees everything)"
    batch = 4  # a map has T² numbers a head

    def __init__(self) -> None:
        self._patterns: tuple[str, ...] = ()
        self._sum: Floats = np.zeros(())
        self._even: Floats = np.zeros(())
        self._distances: list[Floats] = []

    def observe(self, model: SequenceModel, tokens: Tensor) -> None:
        """Read tokens (B, T) from the beginning of a stream and watch."""
        layers = self.check_layers(model)
        length = tokens.shape[1]
        if length > LONGEST:
            raise UserError(f"{length} tokens are too many to draw a map of; give {LONGEST}")
        with evaluating(model), torch.no_grad(), capture(model, "layers.*.attention.maps") as seen:
            model(tokens)
        maps = [seen[f"layers.{n}.attention.maps"] for n in range(len(layers))]
        self.see_heads(maps)
        weights = (
            torch.stack([one.mean(1) for one in maps], 1).double().cpu().numpy()
        )  # (B, L, T, T)
        if self._distances and self._sum.shape != weights.shape[1:]:
            raise UserError(
                f"layers and tokens are {weights.shape[1:3]} here and were {self._sum.shape[:2]} "
                "before: use one lens per length and per model"
            )
        apart = np.arange(length)[:, None] - np.arange(length)
        self._patterns = tuple("|".join(p.name for p in one.patterns) for one in layers)
        masks = [np.stack([p.mask(length) for p in one.patterns]) for one in layers]
        spread = [(mask / mask.sum(2, keepdims=True)).mean(0) for mask in masks]
        self._even = (np.stack(spread) * apart).sum(2).mean(1)
        self._distances.append((weights * apart).sum(3).mean(2))
        self._sum = self._sum + weights.sum(0)

    def see_heads(self, maps: Sequence[Tensor]) -> None:
        """Look at maps (B, H, T, T) of all layers before heads are averaged."""

    def check_layers(self, model: SequenceModel) -> list[SparseAttention]:
        """The attention of every layer, or `UserError` where it is not sparse."""
        layers = [getattr(layer, "attention", None) for layer in model.layers]
        found = [layer for layer in layers if isinstance(layer, SparseAttention)]
        if not found or len(found) != len(layers):
            raise UserError(f"{self.needs}: this is one with {model.config.memory} memory")
        return found

    def result(self) -> AttentionMapsResult:
        """What was seen so far."""
        if not self._distances:
            raise UserError("nothing was observed yet: call observe(model, tokens) first")
        distances = np.concatenate(self._distances)
        return AttentionMapsResult(
            self._patterns, self._sum / len(distances), distances, self._even
        )
