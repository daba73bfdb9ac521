"""What is checked: any model behind ``read(tokens, state) -> (logits, state)``, and what it lacks.

Two kinds: models of `transformers`, called as their own documentation does, cache and all; and
whatever follows the one call, ours, attached memories and any callable. A state here is never
changed: what writes into its cache is given a copy.

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.checks.promises import Need
from mnemoscope.huggingface import blocks
from mnemoscope.huggingface.stream import ARGUMENTS
from mnemoscope.memories.leaves import cloned, leaves, mapped, tensors
from mnemoscope.memories.state import State

Logits = tuple[Tensor, Any]
# What else models call the thing they give back and want to be given again, and how it is asked.
CACHES = {
    **dict.fromkeys((*ARGUMENTS, "past_buckets_states"), "use_cache"),
    "mems": "use_mems",
}


class NotAskedError(Exception):
    """A subject cannot be asked for a promise, for this reason."""


class Subject(ABC):
    """A model in evaluation mode, and all that promises ask of it.

    vocab     token ids it reads, ``avoid`` those that mean something else, such as padding
    filler    the id that stands where a row has no token
    limit     most tokens one stream can have, None when there is no end
    exact     most tokens for which whole ≡ in pieces is promised, None when there is no end
    depth     layers, for the tolerance
    module    what has weights and modes, None for a plain function
    dialect   which snippets reproduce what is found: transformers, native or call
    source    by which name a fresh process can open it, None when it cannot
    left      a folder in which a state is left for a fresh process, if one will look at it
    """

    dialect = "call"

    def __init__(self, name: str, vocab: int, module: nn.Module | None) -> None:
        self.name, self.vocab, self.module = name, vocab, module
        self.limit: int | None = None
        self.exact: int | None = None
        self.depth = 1
        self.avoid: frozenset[int] = frozenset()
        self.filler = 0
        self.source: str | None = None
        self.left: Path | None = None
        self.options: dict[str, Any] = {}
        self.made_by: tuple[str, ...] = ()
        self.declared: Callable[[int], int] | None = None

    @abstractmethod
    def read(
        self,
        tokens: Tensor,
        state: Any = None,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Logits:
        """Logits (B, T, V) of tokens (B, T) after ``state``, and the state after them."""

    @abstractmethod
    def on(self, module: nn.Module) -> Subject:
        """The same subject with another module, such as a copy in another precision."""

    def with_a_cache(self) -> Subject:
        """The same subject; one that hands out no state is given a cache to fill."""
        return self

    def lacks(self, need: Need) -> str | None:
        """Why a promise with this need cannot be asked; None when it can."""
        if need == "module" and self.module is None:
            return "a plain function has neither weights nor modes"
        if need == "state" and not self.carries:
            return "it hands out no state"
        return None

    @property
    def carries(self) -> bool:
        """Whether a state with something in it is handed out."""
        _, state = self.read(torch.full((1, 2), self._some, device=self.device))
        return bool(tensors(state))

    @property
    def _some(self) -> int:
        return next(one for one in range(self.vocab) if one not in self.avoid)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        weight = None if self.module is None else next(self.module.parameters(), None)
        return torch.device("cpu") if weight is None else weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its weights."""
        weights = [] if self.module is None else [*self.module.parameters()]
        kinds = [weight.dtype for weight in weights if weight.is_floating_point()]
        return max(kinds, key=kinds.count) if kinds else torch.float32

    def select(self, state: Any, rows: Sequence[int]) -> Any:
        """The rows of a state in this order."""
        if isinstance(state, State):
            return state.select(rows)
        chosen = torch.tensor(rows, device=self.device)

        def pick(_: str, leaf: Any) -> Any:
            # A tensor that has no row for each stream, such as a count, is of all of them.
            held = isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.shape[0] > max(rows)
            return leaf.index_select(0, chosen) if held else leaf

        return mapped(state, pick)

    def reset(self, state: Any, rows: Sequence[int]) -> Any:
        """The state in which these rows start anew."""
        raise NotAskedError("its state knows no reset")

    def generate(self, prompt: Tensor, steps: int) -> Tensor:
        """What is said greedily after a prompt (B, T): tokens (B, steps)."""
        said, tokens, state = [], prompt, None
        for _ in range(steps):
            logits, state = self.read(tokens, state)
            tokens = logits[:, -1:].argmax(-1)
            said.append(tokens)
        return torch.cat(said, 1)


class CallSubject(Subject):
    """Whatever is called as ``call(tokens, state)`` and returns logits and a state."""

    def __init__(self, call: Callable[..., Any], name: str, vocab: int) -> None:
        super().__init__(name, vocab, call if isinstance(call, nn.Module) else None)
        self.call = call
        asked = call.forward if isinstance(call, nn.Module) else call
        self._known = inspect.signature(asked).parameters
        self._mask = next((one for one in ("mask", "attention_mask") if one in self._known), None)
        sizes = getattr(call, "state_bytes", None)
        self.declared = sizes if callable(sizes) else None

    def read(
        self,
        tokens: Tensor,
        state: Any = None,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Logits:
        """One call; a tuple or an object with logits and state comes back."""
        # Of its own: a model that writes into the state it is given is told apart by one promise.
        given = None if state is None else cloned(state)
        return self.raw(tokens, given, mask, positions)

    @torch.no_grad()
    def raw(
        self,
        tokens: Tensor,
        state: Any,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Logits:
        """The call on the state itself, not on a copy."""
        more = {} if mask is None or self._mask is None else {self._mask: mask}
        if positions is not None:
            more["position_ids"] = positions
        out = self.call(tokens, state, **more)
        return (out[0], out[1]) if isinstance(out, tuple) else (out.logits, out.state)

    def on(self, module: nn.Module) -> CallSubject:
        """The same with another module."""
        made = copy.copy(self)
        made.module, made.call = module, module
        return made

    def lacks(self, need: Need) -> str | None:
        """Masks, position ids and resets are what the call and its state must offer."""
        if need == "mask" and self._mask is None:
            return "its call takes no mask"
        if need == "position ids" and "position_ids" not in self._known:
            return "its call takes no position_ids"
        if need == "reset" and not hasattr(self._a_state(), "reset"):
            return "its state knows no reset"
        return super().lacks(need)

    def _a_state(self) -> Any:
        return self.read(torch.full((1, 2), self._some, device=self.device))[1]

    def reset(self, state: Any, rows: Sequence[int]) -> Any:
        """As the state itself does it."""
        return state.reset(rows)


class NativeSubject(CallSubject):
    """A model of ours, or a memory attached to one of `transformers`: its state is a `State`."""

    dialect = "native"

    def lacks(self, need: Need) -> str | None:
        """A cache of transformers inside cannot start a row anew."""
        if need == "reset":
            held = [type(one).__name__ for one in getattr(self._a_state(), "layers", ())]
            if "HuggingFaceState" in held:
                return "a cache of transformers has no way to start a row anew"
        return super().lacks(need)


@dataclass(frozen=True)
class Carried:
    """A cache of `transformers`, and the mask (B, S) of all that went into it, if there was one."""

    cache: Any
    mask: Tensor | None = None


class TransformersSubject(Subject):
    """A causal language model of `transformers`, called with ``input_ids`` and its own cache."""

    dialect = "transformers"

    def __init__(self, model: Any, name: str) -> None:
        super().__init__(name, blocks.words_of(model), model.eval())
        self.model = model
        self._known = inspect.signature(model.forward).parameters
        self.argument = next((one for one in CACHES if one in self._known), None)
        config = getattr(model.config, "text_config", None) or model.config
        ids = (getattr(config, f"{one}_token_id", None) for one in ("pad", "bos", "eos"))
        self.avoid = frozenset(one for one in ids if isinstance(one, int))
        pad = getattr(config, "pad_token_id", None)
        self.filler = pad if isinstance(pad, int) and 0 <= pad < self.vocab else 0
        limit = blocks.context_of(model)
        self.limit = limit if limit is None or limit > 0 else None
        self.depth = int(getattr(config, "num_hidden_layers", None) or 1)
        self._fill = False

    @torch.no_grad()
    def read(
        self,
        tokens: Tensor,
        state: Any = None,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Logits:
        """One call with ``use_cache``; the mask covers what is in the cache too."""
        before = state or Carried(None)
        given: dict[str, Any] = {}
        if before.cache is not None and self.argument is not None:
            given[self.argument] = copy.deepcopy(before.cache)
        elif self._fill and self.argument is not None:
            from transformers import DynamicCache

            given[self.argument] = DynamicCache(config=self.model.config)
        asks = CACHES.get(self.argument or "", "use_cache")
        if asks in self._known:
            given[asks] = True
        held = before.cache is not None
        whole = self._mask(None if self.recurrent else before.mask, mask, tokens, held)
        if held and self.recurrent:
            whole = None if mask is None or bool(mask.all()) else mask.long()
        if whole is not None:
            given["attention_mask"] = whole
        if positions is not None:
            given["position_ids"] = positions
        out = self.model(input_ids=tokens, **given)
        cache = None if self.argument is None else getattr(out, self.argument, None)
        if self._fill and cache is None:
            cache = given.get(self.argument or "")
        return out.logits, None if cache is None else Carried(cache, whole)

    @staticmethod
    def _mask(past: Tensor | None, new: Tensor | None, tokens: Tensor, held: bool) -> Tensor | None:
        if new is None and past is None:
            return None
        new = torch.ones_like(tokens) if new is None else new.long()
        return torch.cat((past, new), 1) if held and past is not None else new

    @property
    def recurrent(self) -> bool:
        """Whether its cache has no place for a token each, so that a mask is of new ones alone."""
        return self.argument in ("cache_params", "state")

    def on(self, module: nn.Module) -> TransformersSubject:
        """The same with another module."""
        made = copy.copy(self)
        made.module = made.model = module
        return made

    def lacks(self, need: Need) -> str | None:
        """What its forward does not take, and what a cache cannot do."""
        wanted = {"mask": "attention_mask", "position ids": "position_ids"}.get(need)
        if wanted is not None and wanted not in self._known:
            return f"its forward takes no {wanted}"
        if need == "reset":
            return "a cache of transformers has no way to start a row anew"
        if need == "values":
            return "a cache of transformers is changed in place by design"
        return super().lacks(need)

    def with_a_cache(self) -> TransformersSubject:
        """As generate does it: with an empty cache that the model writes into."""
        if self.argument != "past_key_values" or self.carries:
            return self
        made = copy.copy(self)
        made._fill = True
        return made

    @property
    def promised(self) -> bool:
        """Whether its forward speaks of a state at all."""
        return self.argument is not None or "use_cache" in self._known

    def select(self, state: Any, rows: Sequence[int]) -> Any:
        """As beam search does it: with the method of the model or the cache, where there is one."""
        chosen = torch.tensor(rows, device=self.device)
        mask = None if state.mask is None else state.mask[chosen]
        cache = copy.deepcopy(state.cache)
        if hasattr(self.model, "_reorder_cache"):
            cache = self.model._reorder_cache(cache, chosen)
        elif hasattr(cache, "reorder_cache"):
            cache.reorder_cache(chosen)
        else:
            cache = super().select(state.cache, rows)
        return Carried(cache, mask)

    @torch.no_grad()
    def generate(self, prompt: Tensor, steps: int) -> Tensor:
        """With the library's own generate."""
        if not hasattr(self.model, "generate"):
            raise NotAskedError("it has no generate")
        from transformers import GenerationConfig

        # Nothing of what the model's own settings add, such as tokens that must or must not come.
        usual, self.model.generation_config = self.model.generation_config, GenerationConfig()
        try:
            whole: Tensor = self.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=steps,
                do_sample=False,
                use_cache=True,
                pad_token_id=self.filler,
            )
        finally:
            self.model.generation_config = usual
        return whole[:, -steps:]


def counts(state: Any) -> dict[str, int]:
    """Whole numbers in a state that are no tensors, by path."""
    return {path: leaf for path, leaf in leaves(state) if isinstance(leaf, int)}
