"""Let a model speak: greedy or sampled generation, and one-to-many reading.

Shapes: B rows, T tokens, V outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemoscope.core.capacity import require
from mnemoscope.core.errors import UserError, shown
from mnemoscope.core.shown import html_table
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.inputs import Inputs, token_batch
from mnemoscope.models.model import SequenceModel, StreamState

# Below this, dividing by the temperature would overflow; the likeliest token is all there is.
COLDEST = 1e-6


@dataclass(frozen=True)
class Generated:
    """tokens (B, steps): what was said after the prompt; state: where the stream stands now.

    texts are the same as text, one a row, where the vocabulary is known.
    """

    tokens: Tensor
    state: StreamState
    texts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        said = f", {shown(self.texts[0])}" if self.texts else ""
        return f"Generated(tokens {tuple(self.tokens.shape)}{said}, {self.state.nbytes:,} bytes)"

    def _repr_html_(self) -> str:
        said = self.texts or tuple(map(str, self.tokens.tolist()))
        caption = f"Generated; its state has {self.state.nbytes:,} bytes"
        return html_table(caption, ("row", "said"), enumerate(said))


def generate(
    model: nn.Module,
    prompt: Inputs,
    steps: int,
    *,
    state: StreamState | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | None = None,
    generator: torch.Generator | None = None,
) -> Generated:
    """Read the prompt (B, T) after ``state``, then say ``steps`` tokens, one at a time.

    ``temperature=0`` is greedy. ``top_k`` keeps the k likeliest tokens, ``top_p`` the likeliest
    whose probabilities reach p. After ``stop`` a row says nothing but ``stop``. The last token
    said has not been read: feed it with ``state`` to continue.
    """
    if steps < 1 or not 0 <= temperature < math.inf:
        raise UserError(
            "the length in steps must be positive and temperature not negative: "
            f"{steps=} {temperature=}"
        )
    if (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
        raise UserError(f"top_k must be at least 1 and top_p in (0, 1]: {top_k=} {top_p=}")
    prompt = token_batch(prompt, None, type(model).__name__)
    require(8 * len(prompt) * steps, f"a length of {steps} tokens")
    # Inference mode saves a tenth of the time; clones made outside it can be trained on again.
    with evaluating(model), torch.inference_mode():
        tokens, said = prompt, []
        ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
        for _ in range(steps):
            out = model(tokens, state)
            state = out.state
            choice = choose(out.logits[:, -1], temperature, top_k, top_p, generator)
            if stop is not None:
                choice = choice.masked_fill(ended, stop)
                ended |= choice == stop
            said.append(choice)
            if stop is not None and bool(ended.all()):
                break
            tokens = choice[:, None]
    assert state is not None
    return Generated(torch.stack(said, 1).clone(), state.map(torch.clone))


def choose(
    logits: Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generator: torch.Generator | None,
) -> Tensor:
    """Pick one token per row from logits (B, V)."""
    if temperature < COLDEST:
        return logits.argmax(-1)
    logits = logits.float() / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    chances = logits.softmax(-1)
    if top_p is not None:
        ranked, order = chances.sort(descending=True)
        # A token stays when those before it have not reached p yet: at least one always does.
        ranked = ranked.masked_fill(ranked.cumsum(-1) - ranked >= top_p, 0)
        chances = torch.zeros_like(chances).scatter(-1, order, ranked)
    return torch.multinomial(chances, 1, generator=generator).squeeze(-1)


def unroll(model: SequenceModel, first: Tensor, steps: int, blank: int) -> Tensor:
    """One to many: read ``first`` (B, 1), then ``blank`` ids; logits of every step (B, steps, V).

    The gradient flows through all of it, so this can be trained as it is.
    """
    if steps < 1 or first.dim() != 2 or first.shape[1] != 1:
        raise UserError(f"unroll needs first of shape (B, 1), steps ≥ 1: {first.shape}, {steps}")
    rest = torch.full((first.shape[0], steps - 1), blank, dtype=first.dtype, device=first.device)
    logits: Tensor = model(torch.cat((first, rest), 1)).logits
    return logits
