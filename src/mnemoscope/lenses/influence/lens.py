"""How much a token changes the others: hide it from them in one layer, and see (Voita 2019, §6.2).

Layers below read as usual. In the layer that is asked about nobody but the token itself may look
at it; the influence is the PWCCA distance between what the tokens that could have seen it become
there with and without it. Shapes: B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemoscope.activations.batches import to_batches
from mnemoscope.activations.capture import Observed
from mnemoscope.activations.sites import stacks
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.attention_interface import intercept_attention
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
    others. ``samples`` of the tokens that can see it, in a causal model those after it, are
    compared for each group, spread evenly over all texts of a call; groups with fewer are left out.
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
        self._quota = Quota(groups, samples)
        self._lenses: list[Similarity] = []
        self._rng = np.random.default_rng(seed)
        self._visible = Visible()

    def observe(
        self,
        model: Any,
        inputs: Any,
        *,
        tokenizer: Any = None,
        length: int | None = None,
        batch: int = 32,
    ) -> None:
        """Read inputs as `capture` does."""
        reader = open_reader(model, tokenizer)
        batches = to_batches(reader, inputs, length, batch)
        drawn = [self._draw(reader, tokens, texts) for tokens, texts in batches]
        # Beside whom tokens are hidden, by batch and group; and all that are still to come.
        beside = np.array([(one.any(2) * (one.shape[2] - 1)).sum(1) for one in drawn])
        left = beside[::-1].cumsum(0)[::-1]
        for (tokens, _), hidden, here, rest in zip(batches, drawn, beside, left, strict=True):
            share = here / np.maximum(rest, 1)
            if any(share[g] and not self._quota.full(g) for g in range(len(share))):
                self._read(reader, tokens, hidden, share)

    def _draw(self, reader: Reader, tokens: Tensor, texts: Ints) -> NDArray[np.bool_]:
        """Which tokens are hidden, one in every text that has any of the group, (G, B, T)."""
        ids = tokens.cpu().numpy()
        positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        group = self.groups.of(
            ids.ravel(), positions.ravel(), np.broadcast_to(texts[:, None], ids.shape).ravel()
        ).reshape(ids.shape)
        candidates = group == np.arange(len(self.groups.names))[:, None, None]
        candidates &= ~np.isin(ids, list(reader.special))
        keys = np.where(candidates, self._rng.random(candidates.shape), -1.0)
        first = np.arange(ids.shape[1]) == keys.argmax(2)[..., None]
        chosen: NDArray[np.bool_] = first & candidates
        return chosen

    @torch.no_grad()
    def _read(
        self, reader: Reader, tokens: Tensor, drawn: NDArray[np.bool_], share: Floats
    ) -> None:
        """Read a batch with the tokens of every group hidden, (G, B, T).

        ``share`` says which part a batch is of what is still to come, (G,).
        """
        ids = tokens.cpu().numpy()
        calls = {
            name: call
            for name, call in record(reader, tokens).items()
            if any(fnmatch(f"{name}.out", site) for site in self.sites)
        }
        if not calls:
            raise UserError(f"no layer of {reader.name} has its output at {', '.join(self.sites)}")
        nothing = torch.zeros(ids.shape, dtype=torch.bool)
        plain = {name: rerun(reader, name, call, nothing) for name, call in calls.items()}
        if not self._lenses:
            pairs = [(f"{name} plain", f"{name} hidden") for name in calls]
            self._lenses = [Similarity(pairs) for _ in self.groups.names]
        special = np.isin(ids, list(reader.special))
        for number, hidden in enumerate(drawn):
            if not hidden.any() or self._quota.full(number):
                continue
            others = self._visible(reader, calls, hidden) & ~hidden & ~special
            seeing = np.flatnonzero(others)
            chosen = torch.from_numpy(
                self._quota.take(number, seeing, len(seeing) / float(share[number]))
            )
            if not len(chosen):
                continue
            sites = {}
            for name, call in calls.items():
                changed = rerun(reader, name, call, torch.from_numpy(hidden))
                for word, values in (("plain", plain[name]), ("hidden", changed)):
                    sites[f"{name} {word}"] = values.flatten(0, 1).cpu()[chosen]
            none = np.zeros(len(chosen), dtype=np.int64)
            self._lenses[number].observe(Observed(none, none, none, none, none, none, sites))

    def result(self) -> GroupedResult:
        """What was seen so far."""
        lenses = self._lenses or [Similarity() for _ in self.groups.names]
        return gather(lenses, self.groups, self._quota, "influence")


class Visible:
    """Who can see a token: whoever becomes something else when the token is something else.

    Found by trying, so it holds for any pattern of attention and for recurrent layers. It depends
    on nothing but positions and is remembered: by length and hidden position, (T,) others.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], NDArray[np.bool_]] = {}

    def __call__(
        self, reader: Reader, calls: dict[str, Call], hidden: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Tokens (B, T) that can see the one ``hidden`` in their row in any of the layers."""
        length = hidden.shape[1]
        rows, at = hidden.nonzero()
        if any((length, int(one)) not in self._seen for one in at):
            sees = np.zeros_like(hidden)
            for name, call in calls.items():
                sees |= _moved(reader, name, call, hidden)
            for row, one in zip(rows, at, strict=True):
                self._seen.setdefault((length, int(one)), sees[row])
        found = np.zeros_like(hidden)
        for row, one in zip(rows, at, strict=True):
            found[row] = self._seen[length, int(one)]
        return found


def _moved(reader: Reader, name: str, call: Call, hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which outputs (B, T) of a layer change with the vectors that it is given at ``hidden``."""
    given, named = call
    vectors: Tensor = given[0] if given else named["hidden_states"]
    nothing, where = torch.zeros(hidden.shape, dtype=torch.bool), torch.from_numpy(hidden)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(vectors.shape[-1], generator=generator).to(vectors) * 10 * vectors.std()
    # Both ways: what lowers a score, down to a weight of nothing, raises it the other way round.
    outputs = []
    for sign in (1, -1):
        other = torch.where(where[..., None].to(vectors.device), sign * noise, vectors)
        changed = ((other, *given[1:]), named) if given else ((), {**named, "hidden_states": other})
        outputs.append(rerun(reader, name, changed, nothing))
    plain = rerun(reader, name, call, nothing)
    moved = [(one != plain).any(-1).cpu().numpy() for one in outputs]
    found: NDArray[np.bool_] = moved[0] | moved[1]
    return found


def record(reader: Reader, tokens: Tensor) -> dict[str, Call]:
    """What every layer is called with when the model reads tokens, by name of the layer."""
    layers = stacks(reader.model).get("")
    if layers is None:
        raise UserError(f"{reader.name} has no stack of layers")
    calls: dict[str, Call] = {}

    def keep(name: str, layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        calls[name] = given, named

    with ExitStack() as hooks:
        for number, layer in enumerate(layers):
            hook = partial(keep, f"layer.{number}")
            hooks.callback(layer.register_forward_pre_hook(hook, with_kwargs=True).remove)
        reader.read(tokens)
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
