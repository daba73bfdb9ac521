"""What each word of a translation can depend on: the mask of a decoder, seen from outside.

Shapes: S source tokens, T target tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.data.translation import encode
from mnemoscope.lenses.alignment import token_names
from mnemoscope.models.translator import Translator, pad
from mnemoscope.plots.figure import heatmap

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True, eq=False)
class ReachResult:
    """influence (T, S + T): share of the gradient of what is said at a place that goes to a token.

    Columns are the source, then the target as it is read: the start ▷, then all but the last.
    """

    source: tuple[str, ...]
    read: tuple[str, ...]
    said: tuple[str, ...]
    influence: NDArray[np.float64]

    def figure(self) -> go.Figure:
        """What is said downwards, what it may have come from across; white is exactly nothing."""
        columns = [f"{word} " for word in self.source] + list(self.read)
        title = "source, then target so far"
        return heatmap(self.influence, columns, self.said, title, "said", "share")

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per word said and token read."""
        columns = [("source", word) for word in self.source] + [("target", w) for w in self.read]
        return [
            {"said": said, "place": t, "side": side, "token": token, "share": float(value)}
            for t, (said, row) in enumerate(zip(self.said, self.influence, strict=True))
            for (side, token), value in zip(columns, row, strict=True)
        ]


class Reach:
    """Ask the gradient: which tokens does the logit of each word said depend on?"""

    def observe(self, translator: Translator, source: str, target: str) -> ReachResult:
        """Read a source and say a target with any translator."""
        model = translator.model
        (read,), (said,) = encode(translator.source, [source]), encode(translator.target, [target])
        begun = np.append(translator.target.size, said[:-1])
        leaves: list[Tensor] = []

        def cut(module: Any, given: Any, vectors: Tensor) -> Tensor:
            leaves.append(vectors.detach().requires_grad_())
            return leaves[-1]

        places = (model.source_embedding, model.embedding)
        hooks = [place.register_forward_hook(cut) for place in places]
        was_training = model.training
        model.eval()
        try:
            state = model.encode(*pad([read], translator.device))
            logits = model(torch.from_numpy(begun)[None].to(translator.device), state).logits[0]
        finally:
            model.train(was_training)
            for hook in hooks:
                hook.remove()
        rows = []
        for place, word in enumerate(said.tolist()):
            slopes = torch.autograd.grad(
                logits[place, word], leaves, retain_graph=True, materialize_grads=True
            )
            size = torch.cat([slope[0].norm(dim=1) for slope in slopes]).double()
            rows.append((size / size.sum()).cpu().numpy())
        names = token_names(translator.target, said)
        return ReachResult(
            token_names(translator.source, read), ("▷", *names[:-1]), names, np.stack(rows)
        )
