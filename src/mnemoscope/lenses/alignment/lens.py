"""Attention of a decoder on the source, for each word that it says.

Shapes: L layers with cross-attention, T target tokens, S source tokens.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import capture
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.statistics import standard_error
from mnemoscope.data.translation import encode
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.lenses.alignment.result import AlignmentResult
from mnemoscope.lenses.inputs import PairLens
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.seq2seq.vector import OneVector
from mnemoscope.models.translator import Translator, pad


class Alignment(PairLens):
    """Watch a translator say given sentences: ``observe`` pairs, then ``result``.

    The matrix kept is that of the pair observed last.
    """

    title = "Alignment"
    question = "Which words of the source does {models} attend to for each word that it says?"
    Result = AlignmentResult

    def __init__(self) -> None:
        self._last: tuple[tuple[str, ...], tuple[str, ...], Floats] | None = None
        self._sharp: list[Floats] = []  # (L,) sums over target tokens, by sentence
        self._said: list[int] = []
        self._even = 0.0

    def observe(self, translator: Translator, source: str, target: str) -> None:
        """Read the source and say the target, whatever the model would have said itself."""
        model = translator.model
        if isinstance(model.config, OneVector):
            raise UserError(
                "alignment needs a translator with attention: a model with one vector has none"
            )
        with torch.no_grad(), capture(model, "layers.*alignment") as seen:
            read, said, _ = forced(translator, source, target)
        weights = np.stack([one[0].double().mean(0).cpu().numpy() for one in seen.values()])
        names = token_names(translator.source, read), token_names(translator.target, said)
        self._last = (*names, weights)
        self._sharp.append(weights.max(2).sum(1))
        self._even += len(said) / len(read)
        self._said.append(len(said))

    def result(self) -> AlignmentResult:
        """What was seen so far."""
        if self._last is None:
            raise UserError("nothing was observed yet: call observe(translator, source, target)")
        said, sums = sum(self._said), np.stack(self._sharp)
        each = sums / np.array(self._said)[:, None]
        return AlignmentResult(
            *self._last, sums.sum(0) / said, standard_error(each), self._even / said, len(sums)
        )


def forced(translator: Translator, source: str, target: str) -> tuple[Ints, Ints, Tensor]:
    """Read a source and say a target: token ids of both, and the logits (T, V) of what is said."""
    model, device = translator.model, translator.device
    (read,), (said,) = encode(translator.source, [source]), encode(translator.target, [target])
    begun = np.append(translator.target.size, said[:-1])
    with evaluating(model):
        state = model.encode(*pad([read], device))
        return read, said, model(torch.from_numpy(begun)[None].to(device), state).logits[0]


def token_names(vocabulary: Vocabulary, ids: Ints) -> tuple[str, ...]:
    """Show each token of a sentence that ends as text."""
    words = [vocabulary.decode(ids[at : at + 1]) for at in range(len(ids) - 1)]
    # Which tokens begin a word shows by the space in front, drawn so that it can be seen.
    return (*(f"▁{word[1:]}" if word[:1] == " " else word for word in words), "∎")
