"""The weights of a document memory, and what they add to a hidden state.

Shapes: R rows, T tokens, D width, N documents, E entries, K size of a representation.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.huggingface.config import DocumentOptions
from mnemoscope.memories.documents import entries

# Numbers of one memory, 8 GiB of them.
MOST = 1 << 31


class DocumentStore(nn.Module):
    """Entries that tokens activate and documents open."""

    def __init__(self, options: DocumentOptions, width: int) -> None:
        super().__init__()
        self.options = options
        sizes = [options.key_dim, *[options.entries] * options.depth]
        numbers = 2 * options.entries * width + sum(a * b for a, b in pairwise(sizes))
        if numbers > MOST:
            raise UserError(
                f"entries={options.entries}, key_dim={options.key_dim} and depth={options.depth} "
                f"make {numbers:,} numbers, more than the {MOST:,} allowed: ask for fewer"
            )
        generator = torch.Generator().manual_seed(derive(options.seed, "entries"))

        def drawn(rows: int, columns: int) -> nn.Parameter:
            scale = 1 / math.sqrt(columns)
            return nn.Parameter(scale * torch.randn(rows, columns, generator=generator))

        # Hidden states differ in size by orders of magnitude between models and layers.
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.asking = drawn(options.entries, width)
        self.asking_bias = nn.Parameter(torch.zeros(options.entries))
        self.mapping = nn.ParameterList(drawn(after, before) for before, after in pairwise(sizes))
        self.mapping_bias = nn.ParameterList(
            nn.Parameter(torch.zeros(after)) for after in sizes[1:]
        )
        # Nothing is added before anything was learnt.
        self.values = nn.Parameter(torch.zeros(width, options.entries))
        self.bias = nn.Parameter(torch.zeros(width))
        self.keys = nn.Parameter(torch.zeros(0, options.key_dim), requires_grad=options.learned)
        self.register_buffer("masks", torch.zeros(0, options.entries))
        self.masks: Tensor
        # Where hidden states lie on the whole; representations read off them start from here.
        self.register_buffer("centre", torch.zeros(width))
        self.centre: Tensor

    def grow(self, keys: Tensor) -> None:
        """Add representations (n, K)."""
        before, device = len(self.keys), self.keys.device
        held = torch.cat((self.keys.data, keys.to(device)))
        self.keys = nn.Parameter(held, requires_grad=self.options.learned)
        if self.options.control != "none":
            generator = torch.Generator().manual_seed(derive(self.options.seed, "masks"))
            masks = entries.control_masks(
                len(held), self.options.entries, self.options.control, generator
            )
            self.masks = torch.cat((self.masks, masks[before:].to(device)))

    def selection(self) -> Tensor:
        """How far every document opens every entry, (N, E)."""
        return self.masks if self.options.control != "none" else self.chosen(self.keys)

    def chosen(self, keys: Tensor) -> Tensor:
        """act(g(K)) of representations (R, K): (R, E)."""
        layers = list(zip(self.mapping, self.mapping_bias, strict=True))
        return entries.choose(keys, layers, self.options.select)

    def activations(self, hidden: Tensor) -> Tensor:
        """How far hidden states (R, T, D) activate each entry, (R, T, E)."""
        if self.options.control == "bias":
            return hidden.new_ones(*hidden.shape[:2], self.options.entries).to(self.values)
        return entries.ask(self.norm(hidden.to(self.asking)), self.asking, self.asking_bias)

    def forward(self, hidden: Tensor, chosen: Tensor) -> Tensor:
        """hidden (R, T, D) with open entries (R, E) -> what is added to it, (R, T, D)."""
        return entries.answer(self.activations(hidden), chosen, self.values, self.bias)
