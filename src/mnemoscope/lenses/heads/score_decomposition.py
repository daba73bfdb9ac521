"""Scores parted into what positions and words bring, on either side.

Shapes: B texts, H heads, T positions, E width of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.activations.attention_inputs import AttentionInputs
from mnemoscope.lenses.heads.offsets import Offsets


def decompose(captured: AttentionInputs, queries: Tensor, keys: Tensor, offsets: Offsets) -> Tensor:
    """Energies of the row-centred parts of q · k, (B, 7, H): six terms, then the whole.

    ``queries`` and ``keys`` are means by position, (H, T, E). A query is its mean over all
    positions (constant), what its position adds to that, and what is left: the word. A key
    likewise; its constant part adds the same to a whole row and changes no attention. In the order
    of `mnemoscope.lenses.heads.result.TERMS`.
    """
    scale = captured.scale
    queries, keys = queries.to(captured.queries), keys.to(captured.keys)
    constant = queries.mean(1, keepdim=True)
    q_position, k_position = queries - constant, keys - keys.mean(1, keepdim=True)
    q_word, k_word = captured.queries - queries, captured.keys - keys
    pairs = [
        (q_position[None], k_position[None]),
        (q_position[None], k_word),
        (q_word, k_position[None]),
        (q_word, k_word),
        (constant[None].expand_as(q_position[None]), k_position[None]),
        (constant[None].expand_as(q_position[None]), k_word),
        (captured.queries, captured.keys),
    ]
    found = [
        torch.linalg.vector_norm(offsets.centre((q * scale) @ k.transpose(2, 3)), dim=(2, 3))
        for q, k in pairs
    ]
    rows = len(captured.queries)
    return torch.stack([one.expand(rows, -1).cpu().double().square() for one in found], 1)
