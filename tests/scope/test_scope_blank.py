"""A state with something taken away: what is left is what the model would have without it, and
the state that it was taken from is as it was.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from reading_models import KINDS, LONG, build, read, tokens_of
from torch import Tensor

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.native_stream import NativePageStream
from mnemoscope.activations.streams.views.attention import KEYS
from mnemoscope.activations.streams.views.recurrent import STATE
from mnemoscope.activations.streams.views.relative import RECENT
from mnemoscope.activations.streams.views.signal import SIGNAL
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find
from mnemoscope.memories.state import StreamState
from mnemoscope.models.model import SequenceModel

CUT = 32
# Those whose positions are relative, or none: a fresh stream then differs in nothing else.
RELATIVE = [kind for kind in KINDS if kind != "sparse"]


def prepared(kind: str) -> tuple[NativePageStream, StreamState]:
    """A stream that has read all but the last tokens, and its state."""
    stream, steps = read(kind, [16, CUT - 16])
    return stream, steps[-1].state


def after(stream: NativePageStream, state: Any, blank: Blank | None) -> Tensor:
    tokens = tokens_of()
    return stream.read(tokens[CUT:], state, tokens[:CUT], blank)[0]


@pytest.mark.parametrize("kind", RELATIVE)
def test_without_its_whole_state_a_model_reads_as_if_for_the_first_time(kind: str) -> None:
    stream, state = prepared(kind)
    with torch.no_grad():
        fresh = build(kind)(tokens_of()[None, CUT:]).logits[0]
    blanked = after(stream, state, Blank())
    torch.testing.assert_close(blanked, fresh)
    assert not torch.allclose(after(stream, state, None), fresh)


@pytest.mark.parametrize("kind", KINDS)
def test_taking_away_changes_neither_the_state_nor_what_it_says(kind: str) -> None:
    stream, state = prepared(kind)
    kept = [tensor.clone() for _, tensor in state.tensors()]
    whole = after(stream, state, None)
    store = {"rnn": STATE, "lstm": STATE, "gru": STATE}.get(kind)
    entry = Blank(0, store, None, 3) if store else Blank(0, None, (CUT - 3, CUT - 3))
    for blank in (Blank(), Blank(layer=0), Blank(tokens=(CUT - 6, CUT - 2)), entry):
        assert not torch.equal(after(stream, state, blank), whole), blank
    for (name, tensor), before in zip(state.tensors(), kept, strict=True):
        assert torch.equal(tensor, before), name
    assert torch.equal(after(stream, state, None), whole)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "infinite" not in kind])
def test_all_ages_are_the_whole_state(kind: str) -> None:
    stream, state = prepared(kind)
    every = after(stream, state, Blank(tokens=(0, CUT - 1)))
    torch.testing.assert_close(every, after(stream, state, Blank()))
    none = after(stream, state, Blank(tokens=(CUT, CUT + 9)))
    if kind not in ("rnn", "lstm", "gru"):
        torch.testing.assert_close(none, after(stream, state, None))


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_a_recurrent_model_without_some_ages_never_read_those_tokens(kind: str) -> None:
    stream, state = prepared(kind)
    tokens = tokens_of()
    rest = torch.cat((tokens[:10], tokens[20:]))
    with torch.no_grad():
        wanted = build(kind)(rest[None]).logits[0, CUT - 10 :]
    torch.testing.assert_close(after(stream, state, Blank(tokens=(10, 19))), wanted)


def test_a_hidden_key_is_one_that_was_padding() -> None:
    torch.manual_seed(4)
    config = find("memory", "transformer").make(
        vocab=9, width=8, heads=2, layers=2, positions="none", context=64
    )
    model: SequenceModel = config.build().double().eval()
    tokens = tokens_of()
    mask = torch.ones(1, LONG, dtype=torch.bool)
    # Hidden from the last tokens only: those before had read it.
    mask[0, CUT - 1] = False
    with torch.no_grad():
        state = model(tokens[None, :CUT]).state
        wanted = model(tokens[None], mask=mask).logits[0, CUT:]
    stream = NativePageStream(model)
    blanked = after(stream, state, Blank(tokens=(CUT - 1, CUT - 1)))
    torch.testing.assert_close(blanked, wanted)
    # In one layer of two it is another thing.
    one = after(stream, state, Blank(0, KEYS, (CUT - 1, CUT - 1)))
    assert not torch.allclose(one, wanted)
    assert not torch.allclose(one, after(stream, state, None))


@pytest.mark.parametrize("kind", ["infinite", "infinite gibbs"])
def test_a_signal_loses_what_stands_at_some_ages_and_keeps_the_rest(kind: str) -> None:
    stream, state = prepared(kind)
    view: Any = stream.views[0]
    layer: Any = state.layers[0]
    signal = layer.signal
    basis = view.signal.signal.plan.basis
    times = torch.linspace(0.02, 0.98, 97, dtype=torch.float64)
    shape = basis.evaluate(times) @ signal.coefficients[0]
    written = int(signal.count[0]) * view.signal.signal.chunk
    gone = view.signal.blanked(signal, Blank(tokens=(0, 2 * written)), CUT)
    assert float(gone.coefficients.abs().max()) < 1e-6
    half = view.signal.blanked(signal, Blank(tokens=(0, written // 2 - 1)), CUT)
    left = basis.evaluate(times) @ half.coefficients[0]
    border = view.signal._borders(int(signal.count[0]))[written // 2]
    old, new = times < border - 0.2, times > border + 0.2
    assert old.any()
    assert new.any()
    assert left[old].norm() < 0.2 * shape[old].norm()
    assert (left - shape)[new].norm() < 0.2 * shape[new].norm()
    # What is not in the signal cannot be taken out of it.
    assert view.signal.blanked(signal, Blank(tokens=(written, CUT)), CUT) is signal
    one = view.signal.blanked(signal, Blank(0, SIGNAL, None, 2), CUT)
    assert not one.coefficients[0, 2].any()
    assert torch.equal(one.coefficients[0, 3:], signal.coefficients[0, 3:])


def test_an_entry_that_is_not_there_is_refused() -> None:
    stream, state = prepared("gru")
    with pytest.raises(UserError, match="no entry 9 among 8"):
        after(stream, state, Blank(0, STATE, None, 8))
    stream, state = prepared("infinite")
    with pytest.raises(UserError, match="no entry 9 among 8"):
        after(stream, state, Blank(0, SIGNAL, None, 8))


def test_one_memory_of_a_layer_goes_and_the_other_stays() -> None:
    stream, state = prepared("infinite")
    layer: Any = state.layers[0]
    recent = stream.views[0].blanked(layer, Blank(0, RECENT), CUT)
    assert recent.signal is layer.signal
    assert not recent.cache.visible.any()
    signal = stream.views[0].blanked(layer, Blank(0, SIGNAL), CUT)
    assert signal.cache is layer.cache
    assert not signal.signal.coefficients.any()
    assert torch.equal(signal.signal.count, layer.signal.count)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("rnn", "lstm", "gru")])
def test_heads_add_up_to_what_is_shown_of_them(kind: str) -> None:
    stream, steps = read(kind, [16, CUT - 16, LONG - CUT])
    state, tokens = steps[1].state, tokens_of()[CUT:]
    for part in steps[2].parts:
        assert part.heads
        heads = [stream.head(tokens, state, CUT, part.name, one) for one in range(part.heads)]
        mean = sum(heads) / part.heads
        assert abs(mean - part.shares).max() < 1e-9
        assert abs(stream.head(tokens, state, CUT, part.name, None) - part.shares).max() < 1e-9
        with pytest.raises(UserError, match="no head"):
            stream.head(tokens, state, CUT, part.name, part.heads)
    with pytest.raises(UserError, match="has no heads here"):
        stream.head(tokens, state, CUT, "layer 99", 0)
