"""Any causal language model of `transformers` behind the one call, with its cache as data.

A cache is an object that the model fills and changes in place: keys and values, states of
convolutions and recurrences, counts. Its running leaves, those that differ once more tokens were
read, are the state; all the rest the model makes anew. No class is ever named in a file: a state
is put back into a cache that the model itself has made.

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.memories.leaves import leaves, mapped
from mnemoscope.memories.state import State, StreamState
from mnemoscope.models.model import Output

# What models call the thing they give back and want to be given again.
ARGUMENTS = ("past_key_values", "cache_params", "state")
# Tokens read together and one by one may differ by rounding: so many units in the last place.
ROUNDING = 256


@dataclass(frozen=True)
class HuggingFaceState(State):
    """The running leaves of a cache, each with rows first, and where they belong.

    paths   such as ``layers.0.keys``
    shared  those that have one value for all rows, such as a count; every row holds it here
    """

    leaves: tuple[Tensor, ...]
    paths: tuple[str, ...]
    shared: tuple[str, ...]

    def _forget(self, fresh: Tensor) -> HuggingFaceState:
        raise UserError("a row of a Hugging Face cache cannot start anew: begin with state=None")


@dataclass(frozen=True)
class DocumentState(State):
    """The document of each row, (B,): 0 for none, else its number + 1."""

    document: Tensor


class HuggingFaceStream(nn.Module):
    """``out = stream(tokens, state)`` of a causal language model, in evaluation mode."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.eval()
        known = inspect.signature(model.forward).parameters
        argument = next((name for name in ARGUMENTS if name in known), None)
        if argument is None or not hasattr(model.config, "vocab_size"):
            raise UserError(
                f"{type(model).__name__} is no causal language model that carries a state: it has "
                f"none of {', '.join(ARGUMENTS)}"
            )
        self.argument: str = argument
        self.vocab = parts.words_of(model)
        self.limit = position_limit(model)
        self._owner = json.dumps([type(model).__name__, parts.fingerprint(model)])
        self.one_by_one = False
        self._learn()

    def forward(self, tokens: Tensor, state: StreamState | None = None) -> Output:
        """Read tokens (B, T) after ``state``; logits (B, T, V) and the state to continue with."""
        if state is not None and state.owner != self._owner:
            raise UserError("the state belongs to another model")
        # Some models forget their state when they read several tokens after it (Mamba, Jamba).
        segments = torch.split(tokens, 1, 1) if self.one_by_one and state is not None else [tokens]
        cache = None if state is None else self._restored(state, len(tokens))
        logits = []
        for segment in segments:
            out, cache = self._call(segment, cache)
            logits.append(out)
        return Output(torch.cat(logits, 1), self._state(cache, len(tokens)))

    def _call(self, tokens: Tensor, cache: Any) -> tuple[Tensor, Any]:
        out = self.model(input_ids=tokens, use_cache=True, **{self.argument: cache})
        carried = getattr(out, self.argument, None)
        if carried is None:
            raise UserError(f"{type(self.model).__name__} returns no state to continue with")
        return out.logits, carried

    @torch.no_grad()
    def _learn(self) -> None:
        """Find out which leaves of a cache run, and whether they are all that is carried."""
        where = next(self.model.parameters()).device
        some = torch.arange(9, device=where)[None] % self.vocab
        self._template = self._call(some[:, :1], None)[1]
        longer = dict(leaves(self._call(some[:, :4], None)[1]))
        self._running = [
            path
            for path, leaf in leaves(self._template)
            if path not in longer or not _same(leaf, longer[path])
        ]
        # Layers that count alike say the same thing: one of them stands for all.
        counts = {path: leaf for path, leaf in longer.items() if isinstance(leaf, int)}
        first = {count: path for path, count in reversed(counts.items()) if path in self._running}
        self._copies = {
            path: first[count]
            for path, count in counts.items()
            if path in self._running and first[count] != path
        }
        self._running = [path for path in self._running if path not in self._copies]
        self._fixed = {
            path
            for path, leaf in leaves(self._template)
            if isinstance(leaf, Tensor) and leaf.dim() > 0 and path in longer
            if leaf.shape[-1:] == longer[path].shape[-1:]
        }
        begun = self(some[:, :4]).state
        together = self(some[:, 4:8], begun).logits
        self.one_by_one = True
        apart = self(some[:, 4:8], begun).logits
        slack = ROUNDING * torch.finfo(apart.dtype).eps * max(1.0, float(apart.abs().max()))
        self.one_by_one = bool((together - apart).abs().max() > slack)
        self(some.flip(1))
        expected = apart if self.one_by_one else together
        if not torch.equal(self(some[:, 4:8], begun).logits, expected):
            raise UserError(
                f"{type(self.model).__name__} keeps a part of its state in its modules: what it "
                "carries cannot be measured or put back"
            )

    def _state(self, cache: Any, rows: int) -> StreamState:
        values = dict(leaves(cache))
        running, shared = [], []
        for path in self._running:
            leaf = values[path]
            if not isinstance(leaf, Tensor) or leaf.dim() == 0 or leaf.shape[0] != rows:
                leaf = torch.as_tensor(leaf)
                leaf = leaf.expand(rows, *leaf.shape).clone()
                shared.append(path)
            running.append(leaf)
        held = HuggingFaceState(tuple(running), tuple(self._running), tuple(shared))
        return StreamState((held,), None, self._owner)

    def _restored(self, state: StreamState, rows: int) -> Any:
        held = state.layers[-1] if state.layers else None
        if not isinstance(held, HuggingFaceState) or not self._fits(held):
            raise UserError("the state does not fit this model: it must come from out.state")
        if held.batch != rows:
            raise UserError(f"the state holds {held.batch} rows but the tokens have {rows}")
        device = next(self.model.parameters()).device
        values: dict[str, Any] = {}
        for path, leaf in zip(held.paths, held.leaves, strict=True):
            if path in held.shared and bool((leaf != leaf[:1]).any()):
                raise UserError("the rows of the state have read different numbers of tokens")
            # A clone, because models write into their caches and a state never changes.
            values[path] = (leaf[0] if path in held.shared else leaf).clone().to(device)
        values |= {path: values[source] for path, source in self._copies.items()}

        def put(path: str, leaf: Any) -> Any:
            if path not in values:
                return leaf
            return values[path] if isinstance(leaf, Tensor) else int(values[path])

        return mapped(self._template, put)

    def _fits(self, held: HuggingFaceState) -> bool:
        """Whether leaves are those of this model's cache: in kind, axes and width of vectors."""
        if list(held.paths) != self._running or len(held.leaves) != len(self._running):
            return False
        found = dict(leaves(self._template))
        for path, leaf in zip(held.paths, held.leaves, strict=True):
            known = torch.as_tensor(found[path])
            sizes = leaf.shape[1:] if path in held.shared else leaf.shape
            if len(sizes) != known.dim() or leaf.dtype != known.dtype:
                return False
            # Other axes may grow; keys, values and states of convolutions end with a fixed one.
            if known.dim() > 2 and path in self._fixed and sizes[-1] != known.shape[-1]:
                return False
        return True


class DocumentStream(nn.Module):
    """The same of a model with a document memory; which document is a part of the state."""

    def __init__(self, memory: DocumentMemory, document: str | Sequence[str | None] | None) -> None:
        super().__init__()
        self.memory = memory
        self.base = HuggingFaceStream(memory.model)
        self.vocab, self.limit = self.base.vocab, self.base.limit
        self.document = document

    def forward(self, tokens: Tensor, state: StreamState | None = None) -> Output:
        """Read tokens (B, T) after ``state``, with the documents that it names."""
        if state is None:
            names, before = self._first(len(tokens)), None
        else:
            chosen, *rest = state.layers or (None,)
            if not isinstance(chosen, DocumentState):
                raise UserError("the state belongs to another model: it names no document")
            known = [None, *self.memory.names]
            named = chosen.document
            whole = named.dim() == 1 and named.dtype == torch.int64
            if not whole or not all(0 <= one < len(known) for one in named.tolist()):
                raise UserError("the state names documents that this memory does not have")
            names = [known[one] for one in named.tolist()]
            before = StreamState(tuple(rest), None, state.owner)
        with self.memory.document(names):
            out: Output = self.base(tokens, before)
        numbers = [0 if name is None else 1 + self.memory.names.index(name) for name in names]
        document = DocumentState(torch.tensor(numbers, device=tokens.device))
        layers = (document, *out.state.layers)
        return Output(out.logits, StreamState(layers, None, out.state.owner))

    def _first(self, rows: int) -> list[str | None]:
        if self.document is None or isinstance(self.document, str):
            return [self.document] * rows
        return list(self.document)


def position_limit(model: Any) -> int | None:
    """Most tokens that learned positions reach, None when there is no end."""
    # Of rotary positions the limit is advice; of a table of positions it is a wall.
    for name, module in model.named_modules():
        if name.endswith(("wpe", "embed_positions")) and isinstance(module, nn.Embedding):
            return int(model.config.max_position_embeddings)
    return None


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.shape == right.shape and torch.equal(left, right)
    return bool(left == right)
