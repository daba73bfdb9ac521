"""What each word of a translation can depend on: the mask of a decoder, seen from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.lenses.alignment.lens import forced, token_names
from mnemoscope.lenses.inputs import PairLens
from mnemoscope.lenses.reach.result import ReachResult
from mnemoscope.models.translator import Translator


class Reach(PairLens):
    """Ask the gradient: which tokens does the logit of each word said depend on?

    ``observe`` pairs, then ``result``; the matrix kept is that of the pair observed last.
    """

    title = "Reach"
    question = "What does each word that {models} says depend on?"
    Result = ReachResult

    def __init__(self) -> None:
        self._seen: list[ReachResult] = []

    def result(self) -> ReachResult:
        """The last sentence, and how much of the gradient went to the source in all of them."""
        if not self._seen:
            raise UserError("nothing was observed yet: call observe(translator, source, target)")
        return replace(
            self._seen[-1],
            from_source=np.concatenate([one.from_source for one in self._seen]),
            even=np.concatenate([one.even for one in self._seen]),
        )

    def observe(self, translator: Translator, source: str, target: str) -> ReachResult:
        """Read a source and say a target with any translator; returns what this pair gave."""
        model = translator.model
        leaves: list[Tensor] = []

        def cut(module: Any, given: Any, vectors: Tensor) -> Tensor:
            leaves.append(vectors.detach().requires_grad_())
            return leaves[-1]

        embeddings = (model.source_embedding, model.embedding)
        hooks = [one.register_forward_hook(cut) for one in embeddings]
        try:
            read, said, logits = forced(translator, source, target)
        finally:
            for hook in hooks:
                hook.remove()
        rows = []
        for position, word in enumerate(said.tolist()):
            slopes = torch.autograd.grad(
                logits[position, word], leaves, retain_graph=True, materialize_grads=True
            )
            norms = torch.cat([slope[0].norm(dim=1) for slope in slopes]).double()
            rows.append((norms / norms.sum()).cpu().numpy())
        names = token_names(translator.target, said)
        influence, size = np.stack(rows), len(read)
        found = ReachResult(
            token_names(translator.source, read),
            ("▷", *names[:-1]),
            names,
            influence,
            influence[:, :size].sum(1).mean(keepdims=True),
            (size / (size + 1 + np.arange(len(said)))).mean(keepdims=True),
        )
        self._seen.append(found)
        return found
