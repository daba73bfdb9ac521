"""A causal model of `transformers` that reads a stream, alone or under documents by name.

Shapes: R rows, H heads, T tokens of the segment, S keys, N read so far, E entries.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.activations.attention_interface import intercept_attention
from mnemoscope.huggingface.stream import ARGUMENTS, leaves
from mnemoscope.scope.frame import Step
from mnemoscope.scope.native_stream import check, surprise
from mnemoscope.scope.views.attention import causal, mean_attention
from mnemoscope.scope.views.plain import tensors
from mnemoscope.scope.views.view import Json, Part, Shown, listed, packed, slots, spread

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory

# Documents under which a text is read side by side, beside none and the chosen one.
MOST_DOCUMENTS = 14


class HuggingFacePageStream:
    """Reads tokens (T,) at a time; with a document memory, under every document at once.

    Row 0 is the one that is shown, under ``document``; the next is the model without any.
    """

    def __init__(
        self, model: Any, memory: DocumentMemory | None = None, document: str | None = None
    ) -> None:
        self.model, self.memory = model, memory
        self.rows: list[str | None] = [document]
        if memory is not None:
            others = [name for name in [None, *memory.names] if name != document]
            self.rows += others[: MOST_DOCUMENTS + 1]
        self.carried: dict[str, Any] = {}
        self.read = 0
        self._said: Tensor | None = None  # (R, V) logits after the last token

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Step:
        """Read on, and say what was seen."""
        device = next(self.model.parameters()).device
        batch = tokens.to(device).expand(len(self.rows), -1)
        weights: list[Any] = []
        used: list[Tensor] = []  # how far tokens activate entries, (R, T, E)
        with ExitStack() as stack:
            stack.enter_context(intercept_attention(self.model, self._listener(weights)))
            if self.memory is not None:
                stack.enter_context(self.memory.document(self.rows))
                hook = self.memory.store.register_forward_hook(_activations(used))
                stack.callback(hook.remove)
            out = self.model(input_ids=batch, use_cache=True, **self.carried)
        check(out.logits)
        self.carried = {
            name: out[name] for name in ARGUMENTS if name in out and out[name] is not None
        }
        held = [(name, one) for name, one in leaves(self.carried) if isinstance(one, Tensor)]
        size = sum(one.numel() * one.element_size() for _, one in held) // len(self.rows)
        bits = [self._bits(out.logits, tokens, row) for row in range(len(self.rows))]
        self._said = out.logits[:, -1]
        step, new, read = Step(size, bits[0]), len(tokens), self.read + len(tokens)
        for number, layer in enumerate(weights):
            positions = np.arange(read - layer.shape[1], read)
            shares = spread(layer, positions, 1, read)
            step.add(Shown([Part(number, f"layer {number + 1}", shares)]))
        step.panels += self._held(held, read)
        if used:
            step.panels.insert(0, self._entries(used[0][0], bits, new))
        self.read = read
        return step

    def _listener(self, found: list[Any]) -> Any:
        def listen(
            module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: Any
        ) -> Tensor | None:
            new, total = query.shape[2], key.shape[2]
            keys = key[:1].repeat_interleave(query.shape[1] // key.shape[1], 1)
            allowed = causal(new, total, None, key.device)
            if isinstance(mask, Tensor):
                shown = mask[:1, :, :, :total]
                allowed = allowed & (shown if shown.dtype == torch.bool else shown >= -1e4)
            found.append(mean_attention(query[:1], keys, allowed, options.get("scaling")))
            return mask

        return listen

    def _bits(self, logits: Tensor, tokens: Tensor, row: int) -> list[float | None]:
        return surprise(logits[row], tokens, None if self._said is None else self._said[row])

    def _held(self, held: list[tuple[str, Tensor]], read: int) -> list[Json]:
        """A panel per layer that keeps keys and values; one list of tensors for all the rest."""
        layers = getattr(self.carried.get("past_key_values"), "layers", [])
        panels = []
        for number, layer in enumerate(layers):
            keys = getattr(layer, "keys", None)
            if not isinstance(keys, Tensor) or keys.dim() != 4:
                return [tensors(0, [(name, one[:1]) for name, one in held])]
            size = (keys[:1].numel() + layer.values[:1].numel()) * keys.element_size()
            positions = np.arange(read - keys.shape[2], read)
            name = f"layer {number + 1}"
            panels.append(slots(number, name, "keys and values", positions, 1, None, size))
        return panels or [tensors(0, [(name, one[:1]) for name, one in held])]

    def _entries(self, used: Tensor, bits: list[list[float | None]], new: int) -> Json:
        """Which entries documents open and tokens activate, and the loss under each document."""
        memory = self.memory
        assert memory is not None
        document = self.rows[0]
        selection = memory.selection().double().cpu()
        sizes = memory.store.values.double().norm(dim=0).cpu()  # (E,)
        used = used.double().cpu().abs() * sizes  # (T, E)
        opened = torch.zeros(len(sizes), dtype=torch.float64)
        if document is not None:
            opened = selection[memory.names.index(document)]
        means = [[one for one in row if one is not None] for row in bits]
        shown = memory.names[: MOST_DOCUMENTS + 1]
        return {
            "kind": "entries",
            "layer": memory.index,
            "document": document,
            "documents": shown,
            "selection": packed(selection[: len(shown)].numpy()),
            "used": packed(used.T.numpy()),
            "added": listed((used * opened.abs()).mean(0).numpy()),
            "losses": [
                {"name": name, "bits": round(float(np.mean(row)), 4) if row else None}
                for name, row in zip(self.rows, means, strict=True)
            ],
            "bytes": (memory.options.key_dim * memory.store.keys.element_size()),
        }


def _activations(found: list[Tensor]) -> Any:
    def after(store: Any, inputs: Any, output: Any) -> None:
        found.append(store.activations(inputs[0]).detach())

    return after
