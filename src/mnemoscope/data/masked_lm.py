"""Passages of a text with some tokens hidden, or not: what an encoder learns from."""

from __future__ import annotations

import numpy as np

from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import Batch, Split
from mnemoscope.data.masking import FillIn, hide
from mnemoscope.data.passages import Passages


class MaskedLM(FillIn, Passages):
    """The next token of a passage, or the tokens that were hidden in it.

    The passage ``memory``, M hides a token, a dot asks nothing:

        objective=next      tokens   m e m o r y     targets   e m o r y _
        objective=masked    tokens   m e M o r y     targets   . . m . . .

    Of 15 % of the tokens 8 in 10 are hidden, 1 is another token and 1 left as it is. All else is
    as in `Passages`; what learns is an encoder, causal for the next token.
    """

    @property
    def vocab(self) -> int:
        """Tokens of the text, and one that hides them."""
        return self.vocabulary.size + 1

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` passages."""
        whole = super().batch(step, size, seed=seed, split=split, length=length)
        if self.objective == "next":
            return whole
        known = self.vocabulary.size
        rng = np.random.default_rng(derive(seed, "blanks", split, step))
        return Batch.episodes(*hide(whole.tokens, known, known, rng))
