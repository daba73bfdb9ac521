"""The memories of ∞-former and Transformer-XL for a causal language model of `transformers`.

A stream is read in windows. Inside a window the model attends as it always does; when the window
is full, what its attention layers were given is written to a signal of fixed size for each of
them, and in later windows every query reads from it. Where the windows begin is counted from the
start of each row's stream, so reading token by token, in segments of any length, padded, or beside
rows that stand elsewhere, gives the same.

Shapes: R rows, T tokens, D width, V words.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface import limits, saved
from mnemoscope.huggingface.config import InfiniteFitting, InfiniteOptions, TransformerXLOptions
from mnemoscope.huggingface.infinite import windows as held
from mnemoscope.huggingface.infinite.signals import CallSignals, ReadHook, SignalReader, is_read
from mnemoscope.huggingface.infinite.windows import WindowLayerState, Windows, WindowState
from mnemoscope.huggingface.saving import keep
from mnemoscope.memories.state import StreamState
from mnemoscope.models.model import Output

if TYPE_CHECKING:
    from mnemoscope.huggingface.infinite.fitting import MemoryWorth

FILE = saved.INFINITE
read_saved = saved.read_infinite


class InfiniteMemory(nn.Module):
    """``out = memory(tokens, state)``: the model with all that it read before.

    ``memory.base`` stays the model it was: called by itself it reads no past, and inside
    ``with memory.past(state)`` it reads, in `generate` too, but writes nothing.
    """

    def __init__(self, model: Any, options: InfiniteOptions) -> None:
        super().__init__()
        self.base, self.options = model, options
        self.blocks = [*parts.find_blocks(model)]
        listed = range(len(self.blocks)) if options.layers is None else options.layers
        chosen = sorted({parts.block_index(len(self.blocks), i) for i in listed})
        self.reading_layers = chosen if options.signal else []
        rotary = any("rotary" in name for name, _ in model.named_modules())
        self.windows = Windows(options.window, options.mem_len, rotary)
        limits.check_window(model.config, options, 0 if self.windows.moves else options.mem_len)
        attentions = [parts.find_attention(self.blocks[index]) for index in self.reading_layers]
        if any(is_read(attention) for attention in attentions):
            raise UserError("the model has a long-term memory already: detach() that one first")
        self.config = limits.signal_config(model.config, options)
        with torch.random.fork_rng():
            torch.manual_seed(derive(options.seed, "endless"))
            readers = [SignalReader(self.config, attention) for attention in attentions]
        self.readers = nn.ModuleList(readers).to(next(model.parameters()).device)
        shape = [type(model).__name__, parts.width_of(model), len(self.blocks)]
        self._owner = json.dumps([shape, options.model_dump(mode="json", exclude={"seed"})])
        self.now: CallSignals | None = None  # what the hooks work with while a call lasts
        self._hooks = [
            attention.register_forward_hook(ReadHook(self, index), with_kwargs=True)
            for index, attention in enumerate(attentions)
        ]
        self._attached = True

    def detach(self) -> None:
        """Take the memory off; the model is what it was."""
        if not self._attached:
            raise UserError("this memory is detached already")
        for hook in self._hooks:
            hook.remove()
        self._attached = False

    def forward(
        self, tokens: Tensor, state: StreamState | None = None, mask: Tensor | None = None
    ) -> Output:
        """Read tokens (R, T) after ``state``; ``mask`` (R, T) is false where a token is padding.

        Feeding ``out.state`` back goes on. What logits say at padding means nothing.
        """
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
        # Where in all segments the logits of every token are.
        where, offset = torch.zeros(tokens.shape, dtype=torch.long), 0
        while done != lengths:
            new = [
                min(self.windows.size - self.windows.filled(count), length - read)
                for count, length, read in zip(counts, lengths, done, strict=True)
            ]
            logits, state = self._read(tokens, state, counts, done, new)
            for row, (read, more) in enumerate(zip(done, new, strict=True)):
                where[row, read : read + more] = offset + torch.arange(more)
            read_logits.append(logits)
            offset += max(new)
            done = [read + more for read, more in zip(done, new, strict=True)]
            counts = [count + more for count, more in zip(counts, new, strict=True)]
        logits = torch.cat(read_logits, 1)
        if mask is not None:
            where = where.gather(1, (mask.cumsum(1) - 1).clamp(min=0).cpu())
        if offset != where.shape[1] or mask is not None:
            where = where.to(logits.device)[:, :, None].expand(-1, -1, logits.shape[2])
            logits = logits.gather(1, where)
        return Output(logits, state)

    def fit(self, streams: Tensor, **options: Any) -> list[float]:
        """Learn to read the past from streams (R, T); `InfiniteFitting` has the options.

        Returns the loss of every step. `lanes` cuts a text into streams.
        """
        from mnemoscope.huggingface.infinite.fitting import fit

        return fit(self, streams, InfiniteFitting.make(**options))

    def worth(self, texts: Sequence[Sequence[int]] | Tensor, silent: bool = False) -> MemoryWorth:
        """Read whole texts, token ids each, and compare their own past with none and another's."""
        from mnemoscope.huggingface.infinite.fitting import worth

        return worth(self, texts, silent)

    @contextmanager
    def past(self, state: StreamState) -> Iterator[None]:
        """Let the base read what came before: ``with memory.past(state): base.generate(...)``.

        Only the signal is read; tokens of a window that is not full yet are not in it.
        """
        self._check(state)
        layers = [state.layers[1 + index] for index in self.reading_layers]
        signals = [layer.signal for layer in layers if isinstance(layer, WindowLayerState)]
        with self._under(CallSignals([signal for signal in signals if signal is not None])):
            yield

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
            pasts.append(WindowLayerState(empty, empty, inputs, signal))
        count = torch.zeros(rows, dtype=torch.long, device=device)
        return StreamState((WindowState(tokens[:, :0]), *pasts), count, self._owner)

    def _check(self, state: StreamState) -> None:
        if not isinstance(state, StreamState) or state.owner != self._owner:
            raise UserError("the state is not from this memory: it must come from out.state")

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
    ) -> tuple[Tensor, StreamState]:
        """Read ``new`` tokens of every row after those ``done``: logits (R, most new, V).

        They fit into the window of each row; windows that are full after them are written.
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
        )
        with self._under(call):
            out = self.base(
                input_ids=segment.tokens,
                attention_mask=None if keys_held.even else keys_held.attention(),
                position_ids=segment.positions,
                past_key_values=held.cache_of(pasts, keys_held.before),
                use_cache=True,
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
        for past, pair in zip(pasts, held.pairs_of(out.past_key_values), strict=True):
            keys, values = (held.last(keys_held.settled(one, 2), keep, 2) for one in pair)
            if any(full):
                # As in Transformer-XL, no gradient flows into what was read before the window.
                keys, values = (
                    torch.where(rows[:, None, None, None], one.detach(), one)
                    for one in (keys, values)
                )
            if past.inputs is None or past.signal is None:
                after.append(WindowLayerState(keys, values))
                continue
            index = next(reads)
            given = fresh.joined(past.inputs, call.inputs[index], 1)
            signal = call.signals[index]
            if any(full):
                longterm = self.reader(index).longterm
                signal = longterm.write(signal, given, None if all(full) else rows)
            given = held.last(given, max(windows.filled(count) for count in counts), 1)
            after.append(WindowLayerState(keys, values, given, signal))
        seen = held.Held(
            [windows.tokens(c - n) for c, n in zip(counts, new, strict=True)], segment.new
        )
        again = held.last(
            seen.joined(window.tokens, segment.tokens, 1), max(map(windows.tokens, counts)), 1
        )
        count = torch.tensor(counts, device=device)
        logits = out.logits
        if call.counted is not None:
            order = (~segment.new).long().argsort(dim=1, stable=True)[:, : max(new)]
            logits = logits.gather(1, order[:, :, None].expand(-1, -1, logits.shape[2]))
        return logits, StreamState((WindowState(again), *after), count, self._owner)

    def save(self, folder: str | Path) -> Path:
        """Write the memory, not the base, to a folder; a base that learnt too is saved apart.

        When that cannot be done, the error says where the memory was written instead.
        """
        return keep(folder, self.write)

    def write(self, folder: Path) -> Path:
        """Do as `save` does, or raise."""
        xl = isinstance(self.options, TransformerXLOptions)
        about = {
            "kind": "transformer_xl" if xl else "infinite",
            "options": self.options.model_dump(mode="json"),
            **saved.facts_of(self.base),
        }
        tensors = self.readers.state_dict() or {"nothing": torch.zeros(1)}
        return saved.write_memory(folder / FILE, tensors, "endless", about)

    @classmethod
    def load(cls, folder: str | Path, model: Any) -> InfiniteMemory:
        """Attach a memory that was saved to the base that it was trained with."""
        tensors, about = read_saved(folder)
        saved.check_base(folder, about, model)
        memory = cls(model, saved.INFINITE_KINDS[about["kind"]].make(**about["options"]))
        try:
            if memory.reading_layers:
                memory.readers.load_state_dict(tensors)
        except RuntimeError as error:
            memory.detach()
            why = " ".join(str(error).splitlines()[1:2]).strip()
            raise saved.damaged(Path(folder) / FILE, why) from error
        return memory
