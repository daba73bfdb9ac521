"""How much a token changes the others: hide it from them in one layer, and see (Voita 2019, §6.2).

Layers below read as usual. In the layer that is asked about nobody but the token itself may look
at it; the influence is the PWCCA distance between what the other tokens become there with and
without it. Shapes: B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.activations.attention_interface import intercept_attention
from mnemoscope.activations.batches import to_batches
from mnemoscope.activations.capture import Observed
from mnemoscope.activations.sites import stacks
from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.change.grouping import Quota, gather, groups_of, quota_of
from mnemoscope.lenses.change.result import GroupedOptions, GroupedResult
from mnemoscope.lenses.inputs import tokenise
from mnemoscope.lenses.lens import Lens
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import Groups
from mnemoscope.memories.layer import Context
from mnemoscope.models.model import SequenceModel
from mnemoscope.open import Reader, open_reader

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Influence(Lens):
    """Hide tokens: ``observe`` texts, then ``result``.

    In every text and for every group one token of the group, drawn at random, is hidden from the
    others. ``samples`` other tokens are compared for each group; groups with fewer are left out.
    ``sites`` says which layers are asked about, by the names of their outputs.
    """

    title = "Influence"
    question = "How much do tokens change each other in every layer of {models}?"
    Options, Result = GroupedOptions, GroupedResult

    @classmethod
    def measure(
        cls, models: Sequence[Any], texts: Sequence[str], options: GroupedOptions
    ) -> GroupedResult:
        """Let one model read texts, layer by layer with tokens hidden."""
        given = tokenise(models, texts, options, options.sites)
        groups = groups_of(given, texts, options)
        lens = cls(groups, samples=quota_of(groups, options), sites=options.sites)
        lens.observe(given.readers[0], given.ids, length=given.length)
        return lens.result()

    def __init__(
        self,
        groups: Groups,
        *,
        samples: int = 2000,
        seed: int = 0,
        sites: Sequence[str] = ("layer.*.out",),
    ) -> None:
        self.groups, self.sites = groups, sites
        # A text gives many samples for one hidden token: no thinning here.
        self._quota = Quota(replace(groups, counts=np.zeros_like(groups.counts)), samples)
        self._lenses: list[Similarity] = []
        self._rng = np.random.default_rng(seed)

    def observe(
        self,
        model: Any,
        inputs: Any,
        *,
        tokenizer: Any = None,
        length: int | None = None,
        batch: int = 32,
    ) -> None:
        """Read inputs as `capture` does; stops when every group has its samples."""
        reader = open_reader(model, tokenizer)
        for tokens, texts in to_batches(reader, inputs, length, batch):
            if tokens.shape[1] > 1:
                self._read(reader, tokens, texts)

    @torch.no_grad()
    def _read(self, reader: Reader, tokens: Tensor, texts: Ints) -> None:
        wanted = [g for g in range(len(self.groups.names)) if not self._quota.full(g)]
        if not wanted:
            return
        ids = tokens.cpu().numpy()
        rows, length = ids.shape
        positions = np.broadcast_to(np.arange(length), ids.shape)
        group = self.groups.of(
            ids.ravel(), positions.ravel(), np.broadcast_to(texts[:, None], ids.shape).ravel()
        ).reshape(ids.shape)
        calls = {
            name: call
            for name, call in record(reader, tokens).items()
            if any(fnmatch(f"{name}.out", site) for site in self.sites)
        }
        if not calls:
            raise UserError(f"no layer of {reader.name} has its output at {', '.join(self.sites)}")
        nothing = torch.zeros(rows, length, dtype=torch.bool)
        plain = {name: rerun(reader, name, call, nothing) for name, call in calls.items()}
        if not self._lenses:
            pairs = [(f"{name} plain", f"{name} hidden") for name in calls]
            self._lenses = [Similarity(pairs) for _ in self.groups.names]
        special = np.isin(ids, list(reader.special))
        for number in wanted:
            hidden = self._draw((group == number) & ~special)
            others = hidden.any(1, keepdims=True) & ~hidden & ~special
            chosen = torch.from_numpy(self._quota.take(number, np.flatnonzero(others)))
            if not len(chosen):
                continue
            sites = {}
            for name, call in calls.items():
                changed = rerun(reader, name, call, torch.from_numpy(hidden))
                for word, values in (("plain", plain[name]), ("hidden", changed)):
                    sites[f"{name} {word}"] = values.flatten(0, 1).cpu()[chosen]
            none = np.zeros(len(chosen), dtype=np.int64)
            self._lenses[number].observe(Observed(none, none, none, none, none, none, sites))

    def _draw(self, candidates: Any) -> Any:
        """One candidate of every row that has any, as a mask (B, T)."""
        keys = np.where(candidates, self._rng.random(candidates.shape), -1.0)
        chosen = np.zeros_like(candidates)
        chosen[np.arange(len(keys)), keys.argmax(1)] = True
        return chosen & candidates

    def result(self) -> GroupedResult:
        """What was seen so far."""
        lenses = self._lenses or [Similarity() for _ in self.groups.names]
        return gather(lenses, self.groups, self._quota, "influence")


def record(reader: Reader, tokens: Tensor) -> dict[str, Call]:
    """What every layer is called with when the model reads tokens, by name of the layer."""
    calls: dict[str, Call] = {}
    layers = stacks(reader.model).get("")
    if layers is None:
        raise UserError(f"{reader.name} has no stack of layers")

    def keeper(name: str) -> Any:
        def keep(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            calls[name] = given, named

        return keep

    hooks = [
        layer.register_forward_pre_hook(keeper(f"layer.{number}"), with_kwargs=True)
        for number, layer in enumerate(layers)
    ]
    try:
        reader.read(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def rerun(reader: Reader, name: str, call: Call, hidden: Tensor) -> Tensor:
    """Call a layer again, with ``hidden`` (B, T) tokens that nobody else may look at: (B, T, D)."""
    layer: Any = stacks(reader.model)[""][int(name.removeprefix("layer."))]
    given, named = call
    hidden = hidden.to(given[0].device if given else named["hidden_states"].device)
    if isinstance(reader.model, SequenceModel):
        vectors, *rest = given
        if rest and isinstance(rest[-1], Context):
            rest = [*rest[:-1], replace(rest[-1], mask=~hidden, losses={})]
        else:
            rest = [~hidden, *rest[1:]]
        output = layer(vectors, *rest, **named)
    else:
        with _hiding(reader.model, hidden):
            output = layer(*given, **named)
    value: Tensor = output[0] if isinstance(output, tuple) else output
    return value


@contextmanager
def _hiding(model: nn.Module, hidden: Tensor) -> Iterator[None]:
    """Take hidden keys out of the mask of every attention, for all but their own query."""

    def listener(
        module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> Tensor:
        length = query.shape[2]
        own = torch.eye(length, dtype=torch.bool, device=hidden.device)
        seen = ~hidden[:, None, None, :] | own  # (B, 1, T, T)
        if mask is None:
            causal = options.get("is_causal")
            causal = getattr(module, "is_causal", True) if causal is None else causal
            # A mask that is given is taken for the whole mask: what was implied must be in it.
            return seen & torch.ones_like(own).tril() if causal else seen
        if mask.dtype == torch.bool:
            return mask & seen
        return mask.masked_fill(~seen, torch.finfo(mask.dtype).min)

    with intercept_attention(model, listener):
        yield
