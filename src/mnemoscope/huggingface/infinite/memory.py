"""The memories of ∞-former and Transformer-XL for a causal language model of `transformers`.

A stream is read in windows. Inside a window the model attends as it always does; when the window
is full, what its attention layers were given is written to a signal of fixed size for each of
them, and in later windows every query reads from it. Where the windows begin is counted from the
start of each row's stream, so reading token by token, in segments of any length, padded, or beside
rows that stand elsewhere, gives the same.

Shapes: R rows, T tokens, D width, V words.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.core.aliases import stored
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface import limits, saved
from mnemoscope.huggingface.attached import Attached, Tensors
from mnemoscope.huggingface.config import InfiniteFitting, InfiniteOptions, TransformerXLOptions
from mnemoscope.huggingface.infinite import fitting, joint
from mnemoscope.huggingface.infinite import windows as held
from mnemoscope.huggingface.infinite.fitting import MemoryWorth
from mnemoscope.huggingface.infinite.hidden_states import HiddenStates
from mnemoscope.huggingface.infinite.signals import CallSignals, ReadHook, SignalReader, is_read
from mnemoscope.huggingface.infinite.slots import REACH, Rotation, SlotPlan, SlotState
from mnemoscope.huggingface.infinite.streams import learnt_from
from mnemoscope.huggingface.infinite.windows import WindowLayerState, Windows, WindowState
from mnemoscope.huggingface.texts import Texts, token_ids
from mnemoscope.memories.state import StreamState
from mnemoscope.models.model import Output


class InfiniteMemory(Attached, nn.Module):
    """``out = memory(tokens, state)``: the model with all that it read before.

    ``memory.base`` stays the model it was: called by itself it reads no past, and inside
    ``with memory.past(state)`` it reads, in `generate` too, but writes nothing.
    """

    kind, file = "infinite", saved.INFINITE

    def __init__(self, model: Any, options: InfiniteOptions, tokenizer: Any = None) -> None:
        super().__init__(model, options, tokenizer)
        self.blocks = [*parts.find_blocks(model)]
        listed = range(len(self.blocks)) if options.layers is None else options.layers
        chosen = sorted({parts.block_index(len(self.blocks), i) for i in listed})
        self.reading_layers = chosen if options.signal and not options.joint else []
        rotary = any("rotary" in name for name, _ in model.named_modules())
        carried = 0 if options.slots else options.mem_len
        self.windows = Windows(options.window, carried, rotary)
        limits.check_window(model.config, options, 0 if self.windows.moves else carried)
        attentions = [parts.find_attention(self.blocks[index]) for index in self.reading_layers]
        if any(is_read(attention) for attention in attentions):
            raise UserError("the model has a long-term memory already: detach() that one first")
        self.config = limits.signal_config(model.config, options)
        with torch.random.fork_rng():
            torch.manual_seed(derive(options.seed, "endless"))
            heads = model.config.get_text_config(decoder=True).num_attention_heads
            readers = [SignalReader(self.config, attention, heads) for attention in attentions]
        self.readers = nn.ModuleList(readers).to(next(model.parameters()).device)
        named = inspect.signature(model.forward).parameters
        self._no_logits = {"logits_to_keep": 1} if "logits_to_keep" in named else {}
        shape = [type(model).__name__, parts.width_of(model), len(self.blocks)]
        self._owner = _owner(shape, options)
        self.now: CallSignals | None = None  # what the hooks work with while a call lasts
        self._hooks = [
            attention.register_forward_hook(ReadHook(self, index), with_kwargs=True)
            for index, attention in enumerate(attentions)
        ]
        # Layers that read no signal see as much of it as their own window: the one before.
        few = SlotPlan(options.sinks + options.window, options.sinks, "recent")
        many = SlotPlan(options.sinks + options.slots, options.sinks, options.keep, options.pooling)
        every = not options.joint
        self.slot_plans = [
            many if every or index in chosen else few
            for index in range(len(self.blocks) if options.slots else 0)
        ]
        self.rotation = Rotation(model, max(REACH, options.window))
        self._run = range(len(self.blocks))  # blocks that a call computes
        self._kept: HiddenStates | None = None
        if self.slot_plans:
            self._attentions = [parts.find_attention(block) for block in self.blocks]
            self._before = joint.join(self, self._attentions)
        self._attached = True

    def detach(self) -> None:
        """Take the memory off; the model is what it was."""
        if not self._attached:
            raise UserError("this memory is detached already")
        for hook in self._hooks:
            hook.remove()
        if self.slot_plans:
            joint.part(self, self._attentions, self._before)
        self._attached = False

    def forward(
        self, tokens: Tensor, state: StreamState | None = None, mask: Tensor | None = None
    ) -> Output:
        """Read tokens (R, T) after ``state``; ``mask`` (R, T) is false where a token is padding.

        ``out.state`` fed back continues the stream. What logits say at padding means nothing.
        """
        return self._forward(tokens, state, mask, predict=True)

    def read(
        self, tokens: Tensor, state: StreamState | None = None, mask: Tensor | None = None
    ) -> StreamState:
        """The state after tokens (R, T): as a call, but nothing is predicted, which saves time."""
        with torch.no_grad():
            return self._forward(tokens, state, mask, predict=False).state

    def _forward(
        self, tokens: Tensor, state: StreamState | None, mask: Tensor | None, predict: bool
    ) -> Output:
        if not self._attached:
            raise UserError("this memory is detached: attach it again, or load it")
        state = self._begin(tokens, state, mask)
        assert state.count is not None
        counts: list[int] = state.count.tolist()
        lengths = [tokens.shape[1]] * len(tokens)
        if mask is not None:
            lengths = mask.sum(1).tolist()
            tokens = tokens.gather(1, (~mask).long().argsort(dim=1, stable=True))
        done, read_logits = [0] * len(tokens), []
        losses: dict[str, Tensor] = {}
        # Where in all segments the logits of every token are.
        where, offset = torch.zeros(tokens.shape, dtype=torch.long), 0
        while done != lengths:
            new = [
                min(self.windows.size - self.windows.filled(count), length - read)
                for count, length, read in zip(counts, lengths, done, strict=True)
            ]
            logits, state, asked = self._read(tokens, state, counts, done, new, predict)
            for name, loss in asked.items():  # a mean over tokens, as the cross-entropy is
                losses[name] = losses.get(name, 0) + loss * (sum(new) / sum(lengths))
            for row, (read, more) in enumerate(zip(done, new, strict=True)):
                where[row, read : read + more] = offset + torch.arange(more)
            read_logits.append(logits)
            offset += max(new)
            done = [read + more for read, more in zip(done, new, strict=True)]
            counts = [count + more for count, more in zip(counts, new, strict=True)]
        # Logits are large, and to join one piece would copy it.
        logits = read_logits[0] if len(read_logits) == 1 else torch.cat(read_logits, 1)
        if not predict:
            return Output(logits, state, losses)
        if mask is not None:
            where = where.gather(1, (mask.cumsum(1) - 1).clamp(min=0).cpu())
        if offset != where.shape[1] or mask is not None:
            where = where.to(logits.device)[:, :, None].expand(-1, -1, logits.shape[2])
            logits = logits.gather(1, where)
        return Output(logits, state, losses)

    def fit(self, texts: Texts, **options: Any) -> list[float]:
        """Learn to read the past from texts; `InfiniteFitting` has the options.

        A text, several, or their token ids: the past begins anew with each, and of long ones pieces
        are read side by side. Streams (R, T) of token ids are read as they are. Returns the
        cross-entropy of every step.
        """
        settings = InfiniteFitting.make(**options)
        return fitting.fit(self, *learnt_from(self, texts, settings), settings)

    def worth(self, texts: Texts, silent: bool = False, most: int | None = None) -> MemoryWorth:
        """Read whole texts with their own state, with none and with another's; compare losses.

        Of every text ``most`` tokens are read, if that is given.
        """
        return fitting.worth(self, token_ids(texts, self.text_tokenizer, most), silent)

    @contextmanager
    def past(self, state: StreamState) -> Iterator[None]:
        """Let the base read what came before: ``with memory.past(state): base.generate(...)``.

        Only the signal is read; tokens of a window that is not full yet are not in it.
        """
        self._check(state)
        layers = [state.layers[1 + index] for index in self.reading_layers]
        signals = [layer.signal for layer in layers if isinstance(layer, WindowLayerState)]
        call = CallSignals([signal for signal in signals if signal is not None])
        call.slots = _slots(state.layers)
        with self._under(call):
            yield

    @contextmanager
    def kept(self, hidden: HiddenStates) -> Iterator[None]:
        """Let calls compute only what is above hidden states that were computed before.

        They must read all tokens that these are of, from the beginning of a window on.
        """
        self._kept, self._run = hidden, range(len(hidden.sizes), len(self.blocks))
        try:
            yield
        finally:
            self._kept, self._run = None, range(len(self.blocks))

    @contextmanager
    def until(self, block: int) -> Iterator[None]:
        """Let calls compute only the blocks below one; what they predict means nothing."""
        self._run = range(block)
        try:
            with parts.passing(self.blocks[block:]):
                yield
        finally:
            self._run = range(len(self.blocks))

    def _above(self, begin: int, length: int) -> AbstractContextManager[None]:
        if self._kept is None:
            return nullcontext()
        hidden = self._kept.hidden[:, begin : begin + length]
        return parts.starting_behind(self.blocks, hidden, self._kept.sizes)

    @contextmanager
    def _under(self, call: CallSignals) -> Iterator[None]:
        before, self.now = self.now, call
        try:
            yield
        finally:
            self.now = before

    def _begin(self, tokens: Tensor, state: StreamState | None, mask: Tensor | None) -> StreamState:
        if tokens.dim() != 2 or tokens.dtype not in (torch.int64, torch.int32) or not len(tokens):
            raise UserError(f"tokens must be whole numbers (rows, length), not {tokens.dtype} "
                            f"of shape {tuple(tokens.shape)}")  # fmt: skip
        if mask is not None and (mask.shape != tokens.shape or mask.dtype != torch.bool):
            raise UserError(f"the mask must be boolean of shape {tuple(tokens.shape)}; "
                            f"got {mask.dtype} of shape {tuple(mask.shape)}")  # fmt: skip
        if tokens.shape[1] == 0 or (mask is not None and not bool(mask.any())):
            raise UserError("there are no tokens to read")
        if state is not None:
            self._check(state)
            if state.batch != len(tokens):
                raise UserError(f"the state holds {state.batch} rows, the tokens {len(tokens)}")
            return state
        rows, device = len(tokens), tokens.device
        width = parts.width_of(self.base)
        empty = torch.zeros(rows, 0, 0, 0, device=device, dtype=self.base.dtype)
        pasts = []
        for index in range(len(self.blocks)):
            inputs = signal = None
            if index in self.reading_layers:
                inputs = torch.zeros(rows, 0, width, device=device)
                signal = self.reader(self.reading_layers.index(index)).longterm.fresh(rows)
            slots = None
            if self.slot_plans:
                slots = self.slot_plans[index].fresh(rows, *_head_shape(self.base), empty)
            pasts.append(WindowLayerState(empty, empty, inputs, signal, slots))
        count = torch.zeros(rows, dtype=torch.long, device=device)
        return StreamState((WindowState(tokens[:, :0]), *pasts), count, self._owner)

    def _check(self, state: StreamState) -> None:
        if not isinstance(state, StreamState) or self._today(state.owner) != self._owner:
            raise UserError("the state is not from this memory: it must come from out.state")

    def _today(self, owner: str | None) -> str | None:
        """What this version calls the owner of a state; one that had fewer options wrote fewer."""
        if owner == self._owner:
            return owner
        kind = type(self.options)
        try:
            shape, options = json.loads(owner or "")
            return _owner(shape, kind.make(**stored(kind.model_fields, options)))
        except (AttributeError, TypeError, ValueError, RecursionError, UserError):
            return None

    def reader(self, index: int) -> SignalReader:
        """The reader of the ``index``-th layer that reads."""
        reader = self.readers[index]
        assert isinstance(reader, SignalReader)
        return reader

    def _read(
        self,
        tokens: Tensor,
        state: StreamState,
        counts: Sequence[int],
        done: Sequence[int],
        new: Sequence[int],
        predict: bool,
    ) -> tuple[Tensor, StreamState, dict[str, Tensor]]:
        """Read ``new`` tokens of every row after those ``done``: logits (R, most new, V).

        They fit into the window of each row; windows that are full after them are written. Last
        comes what signals ask for beside the task.
        """
        windows, device = self.windows, tokens.device
        window, *layers = state.layers
        assert isinstance(window, WindowState)
        pasts = [layer for layer in layers if isinstance(layer, WindowLayerState)]
        segment = held.lay_out(windows, window.tokens, tokens, done, counts, new)
        keys_held = held.Held([windows.keys(count) for count in counts], segment.real)
        call = CallSignals(
            [past.signal for past in pasts if past.signal is not None],
            [torch.empty(0)] * len(self.reading_layers),
            None if bool(segment.new.all()) else segment.new,
            slots=_slots(pasts),
        )
        with self._under(call), self._above(done[0], max(new)):
            out = self.base(
                input_ids=segment.tokens,
                attention_mask=None if keys_held.even else keys_held.attention(),
                position_ids=segment.positions,
                past_key_values=held.cache_of(pasts, keys_held.before),
                use_cache=True,
                **({} if predict else self._no_logits),
            )
        assert call.inputs is not None
        counts = [count + more for count, more in zip(counts, new, strict=True)]
        full = [more > 0 and windows.filled(c) == 0 for c, more in zip(counts, new, strict=True)]
        rows = torch.tensor(full, device=device)
        keep = max(windows.keys(count) for count in counts)
        fresh = held.Held(
            [windows.filled(c - n) for c, n in zip(counts, new, strict=True)], segment.new
        )
        after: list[WindowLayerState] = []
        reads = itertools.count()  # over layers that have a signal
        caches = held.pairs_of(out.past_key_values, self._run)
        for block, past in enumerate(pasts):
            if block not in self._run:
                after.append(past)
                continue
            whole = [keys_held.settled(one, 2) for one in next(caches)]
            keys, values = (held.last(one, keep, 2) for one in whole)
            slots = call.slots[block] if call.slots else None
            if any(full) and slots is not None:
                slots = self._written(block, slots, whole, None if all(full) else rows)
            if any(full):
                # As in Transformer-XL, no gradient flows into what was read before the window.
                keys, values = (
                    torch.where(rows[:, None, None, None], one.detach(), one)
                    for one in (keys, values)
                )
            if past.inputs is None or past.signal is None:
                after.append(WindowLayerState(keys, values, slots=slots))
                continue
            index = next(reads)
            given = fresh.joined(past.inputs, call.inputs[index], 1)
            signal = call.signals[index]
            if any(full):
                longterm = self.reader(index).longterm
                signal = longterm.write(signal, given, None if all(full) else rows)
            given = held.last(given, max(windows.filled(count) for count in counts), 1)
            after.append(WindowLayerState(keys, values, given, signal, slots))
        seen = held.Held(
            [windows.tokens(c - n) for c, n in zip(counts, new, strict=True)], segment.new
        )
        again = held.last(
            seen.joined(window.tokens, segment.tokens, 1), max(map(windows.tokens, counts)), 1
        )
        count = torch.tensor(counts, device=device)
        logits = out.logits
        if predict and call.counted is not None:
            order = (~segment.new).long().argsort(dim=1, stable=True)[:, : max(new)]
            logits = logits.gather(1, order[:, :, None].expand(-1, -1, logits.shape[2]))
        state = StreamState((WindowState(again), *after), count, self._owner)
        return logits, state, call.losses

    def _written(
        self, block: int, slots: SlotState, whole: Sequence[Tensor], rows: Tensor | None
    ) -> SlotState:
        """Write the keys and values of full windows, (R, H, S, E) each, to the slots of a block."""
        size = self.windows.size
        keys, values = (held.last(one, size, 2) for one in whole)
        back = -torch.arange(size, device=keys.device)[None]
        return self.slot_plans[block].write(slots, self.rotation(keys, back), values, rows)

    @property
    def weights(self) -> nn.ModuleList:
        """What reads the signals, one for each layer that does."""
        return self.readers

    def _about(self) -> tuple[Tensors, dict[str, Any]]:
        xl = isinstance(self.options, TransformerXLOptions)
        about = {
            "kind": "transformer_xl" if xl else "infinite",
            "options": self.options.model_dump(mode="json"),
        }
        return self.readers.state_dict() or {"nothing": torch.zeros(1)}, about

    def _restore(self, path: Path, tensors: Tensors, about: dict[str, Any]) -> None:
        if not self.reading_layers:
            return
        for name, weight in self.readers.state_dict().items():
            if name.endswith("query.bias"):  # the first memories had none
                tensors.setdefault(name, torch.zeros_like(weight))
        try:
            self.readers.load_state_dict(tensors)
        except RuntimeError as error:
            why = " ".join(str(error).splitlines()[1:2]).strip()
            raise saved.damaged(path, why) from error


def _slots(layers: Sequence[Any]) -> list[SlotState]:
    found = [layer.slots for layer in layers if isinstance(layer, WindowLayerState)]
    return [one for one in found if one is not None]


def _head_shape(model: Any) -> tuple[int, int]:
    """How many heads have keys of their own, and the size of one."""
    config = model.config.get_text_config(decoder=True)
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return getattr(config, "num_key_value_heads", None) or heads, size


def _owner(shape: Any, options: InfiniteOptions) -> str:
    return json.dumps([shape, options.model_dump(mode="json", exclude={"seed"})])
