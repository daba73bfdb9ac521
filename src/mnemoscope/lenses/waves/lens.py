"""All lenses on position waves in one reading: spectra, heads, directions, survival, filters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.activations.fixed_length import cut
from mnemoscope.core.progress import progress
from mnemoscope.lenses.heads.factors import factor
from mnemoscope.lenses.heads.lens import Heads, PositionLens
from mnemoscope.lenses.positions.position_table import position_table
from mnemoscope.lenses.spectrum.lens import Spectrum
from mnemoscope.lenses.waves.bands import effects
from mnemoscope.lenses.waves.columns import columns
from mnemoscope.lenses.waves.propagation import SITES, Norms, Propagation, residual_norms
from mnemoscope.lenses.waves.recovery import Recovery
from mnemoscope.lenses.waves.result import WavesOptions, WavesResult
from mnemoscope.lenses.waves.shifts import shifted
from mnemoscope.open import open_reader

# Heads whose columns are shown, and texts on which waves are shifted.
SHOWN, SHIFTED = 4, 8


class Waves(PositionLens):
    """Look for position waves in a model: ``observe`` it reading texts, then ``result``.

    ``length`` tokens are read at once, ``texts`` of them at most; filters are tried on ``filtered``
    of them, which are read once for each filter. The other options are those of
    `mnemoscope.lenses.heads.lens.Heads` and `mnemoscope.lenses.spectrum.lens.Spectrum`.
    """

    title = "Position waves"
    question = "How do the heads of {models} know how far away a token is?"
    Options, Result = WavesOptions, WavesResult

    def __init__(
        self,
        *,
        length: int = 256,
        texts: int = 200,
        filtered: int = 10,
        window: int = 64,
        frequencies: int | None = None,
        reach: int = 16,
        paper: int = 4,
    ) -> None:
        self.length, self.texts, self.filtered = length, texts, filtered
        options: dict[str, Any] = {"window": window, "frequencies": frequencies}
        self.heads = Heads(length=length, texts=texts, reach=reach, paper=paper, **options)
        self.spectrum, self.recovery = Spectrum(**options), Recovery()
        self.norms = Norms()
        self.propagation: Propagation | None = None

    def observe(
        self,
        model: Any,
        inputs: Any,
        *,
        tokenizer: Any = None,
        batch: int = 8,
        silent: bool = False,
    ) -> None:
        """Let the model read texts, token ids, or tensors (N, T)."""
        self.reader = reader = open_reader(model, tokenizer)
        self.fixed = fixed = cut(reader, inputs, self.length, self.texts)
        self.heads.begin(reader, fixed)
        table = position_table(reader.model, fixed.tokens.shape[1])
        if table is not None:
            path = residual_norms(reader, fixed.tokens[:1])
            self.norms = Norms(path, table.shape[1])
            self.propagation = Propagation(table[fixed.kept], self.norms)
        total = -(-len(fixed.tokens) // batch)
        with progress("reading", total, silent=silent) as show:
            for number, tokens in enumerate(fixed.batches(batch), start=1):
                with self.norms.watching(reader.model, fixed.kept):
                    seen = self.heads.read_batch(tokens, SITES)
                self._take(seen)
                show(number, "")
        self.heads.explain()

    def _take(self, seen: dict[str, Tensor]) -> None:
        inside = {name: values for name, values in seen.items() if ".attention." in name}
        self.spectrum.observe({"embeddings": seen["embeddings"], **inside})
        self.recovery.observe({name: v for name, v in inside.items() if name.endswith(".in")})
        if self.propagation is not None:
            names = [name for name in seen if name not in inside]
            self.propagation.observe({name: seen[name] for name in names})

    @torch.no_grad()
    def result(self) -> WavesResult:
        """What was seen."""
        heads = self.heads.result()
        few, means = self.fixed.some(self.filtered), self.heads.means()
        followed = self.propagation
        norms = self.norms.result(None if followed is None else followed.table)
        return WavesResult(
            model=self.reader.name,
            spectrum=self.spectrum.result(),
            heads=heads,
            recovery=self.recovery.result(self._directions()),
            propagation=None if followed is None else followed.result(),
            norms={norm.path: norm.spread for norm in norms},
            bands=effects(self.reader, few, means, self.heads.variances()),
            norm_fits=norms,
            shift=shifted(self.reader, few.some(SHIFTED), means, reach=self.heads.reach),
            columns=columns(self.reader, few, means, heads.strongest(SHOWN)),
        )

    def _directions(self) -> dict[str, dict[str, Tensor]]:
        """As many directions as PCA has: columns of W_Q with most weight, and singular vectors."""
        count = self.recovery.directions
        found: dict[str, dict[str, Tensor]] = {}
        for number, weights in self.heads.weights.items():
            site = f"layer.{number}.attention.in"
            columns = weights.query[:, :-1].double().transpose(0, 1).flatten(1)  # (D, H E)
            best = columns.norm(dim=0).topk(min(count, columns.shape[1])).indices
            found.setdefault("columns of W_Q", {})[site] = columns[:, best].cpu()
            parts = factor(weights)
            values = parts.values.flatten()
            best = values.topk(min(count, len(values))).indices
            left = parts.left[:, :-1].transpose(0, 1).flatten(1)
            found.setdefault("singular vectors of W_Q W_Kᵀ", {})[site] = left[:, best].cpu()
        return found
