"""How heads look at relative positions: scores by offset, delays, the parts that carry them.

After Yamamoto and Matsuzaki 2023 ("Absolute Position Embedding Learns Sinusoid-like Waves for
Attention Based on Relative Position"), with biases, on any model with queries and keys.
Shapes: B texts, H heads, T positions, E width of a head, D width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.attention_inputs import (
    AttentionInputs,
    attentions,
    capture_attention_inputs,
)
from mnemoscope.activations.fixed_length import FixedLengthTexts, by_position, cut
from mnemoscope.activations.hooks import Seen, watch
from mnemoscope.activations.weights import HeadWeights, head_weights
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.heads.components import components, periods
from mnemoscope.lenses.heads.factors import factor, paper_shift
from mnemoscope.lenses.heads.offsets import Offsets, delays, lags
from mnemoscope.lenses.heads.result import (
    TERMS,
    Components,
    HeadsOptions,
    HeadsResult,
    PositionOptions,
    Rotary,
)
from mnemoscope.lenses.heads.score_decomposition import decompose
from mnemoscope.lenses.heads.summary import ShiftByR, strongest
from mnemoscope.lenses.heads.sums import LayerSums
from mnemoscope.lenses.inputs import FixedLength, FixedLengthLens
from mnemoscope.lenses.positions.frequencies import window_size
from mnemoscope.lenses.positions.position_table import position_table
from mnemoscope.open import Reader, open_reader


class PositionLens(FixedLengthLens):
    """A lens that cuts texts itself, to ``length`` tokens, at most ``texts`` of them."""

    @classmethod
    def made(cls, given: FixedLength, options: PositionOptions) -> Self:
        """A fresh lens with these options."""
        read = {"length": given.length, "texts": given.count}
        return cls(**read, **options.chosen())

    @abstractmethod
    def observe(self, model: Any, inputs: Any) -> None:
        """Let the model read texts, token ids, or tensors (N, T)."""

    def read(self, given: FixedLength, options: PositionOptions) -> None:
        """Observe the model reading all texts."""
        self.observe(given.reader, given.texts)


class Heads(PositionLens):
    """Look at the heads of a model: ``observe`` it reading texts, then ``result``.

    Texts are joined and cut to ``length`` tokens, at most ``texts`` of them. Offsets up to
    ``reach`` are shown; spectra have windows of ``window`` positions; ``frequencies`` asks for at
    least so many. ``parts`` components of every head are kept; the terms of the scores are
    computed on ``explained`` texts, the paper's shift for the ``paper`` strongest heads.
    """

    title = "Heads"
    question = "How does the attention of the heads of {models} depend on relative positions?"
    Options, Result = HeadsOptions, HeadsResult

    def __init__(
        self,
        *,
        length: int = 256,
        texts: int = 200,
        reach: int = 16,
        window: int = 64,
        frequencies: int | None = None,
        parts: int = 4,
        explained: int = 8,
        paper: int = 4,
    ) -> None:
        if min(reach, parts, explained) < 1 or texts < 2:
            raise UserError("reach, parts and explained must be at least 1, texts at least 2")
        self.length, self.texts, self.reach = length, texts, reach
        self.window, self.frequencies = window, frequencies
        self.parts, self.explained, self.paper = parts, explained, paper
        self.layers: dict[int, LayerSums] = {}
        self._without = ""

    def observe(self, model: Any, inputs: Any, *, tokenizer: Any = None, batch: int = 8) -> None:
        """Let the model read texts, token ids, or tensors (N, T)."""
        reader = open_reader(model, tokenizer)
        fixed = cut(reader, inputs, self.length, self.texts)
        self.begin(reader, fixed)
        for tokens in fixed.batches(batch):
            self.read_batch(tokens)
        self.explain()

    def begin(self, reader: Reader, fixed: FixedLengthTexts) -> None:
        """Get ready for a model and the texts that it will read."""
        if self.layers:
            raise UserError("a lens on heads looks at one model once: make another")
        attentions(reader.model)  # none is an error here and now
        self.reader, self.fixed = reader, fixed
        self.size = window_size(fixed.positions, self.window, self.frequencies)
        self.weights: dict[int, HeadWeights] = {}
        try:
            self.weights = head_weights(reader, fixed.tokens)
        except UserError as error:
            # All that is read off scores can be had without weights; the result says what cannot.
            self._without = str(error)

    @torch.no_grad()
    def read_batch(self, tokens: Tensor, sites: tuple[str, ...] = ()) -> Seen:
        """Let the model read a batch (B, T).

        Comes back what queries and keys were made from, they themselves, and ``sites``: (B, T', D).
        """
        model, kept = self.reader.model, self.fixed.kept
        made: Seen = {}

        def take(captured: AttentionInputs) -> None:
            captured = captured.kept(kept)
            name = f"layer.{captured.layer}.attention"
            if f"{name}.q" in made:
                raise UserError(
                    f"layer {captured.layer} is run more than once in one reading (its weights are "
                    "tied to those of other layers): what it did in each cannot be told apart"
                )
            self._take(captured)
            made[f"{name}.q"] = captured.queries.transpose(1, 2).flatten(2)
            made[f"{name}.k"] = captured.keys[:, :: captured.shared].transpose(1, 2).flatten(2)

        with (
            watch(model, ["layer.*.attention.in", *sites]) as seen,
            capture_attention_inputs(model, take),
        ):
            self.reader.read(tokens)
        laid = {n: by_position(n, v, tokens.shape)[:, kept] for n, v in seen.items()} | made
        for number, layer in self.layers.items():
            layer.add_inputs(laid[f"layer.{number}.attention.in"])
        return laid

    def _take(self, captured: AttentionInputs) -> None:
        if not bool(torch.isfinite(captured.queries).all() and torch.isfinite(captured.keys).all()):
            raise UserError(f"layer {captured.layer} holds NaN or infinite values")
        if captured.layer not in self.layers:
            weights = self.weights.get(captured.layer)
            # Layers see alike, as a rule: the fit by offset is prepared once.
            known = next(iter(self.layers.values()), None)
            if known is not None and torch.equal(known.offsets.visible, captured.visible.cpu()):
                offsets = known.offsets
            else:
                offsets = Offsets(captured.visible)
            self.layers[captured.layer] = LayerSums(captured, offsets, weights)
        self.layers[captured.layer].add_scores(captured)

    @torch.no_grad()
    def explain(self) -> None:
        """Read a few texts again, now that means are known, and part words from positions."""
        means = self.means()
        found: dict[int, list[Tensor]] = {number: [] for number in means}

        def take(captured: AttentionInputs) -> None:
            layer = self.layers[captured.layer]
            few = captured.kept(self.fixed.kept)
            found[captured.layer].append(decompose(few, *means[captured.layer], layer.offsets))

        with capture_attention_inputs(self.reader.model, take):
            for tokens in self.fixed.some(self.explained).batches(4):
                self.reader.read(tokens)
        # (texts, terms and all, H) -> shares (terms, H)
        self.shares = {n: torch.cat(parts).sum(0) for n, parts in found.items()}

    def means(self) -> dict[int, tuple[Tensor, Tensor]]:
        """Mean queries and keys by position, each (H, T, E), by layer."""
        return {n: (one.mean("q"), one.mean("k")) for n, one in self.layers.items()}

    def variances(self) -> dict[int, tuple[Tensor, Tensor]]:
        """Variances of queries and keys over all tokens, each (H,), by layer."""
        return {n: (one.variance("q"), one.variance("k")) for n, one in self.layers.items()}

    def result(self) -> HeadsResult:
        """What was seen so far."""
        if not self.layers:
            raise UserError("nothing was observed yet: call observe(model, texts) first")
        layers = [self.layers[number] for number in sorted(self.layers)]
        count = layers[0].queries.count
        near = np.abs(layers[0].offsets.offsets) <= self.reach
        arrays = _stacked([self._layer(layer, near) for layer in layers])
        explained = np.array([self.shares[n].numpy() for n in sorted(self.layers)])  # (L, 7, H)
        whole = np.maximum(explained[:, -1], 1e-300)
        return HeadsResult(
            model=self.reader.name,
            texts=count,
            positions=self.fixed.positions,
            offsets=layers[0].offsets.offsets[near].astype(np.float64),
            terms={name: explained[:, which] / whole for which, name in enumerate(TERMS)},
            shared=layers[0].shared,
            components=self._components(),
            rotary=self._rotary(layers, count),
            without=self._without,
            paper=self._paper(arrays["relative"]),
            **arrays,
        )

    def _layer(self, layer: LayerSums, near: Any) -> dict[str, Any]:
        offsets, count = layer.offsets, layer.queries.count
        visible = near & (offsets.counts > 0).numpy()
        queries, keys = layer.mean("q"), layer.mean("k")
        mean = layer.scores / count
        energy = (layer.energy / count).clamp(min=1e-300)
        position = queries @ keys.transpose(1, 2) * layer.scale
        if layer.bias is not None:
            position = position + layer.bias.cpu().double()
        position = offsets.centre(position)
        function, explained = offsets.fit(position)
        halves = layer.halves("q"), layer.halves("k")
        delay, coherence, _ = delays(*halves, self.size)
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randperm(keys.shape[1], generator=generator) for _ in range(3)]
        null = [delays(halves[0], halves[1][:, :, order], self.size)[1] for order in orders]
        measured = offsets.means(layer.attention / count).numpy()[:, near]
        predicted = offsets.means(offsets.softmax(offsets.spread(function))).numpy()[:, near]
        flat = offsets.means(offsets.softmax(torch.zeros_like(mean[:1]))).numpy()[:, near]
        apart = np.nansum((measured - predicted) ** 2, 1)
        spread = np.nansum((measured - flat) ** 2, 1)
        return {
            "relative": (offsets.fit(mean)[1] / energy).numpy(),
            "relative_null": (offsets.fit(offsets.shuffled(mean))[1] / energy).numpy(),
            "position_relative": (
                explained / position.square().sum((1, 2)).clamp(min=1e-300)
            ).numpy(),
            "delay": delay,
            "lag": lags(*halves, self.size, offsets.offsets[visible].astype(np.float64)),
            "coherence": coherence,
            "coherence_null": np.mean(null, 0),
            "measured": measured,
            "predicted": predicted,
            "flat": flat[0],
            "fit": 1 - apart / np.maximum(spread, 1e-300),
        }

    def _components(self) -> Components | None:
        if not self.weights:
            return None
        table = position_table(self.reader.model, self.fixed.tokens.shape[1])
        table = None if table is None else table[self.fixed.kept]
        found = [
            components(factor(self.weights[n]), self.layers[n].inputs.mean(), table, self.parts)
            for n in sorted(self.layers)
        ]
        both = _stacked(found)
        return Components(**both, periods=periods(both["left"], both["right"]))

    def _rotary(self, layers: list[LayerSums], count: int) -> Rotary | None:
        rotary = [one.rotary for one in layers if one.rotary is not None]
        if not rotary:
            return None
        found = [one.result(count) for one in rotary]
        relative, null, share = (np.array([one[which] for one in found]) for which in range(3))
        return Rotary(relative, null, rotary[0].periods, share)

    def _paper(self, relative: Floats) -> list[ShiftByR]:
        """Only for plain weights: what rotary positions turn has no fixed R."""
        if not self.weights or any(one.rotary is not None for one in self.layers.values()):
            return []
        shifts = []
        for layer, head in strongest(relative, self.paper):
            weights, inputs = self.weights[layer], self.layers[layer].inputs.mean()
            found = paper_shift(weights.query[head, :-1], weights.key[head, :-1], inputs)
            shifts.append(ShiftByR(layer, head, found))
        return shifts


def _stacked(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Arrays of layers by name, as arrays (L, …)."""
    return {name: np.array([one[name] for one in layers]) for name in layers[0]}
