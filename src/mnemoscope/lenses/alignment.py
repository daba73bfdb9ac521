"""Where a decoder looks in the source for each word that it says.

Shapes: L layers that look, T target tokens, S source tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mnemoscope.activations.capture import capture
from mnemoscope.core.errors import UserError
from mnemoscope.data.translation import encode
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.models.seq2seq.vector import OneVector
from mnemoscope.models.translator import Translator, pad
from mnemoscope.plots.figure import heatmap

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AlignmentResult:
    """The matrix of one sentence, and how sharp all sentences were.

    source, target  tokens as text, ∎ is the end
    weights         (L, T, S), the mean over heads; each row adds up to one
    sharpness       (L,) share of the weight that the most looked-at token gets, mean over all
                    target tokens of all sentences
    even            the same if all tokens of a sentence got equal weight
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Floats
    sharpness: Floats
    even: float

    def figure(self, layer: int = -1) -> go.Figure:
        """One layer as a picture: what is said downwards, where it looked across."""
        shown = self.weights[layer]
        return heatmap(shown, self.source, self.target, "source", "said", "weight", z_range=(0, 1))

    def table(self, layer: int = -1) -> list[dict[str, str | int | float]]:
        """One row per target and source token."""
        return [
            {"said": said, "place": t, "source": word, "word": s, "weight": float(value)}
            for t, (said, row) in enumerate(zip(self.target, self.weights[layer], strict=True))
            for s, (word, value) in enumerate(zip(self.source, row, strict=True))
        ]


class Alignment:
    """Watch a translator say given sentences: ``observe`` pairs, then ``result``.

    The matrix kept is that of the pair observed last.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[str, ...], tuple[str, ...], Floats] | None = None
        self._sharp: Floats = np.zeros(())
        self._even, self._said = 0.0, 0

    def observe(self, translator: Translator, source: str, target: str) -> None:
        """Read the source and say the target, whatever the model would have said itself."""
        model = translator.model
        if isinstance(model.config, OneVector):
            raise UserError("a model with one vector does not look back; watch another one")
        (read,), (said,) = encode(translator.source, [source]), encode(translator.target, [target])
        begun = np.append(translator.target.size, said[:-1])
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad(), capture(model, "layers.*alignment") as seen:
                model(
                    torch.from_numpy(begun)[None].to(translator.device),
                    model.encode(*pad([read], translator.device)),
                )
        finally:
            model.train(was_training)
        layers = [weights[0].double().mean(0).cpu().numpy() for weights in seen.values()]
        weights = np.stack(layers)
        self._last = (
            token_names(translator.source, read),
            token_names(translator.target, said),
            weights,
        )
        self._sharp = self._sharp + weights.max(2).sum(1)
        self._even += len(said) / len(read)
        self._said += len(said)

    def result(self) -> AlignmentResult:
        """What was seen so far."""
        if self._last is None:
            raise UserError("nothing was observed yet: call observe(translator, source, target)")
        return AlignmentResult(*self._last, self._sharp / self._said, self._even / self._said)


def token_names(vocabulary: Vocabulary, ids: NDArray[np.int64]) -> tuple[str, ...]:
    """Show each token of a sentence that ends as text."""
    words = [vocabulary.decode(ids[place : place + 1]) for place in range(len(ids) - 1)]
    # Which tokens begin a word shows by the space in front, drawn so that it can be seen.
    return (*(f"▁{word[1:]}" if word[:1] == " " else word for word in words), "∎")
