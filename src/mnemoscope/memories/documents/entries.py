"""Memory by document: entries that a document switches on or off (Park & Choi 2024).

    MLP_doc(x) = V (key_token(x) ⊙ act(g(K))) + b

A token asks for entries, its document decides which of them answer, and their values are added to
the residual stream.

Shapes: R rows, T tokens, D width, N documents, E entries, K size of a representation, V words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.errors import UserError

Select = Literal["tanh", "relu", "sigmoid"]
Start = Literal["orthogonal", "random", "small", "tfidf", "shingles", "hidden"]
Control = Literal["none", "all", "random", "disjoint", "bias"]

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}


def choose(keys: Tensor, layers: Sequence[tuple[Tensor, Tensor]], select: Select) -> Tensor:
    """act(g(K)): representations (N, K) -> how far each entry is open, (N, E).

    ``layers`` are weights and biases of g; one of them is the linear map of the paper, more of
    them have a ReLU in between.
    """
    for place, (weight, bias) in enumerate(layers):
        keys = F.linear(torch.relu(keys) if place else keys, weight, bias)
    return ACTIVATIONS[select](keys)


def ask(vectors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """key_token(x): vectors (R, T, D) -> how much each token asks of each entry, (R, T, E)."""
    return F.gelu(F.linear(vectors, weight, bias))


def answer(asked: Tensor, chosen: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """V (asked ⊙ chosen) + b: asked (R, T, E), chosen (R, E), values (D, E) -> (R, T, D)."""
    return F.linear(asked * chosen[:, None], values, bias)


def starting_keys(count: int, size: int, start: Start, generator: torch.Generator) -> Tensor:
    """Representations (N, K) to begin with.

    random      every coordinate from N(0, 1)
    small       a hundredth of that
    orthogonal  rows at right angles as far as there is room, each of length √2, whatever K is
    """
    noise = torch.randn(count, size, generator=generator)
    if start == "random":
        return noise
    if start == "small":
        return 0.01 * noise
    if start != "orthogonal":
        raise UserError(f"start {start!r} needs the text: give the documents, not their number")
    rows = []
    for part in torch.split(noise, size):
        # Q of a tall matrix has orthonormal columns: as many as there are documents in the part.
        basis, triangle = torch.linalg.qr(part.T)
        rows.append((basis * triangle.diagonal().sign()).T)
    return math.sqrt(2) * torch.cat(rows)


def control_masks(count: int, entries: int, control: Control, generator: torch.Generator) -> Tensor:
    """Masks (N, E) that nobody learns: what a learned selection must be compared with.

    all       every entry is open to every document
    random    a random half of them
    disjoint  each document has entries of its own
    bias      each document has one entry, which every token asks for alike: one added vector
    """
    if control == "all":
        return torch.ones(count, entries)
    if control == "random":
        order = torch.rand(count, entries, generator=generator).argsort(1)
        return (order < (entries + 1) // 2).float()
    own = entries // max(count, 1)
    if control == "bias":
        own = min(own, 1)
    if own == 0:
        raise UserError(
            f"{entries} entries cannot be shared out to {count} documents: give at least {count}"
        )
    masks = torch.eye(count).repeat_interleave(own, 1)
    return F.pad(masks, (0, entries - count * own))


def unit(vectors: Tensor) -> Tensor:
    """Scale rows (N, K) to length √2, as long as the orthogonal start makes them."""
    length: Tensor = vectors.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return math.sqrt(2) * vectors / length


def project(vectors: Tensor, size: int, seed: int = 0) -> Tensor:
    """Random projection of (N, D) to (N, K) that depends on D, K and the seed only."""
    generator = torch.Generator().manual_seed(seed)
    return unit(vectors.float() @ torch.randn(vectors.shape[1], size, generator=generator))
