"""How much of the position embeddings survives on the way up, and who takes the rest away.

Shapes: B texts, T positions, D width.

A layer norm of x + P is (x + P − mean) / std · gain + bias: what was added at position t is scaled
by that token's 1 / std from the left and by the gain from the right. So if nothing else happened to
them, positions would arrive as S P L with diagonal S and L, both of which the norm tells: S is
measured, L are its weights. S is one number a token, so it commutes with all that norms do to
columns, and P carried through the norms alone is the product of all S times P through all L. Held
against that, two things can be told apart: how far S makes something else of the waves
(`PropagationResult.whole`), and how much of them attention and feed-forward parts have taken away
(`PropagationResult.kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.activations.hooks import watch
from mnemoscope.activations.sites import stacks
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.positions.fourier import only_band
from mnemoscope.lenses.positions.means import PositionMeans
from mnemoscope.lenses.waves.bands import octaves
from mnemoscope.lenses.waves.result import PropagationResult
from mnemoscope.lenses.waves.summary import NormFit
from mnemoscope.open import Reader

SITES = ("embeddings", "layer.*.out")


@dataclass(eq=False)
class NormSums:
    """What is kept of one norm while texts go by.

    scales    (5, T) sums over texts: 1 / std, of std and its square, then of the product of all
              1 / std on the way here and of its square
    """

    module: Any
    on_path: bool
    scales: Tensor
    count: int = 0
    inputs: PositionMeans = field(default_factory=PositionMeans)
    outputs: PositionMeans = field(default_factory=PositionMeans)

    @property
    def centres(self) -> bool:
        """A layer norm takes the mean off, an RMS norm does not."""
        return "RMS" not in type(self.module).__name__

    def through(self, vectors: Tensor) -> Tensor:
        """What the norm makes of (T, D) but for S: centred, times the gain."""
        gain = getattr(self.module, "weight", None)
        vectors = vectors - vectors.mean(-1, keepdim=True) if self.centres else vectors
        return vectors if gain is None else vectors * gain.detach().cpu().double()

    def spread(self) -> float:
        """Std over mean, over tokens, of the std that is divided by."""
        _, total, squares, *_ = self.scales.mean(1) / self.count
        return float((squares - total**2).clamp(min=0).sqrt() / total.clamp(min=1e-300))

    def whole(self, vectors: Tensor) -> float:
        """Share of the energy of (T, D) that is still in its shape when S has scaled its rows.

        In single texts: (Σ E[s] p²)² / (Σ p² · Σ E[s²] p²) with p² the energy at a position.
        """
        energy = (vectors - vectors.mean(0)).square().sum(1)
        mean, square = self.scales[3:] / self.count
        most = energy.sum() * (square * energy).sum()
        return float((mean * energy).sum() ** 2 / most.clamp(min=1e-300))


class Norms:
    """All norms of a model: ``watching`` it read, then ``result``.

    ``path`` says, by site, through which norms the sum of all layers has come there, as
    `residual_norms` finds it; ``width`` is that of the norms whose inputs and outputs are kept.
    """

    def __init__(
        self, path: Mapping[str, tuple[str, ...]] | None = None, width: int | None = None
    ) -> None:
        self.path, self.width = dict(path or {}), width
        self.seen: dict[str, NormSums] = {}

    @contextmanager
    def watching(self, model: nn.Module, kept: slice) -> Iterator[None]:
        """Look at every norm of ``model`` inside the block, in one reading, at positions kept."""
        on_path = {path for paths in self.path.values() for path in paths}
        carried: Tensor | float = 1.0

        def take(path: str, module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
            nonlocal carried
            if not given or given[0].dim() != 3:
                return
            vectors = given[0][:, kept].detach()
            known = self.seen.get(path)
            if known is None:
                room = torch.zeros(5, vectors.shape[1], dtype=torch.float64)
                known = self.seen[path] = NormSums(module, path in on_path, room)
            wide = vectors.cpu().double()
            variance = (
                wide.var(-1, correction=0) if known.centres else wide.square().mean(-1)
            ) + float(getattr(module, "eps", getattr(module, "variance_epsilon", 0.0)) or 0.0)
            std = variance.sqrt()
            product = carried / std
            if known.on_path:
                carried = product
            new = torch.stack((1 / std, std, variance, product, product.square()))
            known.scales += new.sum(1)
            known.count += len(std)
            if self.width == vectors.shape[2]:
                known.inputs.add(vectors)
                known.outputs.add(output[:, kept])

        with _after_norms(model, take):
            yield

    def result(self, table: Tensor | None = None) -> tuple[NormFit, ...]:
        """Norm by norm, in the order in which they are called; ``table`` (T, D) is followed."""
        found = []
        carried = None if table is None else table.double()
        for path, norm in self.seen.items():
            numbers = [float("nan")] * 4
            if carried is not None and norm.inputs.count > 1:
                inside, out = norm.through(norm.inputs.mean()), _centred(norm.outputs.mean())
                scale = norm.scales[:1].T / norm.count
                after = norm.through(carried)
                numbers = [
                    _explained(out, _centred(scale * inside)),
                    _explained(out, _centred(scale.mean() * inside)),
                    scaled_fit(out, inside)[0],
                    norm.whole(after),
                ]
                carried = after if norm.on_path else carried
            found.append(NormFit(path, norm.on_path, norm.spread(), *numbers))
        return tuple(found)


class Propagation:
    """Follow position embeddings (T, D): ``observe`` sites laid out by position, then ``result``.

    A model that adds no positions to its words has none to follow. ``norms`` that have watched the
    same readings say what norms alone would make of them.
    """

    def __init__(self, table: Tensor | None, norms: Norms | None = None) -> None:
        if table is None:
            raise UserError(
                "this model adds no positions to its words (rotary, relative or none): there is "
                "nothing to follow"
            )
        self.table = table.double()
        self.norms = Norms() if norms is None else norms
        self.means: dict[str, PositionMeans] = {}

    def observe(self, seen: Mapping[str, Tensor]) -> None:
        """Take in (B, T, D) by site."""
        for site, values in seen.items():
            if values.shape[1:] != self.table.shape:
                raise UserError(
                    f"{site} has {tuple(values.shape[1:])} positions and dimensions, the position "
                    f"embeddings {tuple(self.table.shape)}"
                )
            self.means.setdefault(site, PositionMeans()).add(values)

    def result(self) -> PropagationResult:
        """What was seen so far."""
        if not self.means:
            raise UserError("nothing was observed yet: call observe(seen) for every batch first")
        order = torch.randperm(len(self.table), generator=torch.Generator().manual_seed(0))
        ramp = torch.linspace(-1, 1, len(self.table), dtype=torch.float64)[:, None]
        rows, bands = [], []
        for site, means in self.means.items():
            mean = _centred(means.mean())
            line = (mean * ramp).sum(0, keepdim=True) / ramp.square().sum() * ramp
            carried, whole = self._carried(site)
            carried = _centred(carried)
            rows.append(
                (
                    scaled_fit(mean, self.table)[0],
                    scaled_fit(mean, self.table[order])[0],
                    _explained(mean, line),
                    means.share(),
                    _explained(mean, carried),
                    _along(mean, carried),
                    whole,
                )
            )
            bands.append(
                [
                    _along(*(only_band(one, band.low, band.high) for one in (mean, carried)))
                    for band in octaves()[:-1]
                ]
            )
        return PropagationResult(tuple(self.means), *(*np.array(rows).T, np.array(bands)))

    def _carried(self, site: str) -> tuple[Tensor, float]:
        """P (T, D) through the norms on its way to a site alone, and how whole S has left it."""
        found, whole = self.table, 1.0
        scale: Tensor | float = 1.0
        for path in self.norms.path.get(site, ()):
            norm = self.norms.seen[path]
            found = norm.through(found)
            whole, scale = norm.whole(found), norm.scales[3:4].T / norm.count
        return scale * found, whole


@torch.no_grad()
def residual_norms(reader: Reader, tokens: Tensor) -> dict[str, tuple[str, ...]]:
    """By site, the norms that the sum of all layers goes through on its way there.

    Seen, not read off a config: where a layer gives what a norm in it gave, that sum is what its
    norms are given (post-norm); else norms stand beside it (pre-norm).
    """
    gave: dict[str, Tensor] = {}

    def take(path: str, module: nn.Module, given: Any, output: Tensor) -> None:
        gave[path] = output

    model = reader.model
    with _after_norms(model, take), watch(model, list(SITES)) as seen:
        reader.read(tokens)
    layers = stacks(model)[""]
    inside = {module: number for number, layer in enumerate(layers) for module in layer.modules()}
    of_layer: dict[int, list[str]] = {}
    for path in gave:
        of_layer.setdefault(inside.get(model.get_submodule(path), -1), []).append(path)
    found: dict[str, tuple[str, ...]] = {}
    passed: tuple[str, ...] = ()
    for site, number in [("embeddings", -1), *((f"layer.{n}.out", n) for n in range(len(layers)))]:
        value = seen[site]
        ends = [path for path in of_layer.get(number, []) if _same(gave[path], value)]
        if ends:
            # What stands outside the layers may come after them: only what gave the embeddings.
            own = ends if number < 0 else of_layer[number]
            passed = (*passed, *(path for path in own if gave[path].shape == value.shape))
        found[site] = passed
    return found


def scaled_fit(target: Tensor, table: Tensor, rounds: int = 300) -> tuple[float, Tensor, Tensor]:
    """The best S P L for (T, D) up to a constant row: R², s (T,), l (D,), by least squares in turn.

    Rows of P are scaled as they are: centred first, they could not give what S makes of their mean.
    """
    target, table = target.double(), table.double()
    left = torch.ones(len(table), 1, dtype=torch.float64)
    right, row = torch.ones(1, table.shape[1], dtype=torch.float64), target.mean(0, keepdim=True)
    reached = -1.0
    for turn in range(rounds):
        half = left * table
        centre = half.mean(0, keepdim=True)
        spread = (half - centre).square().sum(0, True).clamp(min=1e-300)
        right = ((half - centre) * target).sum(0, keepdim=True) / spread
        row = target.mean(0, keepdim=True) - right * centre
        half = table * right
        left = (half * (target - row)).sum(1, True) / half.square().sum(1, True).clamp(min=1e-300)
        if turn % 10 == 9:
            before, reached = reached, _explained(_centred(target), _centred(left * table * right))
            if reached - before < 1e-6:
                break
    return _explained(_centred(target), _centred(left * table * right)), left[:, 0], right[0]


@contextmanager
def _after_norms(model: nn.Module, take: Callable[..., None]) -> Iterator[None]:
    """Hand (path, module, what it is given, what it gives) of every norm to ``take``."""
    norms = {path: one for path, one in model.named_modules() if "Norm" in type(one).__name__}
    hooks = [one.register_forward_hook(partial(take, path)) for path, one in norms.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def _centred(vectors: Tensor) -> Tensor:
    """What changes with the position, of (T, D)."""
    return vectors - vectors.mean(0)


def _along(target: Tensor, found: Tensor) -> float:
    """How much of ``found`` is in the target: 1 when all of it is, and whatever else."""
    energy = float(found.square().sum())
    return float((target * found).sum()) / energy if energy > 0 else float("nan")


def _explained(target: Tensor, found: Tensor) -> float:
    """R² of (T, D), both centred."""
    whole = float(target.square().sum())
    return 1 - float((target - found).square().sum()) / whole if whole > 0 else float("nan")
