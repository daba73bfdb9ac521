"""How much of what was read can be read off a state, by age and by frequency.

Shapes: B rows, A ages (windows), L tokens a window, F features of a state, C channels.

Random streams are read, and ridge regression predicts from the state at the end what the tokens
of every window were, as waves: component 0 is the mean of a window, the last ones are changes from
token to token. It asks nothing of the memory but a state, so it works for all of them; what it
finds is what a linear reader can find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.core.seeds import derive
from mnemoscope.lenses.horizon.result import FOLDS, HorizonOptions, HorizonResult
from mnemoscope.lenses.lens import Lens
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.infinite.horizon import directions
from mnemoscope.memories.infinite.long_term import plan_of
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.model import SequenceModel, StreamState
from mnemoscope.open import open_stream

# Penalties tried, relative to the mean variance of a feature; the best on held-out rows counts.
PENALTIES = (1e-4, 1e-2, 1.0)
# Sums over rows: features × features, × targets, × targets of the row before; targets squared. The
# last feature is 1, so that sums of targets and the number of rows are among them.
Moments = tuple[Tensor, ...]


class Horizon(Lens):
    """Watch a state: ``observe`` batches of random streams, then ``result``."""

    title = "Horizon"
    question = "What can be read off the state of {models}, and how long after it was read?"
    Options, Result = HorizonOptions, HorizonResult
    reads = "nothing"

    @classmethod
    def measure(
        cls, models: Sequence[Any], texts: Sequence[str], options: HorizonOptions
    ) -> HorizonResult:
        """Let one model read random streams."""
        stream = open_stream(models[0])
        model = stream.call
        if not isinstance(model, SequenceModel):
            raise UserError(
                "horizon reads the states of models built here: "
                f"{stream.name} is a model of transformers"
            )
        length, batch = options.window * options.windows, min(options.batch, options.rows // FOLDS)
        if stream.limit is not None and length > stream.limit:
            raise UserError(
                f"{stream.name} can read {stream.limit} tokens in one stream, not {length}: ask "
                "for fewer or shorter windows"
            )
        lens = cls(**options.model_dump(include={"window", "channels", "features", "segment"}))
        rng = np.random.default_rng(derive(options.seed, "horizon"))
        steps = -(-options.rows // batch)
        with progress("reading", steps) as show:
            for step in range(1, steps + 1):
                ids = torch.from_numpy(rng.integers(stream.vocab, size=(batch, length)))
                lens.observe(model, ids.to(stream.device))
                show(step, "")
        return lens.result()

    def __init__(
        self,
        window: int = 16,
        *,
        channels: int = 4,
        features: int = 512,
        segment: int | None = None,
    ) -> None:
        """Windows of ``window`` tokens; streams are read ``segment`` (one window) at a time.

        Of what a token is, ``channels`` random projections of its embedding are asked for; of a
        state with more numbers than ``features``, as many random projections are used.
        """
        if window < 2 or channels < 1 or features < 1:
            raise UserError(f"window must be at least 2, all else positive: {window=} {channels=}")
        self.window, self.channels, self.features = window, channels, features
        self.segment = segment or window
        self._batches = 0
        self._rows = 0
        self._ages = 0
        self._expected: Ints = np.empty(0, dtype=np.int64)
        self._folds: dict[int, Moments] = {}
        self._mixing: Tensor | None = None

    @torch.no_grad()
    def observe(self, model: SequenceModel, tokens: Tensor) -> None:
        """Read tokens (B, A · L), random ones, from the beginning of a stream."""
        rows, total = tokens.shape
        ages = total // self.window
        if total % self.window or ages < 1 or rows < 2:
            raise UserError(
                f"horizon needs at least 2 rows and whole windows of {self.window} tokens; "
                f"got {rows} rows of {total}"
            )
        if self._batches and ages != self._ages:
            raise UserError(f"{ages} windows here and {self._ages} before: use one lens per length")
        state: StreamState | None = None
        with evaluating(model):
            for part in torch.split(tokens, self.segment, 1):
                state = model(part, state).state
        assert state is not None
        features = self._features(state)
        targets = self._targets(model.embedding.weight, tokens)
        self._ages, self._rows = ages, self._rows + rows
        if not self._batches:
            self._expected = self._algebra(model, ages)
        fold = self._batches % FOLDS
        found = _moments(features, targets)
        self._folds[fold] = _total([self._folds[fold], found]) if fold in self._folds else found
        self._batches += 1

    def result(self) -> HorizonResult:
        """What was seen so far; at least four batches, and more rows than features."""
        folds = list(self._folds.values())
        if len(folds) < FOLDS:
            raise UserError(f"horizon needs {FOLDS} batches or more, it saw {self._batches}")
        size = len(folds[0][0])
        if self._rows < 2 * size:
            raise UserError(
                f"{self._rows} rows are too few for {size} features of the state: observe at least "
                f"{2 * size}, or take fewer features"
            )
        others = [_total(folds[:one] + folds[one + 1 :]) for one in range(FOLDS)]
        real, null = (
            np.stack([_explained(*both, shuffled) for both in zip(others, folds, strict=True)])
            for shuffled in (False, True)
        )
        shape = (FOLDS, self._ages, self.window, self.channels)
        kept, chance = (v.reshape(shape).mean(3) for v in (real, null))
        # The newest window comes last in the stream and first here.
        kept, chance = kept[:, ::-1], chance[:, ::-1]
        ages = self.window * np.arange(self._ages)
        return HorizonResult(
            ages, kept.mean(0), kept.min(0), kept.max(0), chance.mean(0), self._expected,
            (self._rows, size),
        )  # fmt: skip

    def _features(self, state: StreamState) -> Tensor:
        """The state as (B, F) float64, a constant included."""
        rows = state.batch
        parts = [t.reshape(rows, -1).double() for _, t in state.tensors() if t.is_floating_point()]
        flat = torch.cat(parts, 1).cpu()
        if flat.shape[1] > self.features:
            if self._mixing is None or len(self._mixing) != flat.shape[1]:
                generator = torch.Generator().manual_seed(0)
                shape = flat.shape[1], self.features
                self._mixing = torch.randn(shape, generator=generator, dtype=torch.float64)
                self._mixing /= flat.shape[1] ** 0.5
            flat = flat @ self._mixing
        return torch.cat((flat, torch.ones(rows, 1, dtype=torch.float64)), 1)

    def _targets(self, embedding: Tensor, tokens: Tensor) -> Tensor:
        """Every window as waves, (B, A · L · C)."""
        table = embedding.double().cpu()
        table = (table - table.mean(0)) / table.std(0).clamp(min=1e-9)
        generator = torch.Generator().manual_seed(1)
        shape = table.shape[1], self.channels
        table = table @ torch.randn(shape, generator=generator, dtype=torch.float64)
        said = table[tokens.cpu()]
        windows = said.view(len(said), -1, self.window, self.channels)  # (B, A, L, C)
        return torch.einsum("wl,balc->bawc", waves(self.window), windows).flatten(1)

    def _algebra(self, model: SequenceModel, ages: int) -> Ints:
        config = model.config
        if not isinstance(config, Infinite) or config.layers > 1 or config.sticky:
            return np.empty(0, dtype=np.int64)
        if config.mem_len or config.compressed_len or config.chunk != self.window:
            return np.empty(0, dtype=np.int64)
        return directions(plan_of(config), self.window, ages)


def waves(length: int) -> Tensor:
    """The orthonormal real Fourier basis: mean, then cos and sin of 1, 2 … cycles, (L, L)."""
    steps = torch.arange(length, dtype=torch.float64)
    rows = [torch.ones(length, dtype=torch.float64)]
    for wave in range(1, length):
        angles = 2 * torch.pi * ((wave + 1) // 2) * steps / length
        rows.append(angles.cos() if wave % 2 else angles.sin())
    return torch.stack([row / torch.linalg.vector_norm(row) for row in rows])


def _moments(features: Tensor, targets: Tensor) -> Moments:
    other = targets.roll(1, 0)
    products = (features.T @ columns for columns in (features, targets, other))
    return (*products, targets.square().sum(0))


def _total(folds: Sequence[Moments]) -> Moments:
    return tuple(torch.stack(sums).sum(0) for sums in zip(*folds, strict=True))


def _explained(learn: Moments, held: Moments, shuffled: bool) -> Floats:
    """Share of the variance of held-out targets that ridge regression predicts, per target."""
    known, products = learn[0], learn[2 if shuffled else 1]
    gram, targets, others, squares = held
    cross = others if shuffled else targets
    variance = squares - targets[-1].square() / gram[-1, -1]
    best: Floats = np.full(len(variance), -np.inf)
    scale = float(known.diagonal()[:-1].mean())
    mean_free = torch.ones(len(known), dtype=torch.float64)
    mean_free[-1] = 0  # the constant is not penalised
    for penalty in PENALTIES:
        ridge = known + torch.diag(penalty * scale * mean_free + 1e-9)
        weights = torch.linalg.solve(ridge, products)
        error = squares - 2 * (weights * cross).sum(0)
        error = error + (weights * (gram @ weights)).sum(0)
        best = np.maximum(best, (1 - error / variance.clamp(min=1e-12)).numpy())
    return best
