"""The one call: ``out = model(tokens, state)`` for every memory.

Shapes: B rows, T tokens, D width, V outputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.core.aliases import canonical, stored
from mnemoscope.core.errors import UserError, shown
from mnemoscope.core.registry import model_kind
from mnemoscope.core.shown import TENSOR_TITLES, html_table, tensor_rows
from mnemoscope.memories.config import ModelConfig, TransformerBase
from mnemoscope.memories.layer import Context, recomputed
from mnemoscope.memories.positions import Positions
from mnemoscope.memories.shapes import fault
from mnemoscope.memories.state import StreamState as StreamState
from mnemoscope.models.footprint import check as check_size

# Options that may differ between the model that wrote a state and the one that continues from it.
NOT_OF_A_STATE = {"dropout", "readout", "outputs", "recompute"}


@dataclass(frozen=True)
class Output:
    """logits (B, T, V), or (B, 1, V) from a model that reads out last; and the state after it.

    losses: what memories ask for beside the task, by name, weighted; only in training.
    """

    logits: Tensor
    state: StreamState
    losses: dict[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        asked = "".join(f", {name} {float(loss):.3g}" for name, loss in self.losses.items())
        return (
            f"Output(logits {tuple(self.logits.shape)}, state {self.state.nbytes:,} bytes{asked})"
        )

    def _repr_html_(self) -> str:
        held = [("logits", self.logits), *self.losses.items()]
        held += [(f"state.{name}", tensor) for name, tensor in self.state.tensors()]
        caption = f"Output; its state has {self.state.nbytes:,} bytes"
        return html_table(caption, TENSOR_TITLES, tensor_rows(held))


class SequenceModel(nn.Module):
    """Embedding, layers that each carry a state, readout.

    A layer is a module called as ``layer(vectors, state, context) -> (vectors, state)``; what it
    says it ``wants`` (`Wanted`) is checked of every state that the model is given.
    """

    def __init__(
        self, config: ModelConfig, layers: Iterable[nn.Module], positions: Positions, norm: bool
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.positions = positions
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(config.width) if norm else nn.Identity()
        self.readout = nn.Linear(config.width, config.outputs or config.vocab)
        self._owner = config.model_dump_json(exclude=NOT_OF_A_STATE)
        # A layer of somebody else need not say what it wants; then nobody can check it.
        self._wants = tuple(getattr(layer, "wants", None) for layer in self.layers)

    def forward(
        self,
        tokens: Tensor,
        state: StreamState | None = None,
        mask: Tensor | None = None,
        silent: bool = False,
    ) -> Output:
        """Read tokens (B, T) after ``state``; ``mask`` (B, T) is false where a token is padding.

        ``state=None`` starts a stream; ``out.state`` fed back continues it. The gradient flows
        back through the state for as long as nobody calls ``state.detach()``. A ``silent`` read has
        no logits: see `prefill`.
        """
        self._check(tokens, state, mask)
        count = self._count(tokens, state)
        vectors = self.embedding(tokens)
        rotation = None
        if count is not None:
            positions = self._positions(tokens, count, mask)
            vectors, rotation = self.positions(vectors, positions)
            count = count + (tokens.shape[1] if mask is None else mask.sum(1))
        context = Context(mask, rotation)

        carried = []
        if self.training:
            vectors = F.dropout(vectors, self.config.dropout)
        past: Iterable[Any] = state.layers if state else [None] * len(self.layers)
        recompute = getattr(self.config, "recompute", False) and torch.is_grad_enabled()
        for place, (layer, before) in enumerate(zip(self.layers, past, strict=True), start=1):
            if silent and place == len(self.layers):
                # What the last layer says is in no state.
                context = replace(context, silent=True)
            if recompute:
                vectors, after = recomputed(layer, vectors, before, context)
            else:
                vectors, after = layer(vectors, before, context)
            carried.append(after)

        if silent:
            vectors = vectors[:, :0]
        elif self.config.readout == "last":
            vectors = _last(vectors, mask)
        logits = self.readout(self.norm(vectors))
        new = StreamState(tuple(carried), count, self._owner)
        if not torch.compiler.is_compiling():
            new._fits.append(self._numbers(tokens.device))
        return Output(logits, new, context.losses)

    def prefill(
        self, tokens: Tensor, state: StreamState | None = None, mask: Tensor | None = None
    ) -> StreamState:
        """Read tokens that nobody is asked about: the state that a call would leave, for less."""
        if type(self).forward is not SequenceModel.forward:  # a model that reads in its own way
            return self(tokens, state, mask).state  # type: ignore[no-any-return]
        return self(tokens, state, mask, silent=True).state  # type: ignore[no-any-return]

    def _count(self, tokens: Tensor, state: StreamState | None) -> Tensor | None:
        if self.positions.kind == "none":
            return None
        if state is None:
            return torch.zeros(tokens.shape[0], dtype=torch.long, device=tokens.device)
        return state.count

    def _positions(self, tokens: Tensor, count: Tensor, mask: Tensor | None) -> Tensor:
        """Position of every token in its own stream, (B, T); padding takes no place."""
        if mask is None:
            positions = count[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        else:
            positions = (count[:, None] + mask.cumsum(1) - 1).clamp(min=0)
        limit = self.config.limit
        if limit is None:
            return positions
        low, high = (int(bound) for bound in positions.aminmax())
        if low < 0:
            raise UserError(f"the state says that a row has read {int(count.min())} tokens")
        if high >= limit:
            raise UserError(
                f"the stream has {high + 1} tokens but learned positions end at "
                f"{limit}; build with a larger context, or with rotary or sinusoidal positions"
            )
        return positions

    def _check(self, tokens: Tensor, state: StreamState | None, mask: Tensor | None) -> None:
        check_ids(tokens, self.config.vocab, "tokens", "token")
        if mask is not None:
            check_mask(mask, tokens)
        if state is not None:
            self._check_state(tokens, state)

    def _check_state(self, tokens: Tensor, state: StreamState) -> None:
        if not isinstance(state, StreamState):
            raise UserError(f"state must come from out.state; got {type(state).__name__}")
        if state.owner != self._owner and (other := self._differences(state.owner)):
            raise UserError(f"the state belongs to another model: {other}")
        if not torch.compiler.is_compiling():
            self._check_shapes(state, tokens.device)
        if state.batch != tokens.shape[0]:
            raise UserError(
                f"the state holds {state.batch} rows but the tokens have {tokens.shape[0]}; "
                "pick rows with state.select(rows) or start anew with state=None"
            )

    def _check_shapes(self, state: StreamState, device: torch.device) -> None:
        numbers = self._numbers(device)
        if numbers in state._fits:
            return
        counted = {"count": self.positions.kind != "none"}
        wrong = fault(state, {"layers": self._wants}, counted, *numbers)
        if wrong is not None:
            raise UserError(f"the state does not fit this model: {wrong}")

    def _numbers(self, device: torch.device) -> tuple[frozenset[torch.dtype], torch.device]:
        """The kinds of numbers that a state of this model can have, and where they are."""
        own = self.embedding.weight.dtype
        if not torch.is_autocast_enabled(device.type):
            return frozenset((own,)), device
        return frozenset((own, torch.float32, torch.get_autocast_dtype(device.type))), device

    def _differences(self, owner: str) -> str:
        ours = json.loads(self._owner)
        try:
            theirs = json.loads(owner)
        except (ValueError, RecursionError, TypeError):
            theirs = None
        if not isinstance(theirs, dict):
            return "it does not say which"
        # What an owner does not name, its version did not have yet: then it is as by default.
        usual = self.config.defaults()
        theirs = {n: v for n, v in stored(ours, theirs).items() if n not in NOT_OF_A_STATE}
        if isinstance(theirs.get("memory"), str):
            theirs["memory"] = canonical(model_kind(self.config.memory), theirs["memory"])
        theirs = {name: usual[name] for name in ours if name in usual} | theirs
        names = [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]
        said = (f"{n} is {theirs.get(n)} there, {ours.get(n)} here" for n in names)
        return "; ".join(said)[:1000]


def check_ids(ids: Tensor, vocab: int, what: str, each: str) -> None:
    """Raise `UserError` unless ids (B, T) are there and of a vocabulary."""
    if not isinstance(ids, Tensor):
        raise UserError(
            f"{what} must be a tensor of ids (rows, length), not {shown(ids)}: texts and lists of "
            "ids are read by ms.stream(model).read(…) and ms.generate"
        )
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32) or ids.numel() == 0:
        raise UserError(
            f"{what} must be int64 or int32 of shape (rows, length), not empty; "
            f"got {ids.dtype} of shape {tuple(ids.shape)}"
        )
    # On an accelerator this look would wait for the device; its embedding kernel checks.
    if ids.device.type == "cpu" and not torch.compiler.is_compiling():
        low, high = (int(bound) for bound in ids.aminmax())
        if low < 0 or high >= vocab:
            raise UserError(
                f"{each} id {low if low < 0 else high} is outside the vocabulary: "
                f"this model reads ids 0 to {vocab - 1}"
            )


def check_mask(mask: Tensor, ids: Tensor) -> None:
    """Raise `UserError` unless a mask says of every id whether it is one."""
    if mask.shape != ids.shape or mask.dtype != torch.bool:
        raise UserError(
            f"the mask must be boolean of shape {tuple(ids.shape)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def _last(vectors: Tensor, mask: Tensor | None) -> Tensor:
    """The vector of each row's last real token, (B, 1, D)."""
    if mask is None:
        return vectors[:, -1:]
    steps = torch.arange(mask.shape[1], device=mask.device)
    last = (mask * steps).argmax(1)
    return vectors.gather(1, last[:, None, None].expand(-1, 1, vectors.shape[2]))


def build(config: ModelConfig) -> SequenceModel:
    """Build the model that a config describes, its weights from torch's current random state."""
    if type(config).build is not ModelConfig.build:
        return config.build()  # it puts its model together by itself
    check_size(config)
    # What is drawn first decides all that follows: positions, layers, embedding, readout.
    positions = config.position_encoding()
    layers = [config.layer(index) for index in range(config.layers)]
    model = SequenceModel(config, layers, positions, config.final_norm)
    if isinstance(config, TransformerBase) and config.tied:
        model.readout.weight = model.embedding.weight
    return model


def parameters(model: nn.Module) -> int:
    """How many numbers training can change."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
