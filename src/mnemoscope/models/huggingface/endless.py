"""An endless past for a causal language model of `transformers`: XL's cache and ∞-former's signal.

A stream is read in windows. Inside a window the model attends as it always does; when the window
is full, what its attention layers were given is written to a signal of fixed size for each of
them, and in later windows every query reads from it. Where the windows begin is counted from the
start of the stream, so reading token by token, or in pieces of any length, gives the same.

Shapes: R rows, T tokens, D width, H heads, E = D / H, S keys held.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.errors import UserError
from mnemoscope.memory.continuous import ContinuousState
from mnemoscope.memory.state import State, StreamState, read_tensors, write_tensors
from mnemoscope.models.config import Infinite
from mnemoscope.models.huggingface import blocks as parts
from mnemoscope.models.huggingface.config import EndlessOptions
from mnemoscope.models.longterm import LongTerm
from mnemoscope.models.model import Context, Output
from mnemoscope.seeds import derive

FILE = "endless.safetensors"
EMPTY = Context(mask=None, rotation=None)


@dataclass(frozen=True)
class WindowState(State):
    """tokens (R, S) whose keys and values are held: those carried over, then the window's own."""

    tokens: Tensor


@dataclass(frozen=True)
class LayerPast(State):
    """What one block carries.

    keys, values  (R, H, S, E)  of the window so far, as the model caches them
    inputs        (R, T, D)     what the attention was given in this window; None if it reads none
    signal                      all windows before; None if it reads none
    """

    keys: Tensor
    values: Tensor
    inputs: Tensor | None = None
    signal: ContinuousState | None = None


class SignalReader(nn.Module):
    """Reads a signal with the queries of an attention layer."""

    def __init__(self, config: Infinite, attention: nn.Module) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width, bias=False)
        weight = query_weight(attention, config.width, config.heads)
        if weight is not None:
            self.query.weight.data.copy_(weight)
        self.longterm = LongTerm(config)
        # A memory that has learnt nothing says nothing: training starts from the base's own loss.
        nn.init.zeros_(self.longterm.out.weight)

    def forward(self, inputs: Tensor, signal: ContinuousState) -> tuple[Tensor, ContinuousState]:
        """inputs (R, T, D) -> what was found in the signal (R, T, D), and who looked where."""
        rows, length, width = inputs.shape
        queries = self.query(inputs).view(rows, length, self.heads, width // self.heads)
        found: tuple[Tensor, ContinuousState] = self.longterm(
            queries.transpose(1, 2), signal, EMPTY
        )
        return found


def query_weight(attention: Any, width: int, heads: int) -> Tensor | None:
    """The map from a layer's input to its queries, (D, D); None where no known one has the shape.

    `q_proj` is a map of its own; GPT-2's `c_attn` has queries, keys and values side by side and
    is stored transposed; GPT-NeoX's `query_key_value` has the three within each head.
    """
    own = getattr(attention, "q_proj", None)
    joint = getattr(attention, "c_attn", None)
    by_head = getattr(attention, "query_key_value", None)
    weight: Tensor | None = None
    if own is not None:
        weight = own.weight
    elif joint is not None and tuple(joint.weight.shape) == (width, 3 * width):
        weight = joint.weight[:, :width].T
    elif by_head is not None and tuple(by_head.weight.shape) == (3 * width, width):
        weight = by_head.weight.view(heads, 3, width // heads, width)[:, 0].reshape(width, width)
    if weight is None or tuple(weight.shape) != (width, width):
        return None
    return weight.detach()


class EndlessMemory(nn.Module):
    """``out = memory(tokens, state)``: the model with all that it read before.

    ``memory.base`` stays the model it was: called by itself it reads no past, and inside
    ``with memory.past(state)`` it reads, in `generate` too, but writes nothing.
    """

    def __init__(self, model: Any, options: EndlessOptions) -> None:
        super().__init__()
        self.base, self.options = model, options
        self.blocks = [*parts.find_blocks(model)]
        listed = range(len(self.blocks)) if options.layers is None else options.layers
        chosen = sorted({parts.block_index(parts.find_blocks(model), i) for i in listed})
        self.reading = chosen if options.signal else []
        self.turning = any("rotary" in name for name, _ in model.named_modules())
        self._check_length()
        attentions = [parts.find_attention(self.blocks[index]) for index in self.reading]
        if any(_taken(attention) for attention in attentions):
            raise UserError("the model has an endless memory already: detach() that one first")
        self.config = self._signal_config()
        with torch.random.fork_rng():
            torch.manual_seed(derive(options.seed, "endless"))
            readers = [SignalReader(self.config, attention) for attention in attentions]
        self.readers = nn.ModuleList(readers).to(next(model.parameters()).device)
        shape = [type(model).__name__, parts.width_of(model), len(self.blocks)]
        self._owner = json.dumps([shape, options.model_dump(mode="json", exclude={"seed"})])
        self._signals: list[ContinuousState] | None = None
        self._inputs: list[Tensor] | None = None
        self._hooks = [
            attention.register_forward_hook(_Read(self, place), with_kwargs=True)
            for place, attention in enumerate(attentions)
        ]
        self._attached = True

    def detach(self) -> None:
        """Take the memory off; the model is what it was."""
        if not self._attached:
            raise UserError("this memory is detached already")
        for hook in self._hooks:
            hook.remove()
        self._attached = False

    def forward(self, tokens: Tensor, state: StreamState | None = None) -> Output:
        """Read tokens (R, T) after ``state``; feeding ``out.state`` back goes on."""
        if not self._attached:
            raise UserError("this memory is detached: attach it again, or load it")
        state = self._begin(tokens, state)
        logits = []
        while tokens.shape[1]:
            room = self.options.window - self._filled(state)
            part, tokens = tokens[:, :room], tokens[:, room:]
            found, state = self._read(part, state)
            logits.append(found)
            if self._filled(state) == 0:
                state = self._close(state)
        return Output(torch.cat(logits, 1), state)

    @contextmanager
    def past(self, state: StreamState) -> Iterator[None]:
        """Let the base read what came before: ``with memory.past(state): base.generate(...)``.

        Only the signal is read; tokens of a window that is not full yet are not in it.
        """
        self._check(state)
        layers = [state.layers[1 + index] for index in self.reading]
        signals = [layer.signal for layer in layers if isinstance(layer, LayerPast)]
        with self._under([signal for signal in signals if signal is not None], None):
            yield

    @contextmanager
    def _under(
        self, signals: list[ContinuousState] | None, inputs: list[Tensor] | None
    ) -> Iterator[None]:
        before = self._signals, self._inputs
        self._signals, self._inputs = signals, inputs
        try:
            yield
        finally:
            self._signals, self._inputs = before

    def _begin(self, tokens: Tensor, state: StreamState | None) -> StreamState:
        if tokens.dim() != 2 or tokens.dtype not in (torch.int64, torch.int32) or not len(tokens):
            raise UserError(f"tokens must be whole numbers (rows, length), not {tokens.dtype} "
                            f"of shape {tuple(tokens.shape)}")  # fmt: skip
        if tokens.shape[1] == 0:
            raise UserError("there are no tokens to read")
        if state is not None:
            self._check(state)
            if state.batch != len(tokens):
                raise UserError(f"the state holds {state.batch} rows, the tokens {len(tokens)}")
            return state
        rows, device = len(tokens), tokens.device
        config = self.base.config.get_text_config(decoder=True)
        empty = torch.zeros(rows, 0, 0, 0, device=device, dtype=self.base.dtype)
        pasts = []
        for index in range(len(self.blocks)):
            inputs = signal = None
            if index in self.reading:
                inputs = torch.zeros(rows, 0, config.hidden_size, device=device)
                signal = self._reader(self.reading.index(index)).longterm.fresh(rows)
            pasts.append(LayerPast(empty, empty, inputs, signal))
        count = torch.zeros(rows, dtype=torch.long, device=device)
        return StreamState((WindowState(tokens[:, :0]), *pasts), count, self._owner)

    def _check(self, state: StreamState) -> None:
        if not isinstance(state, StreamState) or state.owner != self._owner:
            raise UserError("the state is not from this memory: it must come from out.state")
        assert state.count is not None
        if len(set(state.count.tolist())) > 1:
            raise UserError(
                "rows of an endless memory stand at one place of their streams: start them "
                "together instead of resetting some"
            )

    def _reader(self, place: int) -> SignalReader:
        reader = self.readers[place]
        assert isinstance(reader, SignalReader)
        return reader

    def _filled(self, state: StreamState) -> int:
        """Tokens of the window that have been read."""
        assert state.count is not None
        return int(state.count[0]) % self.options.window

    def _read(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """Read tokens that fit into the window; no write."""
        window, *layers = state.layers
        assert isinstance(window, WindowState)
        pasts = [layer for layer in layers if isinstance(layer, LayerPast)]
        assert state.count is not None
        held, begun = window.tokens.shape[1], bool(pasts[0].keys.numel())
        fed = tokens
        if held and not begun:
            # Learned positions cannot be moved: what was carried over is read again from place 0.
            fed = torch.cat((window.tokens, tokens), 1)
        places = None
        if self.turning and self.options.cached:
            start = int(state.count[0])
            places = torch.arange(start, start + fed.shape[1], device=fed.device)[None]
        signals = [past.signal for past in pasts if past.signal is not None]
        inputs: list[Tensor] = [past.inputs for past in pasts if past.inputs is not None]
        fresh: list[Tensor] = [torch.empty(0)] * len(inputs)
        cache = _cache(pasts if begun else [])
        options = {} if places is None else {"position_ids": places}
        with self._under(signals, fresh):
            out = self.base(input_ids=fed, past_key_values=cache, use_cache=True, **options)
            signals = self._signals or []
        new = tokens.shape[1]
        after, place = [], 0
        for past, (keys, values) in zip(pasts, _pairs(out.past_key_values), strict=True):
            if past.inputs is None:
                after.append(LayerPast(keys, values))
                continue
            given = torch.cat((past.inputs, fresh[place][:, -new:]), 1)
            after.append(LayerPast(keys, values, given, signals[place]))
            place += 1
        carried = WindowState(torch.cat((window.tokens, tokens), 1))
        moved = StreamState((carried, *after), state.count + new, self._owner)
        return out.logits[:, -new:], moved

    def _close(self, state: StreamState) -> StreamState:
        """Write the window to the signals and let go of its keys, but for those carried over."""
        window, *layers = state.layers
        assert isinstance(window, WindowState)
        keep = self.options.cached
        after, place = [], 0
        for layer in layers:
            assert isinstance(layer, LayerPast)
            keys, values = layer.keys[:, :, :0], layer.values[:, :, :0]
            if keep and self.turning:
                # As in Transformer-XL, no gradient flows into what was read before the window.
                keys = layer.keys[:, :, -keep:].detach()
                values = layer.values[:, :, -keep:].detach()
            if layer.inputs is None or layer.signal is None:
                after.append(LayerPast(keys, values))
                continue
            signal = self._reader(place).longterm.write(layer.signal, layer.inputs)
            place += 1
            after.append(LayerPast(keys, values, layer.inputs[:, :0], signal))
        held = window.tokens[:, -keep:] if keep else window.tokens[:, :0]
        return StreamState((WindowState(held), *after), state.count, self._owner)

    def _signal_config(self) -> Infinite:
        options, model = self.options, self.base.config.get_text_config(decoder=True)
        return Infinite.make(
            vocab=2,
            width=model.hidden_size,
            heads=options.heads or model.num_attention_heads,
            basis=options.basis,
            chunk=options.window,
            contraction=options.contraction,
            sticky=options.sticky,
            density=options.density,
            gate=options.gate,
        )

    def _check_length(self) -> None:
        longest = parts.context_of(self.base)
        needed = self.options.window + (0 if self.turning else self.options.cached)
        if longest is not None and needed > longest:
            raise UserError(
                f"window={self.options.window} and cached={self.options.cached} need {needed} "
                f"positions, but the model has {longest}: make them smaller"
            )

    def save(self, folder: str | Path) -> Path:
        """Write the memory, not the base, to a folder."""
        path = Path(folder) / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {
            "kind": type(self.options).__name__,
            "options": self.options.model_dump(mode="json"),
            "base": parts.fingerprint(self.base),
        }
        tensors = self.readers.state_dict() or {"nothing": torch.zeros(1)}
        write_tensors(path, tensors, {"endless": json.dumps(about)})
        return path

    @classmethod
    def load(cls, folder: str | Path, model: Any) -> EndlessMemory:
        """Attach a memory that was saved to the base that it was trained with."""
        tensors, metadata = read_tensors(Path(folder) / FILE)
        if "endless" not in metadata:
            raise UserError(f"{folder} holds no endless memory")
        about = json.loads(metadata["endless"])
        if about["base"] != parts.fingerprint(model):
            raise UserError(f"the memory in {folder} belongs to another base model: load that one")
        from mnemoscope.models.huggingface import config

        memory = cls(model, getattr(config, about["kind"]).make(**about["options"]))
        if memory.reading:
            memory.readers.load_state_dict(tensors)
        return memory


class _Read:
    """The hook behind one attention layer: adds what was found, notes what was given."""

    def __init__(self, memory: EndlessMemory, place: int) -> None:
        self.memory, self.place = memory, place

    def __call__(self, module: nn.Module, given: Any, named: Any, output: Any) -> Any:
        memory = self.memory
        if memory._signals is None:
            return output
        hidden = named["hidden_states"] if "hidden_states" in named else given[0]
        reader = memory._reader(self.place)
        inputs = hidden.to(reader.query.weight.dtype)
        if memory._inputs is not None:
            memory._inputs[self.place] = inputs
        signal = memory._signals[self.place]
        if not int(signal.count[0]):
            return output
        if len(inputs) != signal.batch:
            signal = signal.select(_repeated(signal.batch, len(inputs)))
        found, looked = reader(inputs, signal)
        if memory._inputs is not None:
            memory._signals[self.place] = looked
        first = output[0] if isinstance(output, tuple) else output
        return parts.with_hidden(output, first + found.to(first.dtype))


def _repeated(rows: int, batch: int) -> Sequence[int]:
    """Which row each beam or returned sequence belongs to."""
    if batch % rows:
        raise UserError(f"the past has {rows} rows, the batch {batch}")
    return [row // (batch // rows) for row in range(batch)]


def _taken(attention: nn.Module) -> bool:
    return any(isinstance(hook, _Read) for hook in attention._forward_hooks.values())


def _cache(pasts: Sequence[LayerPast]) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for place, past in enumerate(pasts):
        cache.update(past.keys, past.values, place)
    return cache


def _pairs(cache: Any) -> Iterator[tuple[Tensor, Tensor]]:
    for layer in cache.layers:
        if getattr(layer, "keys", None) is None or layer.keys.dim() != 4:
            raise UserError("the model keeps something else than keys and values of its tokens")
        yield layer.keys, layer.values
