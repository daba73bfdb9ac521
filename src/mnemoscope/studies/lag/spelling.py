"""The oldest example of a recurrent network: having read "hell", what comes next?"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mnemoscope.core.registry import find
from mnemoscope.core.seeds import derive

WORD = "hello"


def spell(memory: str, seed: int, steps: int = 30, **options: Any) -> list[list[float]]:
    """Teach a small model one word; return its next-letter probabilities after each letter.

    Row t is over the sorted letters of the word, after reading its first t + 1 letters.
    """
    letters = sorted(set(WORD))
    ids = torch.tensor([[letters.index(letter) for letter in WORD]])
    torch.manual_seed(derive(seed, "spelling", memory))
    model = find("memory", memory).make(vocab=len(letters), width=16, **options).build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(ids[:, :-1]).logits
        torch.autograd.backward(F.cross_entropy(logits[0], ids[0, 1:]))
        optimizer.step()
    with torch.no_grad():
        chances: list[list[float]] = model.eval()(ids[:, :-1]).logits[0].softmax(-1).tolist()
    return chances
