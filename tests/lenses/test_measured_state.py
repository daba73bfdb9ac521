"""The state is all that a model needs to go on, and no less: its bytes are the yardstick."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from carriers import CAUSAL, MEMORIES, VOCAB, causal, words

import mnemoscope as ms
from complaints import complaint
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.stream import HuggingFaceStream
from mnemoscope.lenses.elsewhere import Case, _continue, go_on
from mnemoscope.lenses.streams import Stream, open_stream
from mnemoscope.memories.lstm import LSTM
from mnemoscope.memories.rnn import RNNState
from mnemoscope.memories.state import State, StreamState, write_tensors
from mnemoscope.studies.sizes import state_bytes

# Everything leaves a cache of 4 and is written again, but not in the last segment before the cut.
BEFORE, AFTER, SEGMENT = 19, 21, 3


def document_memory() -> Any:
    memory = ms.attach(causal("llama"), "documents", entries=6, key_dim=4)
    memory.start(memory.read({"one": [5, 6, 7], "two": [8, 9, 10]}))
    torch.manual_seed(0)
    for weight in memory.store.parameters():
        weight.data.normal_(std=2.0)
    return memory


def stream_of(kind: str) -> Stream:
    if kind in MEMORIES:
        name, options = MEMORIES[kind]
        return open_stream(name, vocab=VOCAB, **options)
    if kind == "documents":
        return open_stream(document_memory(), document="two")
    if kind.startswith("endless"):
        torch.manual_seed(1)
        endless = ms.attach(causal("gpt2"), kind.split()[1], window=4, mem_len=2, basis=6)
        for weight in endless.readers.parameters():
            weight.data.normal_(std=0.5)
        return open_stream(endless)
    return open_stream(causal(kind))


KINDS = [*MEMORIES, *CAUSAL, "documents", "endless infinite"]


@pytest.fixture(scope="module", params=KINDS)
def stream(request: pytest.FixtureRequest) -> Stream:
    return stream_of(request.param)


def without(state: StreamState, dropped: int) -> StreamState:
    """The same state with one tensor set to zero, as a fresh one has it."""
    places = iter(range(10**6))
    return state.map(lambda t: torch.zeros_like(t) if next(places) == dropped else t)


@torch.no_grad()
def test_dropping_any_tensor_breaks_bit_identity(stream: Stream) -> None:
    state = stream.read(words(2, BEFORE), segment=SEGMENT).state
    more = words(2, AFTER, seed=1)
    expected = stream.read(more, state, SEGMENT).logits
    assert torch.equal(stream.read(more, state, SEGMENT).logits, expected)
    for place, (name, tensor) in enumerate(state.tensors()):
        if tensor.numel() == 0:
            continue
        try:
            logits = stream.read(more, without(state, place), SEGMENT).logits
        except (UserError, RuntimeError):
            continue  # it does not fit any more
        assert not torch.equal(logits, expected), f"{name} is not needed"


@torch.no_grad()
def test_its_size_is_that_of_its_file_and_it_goes_on_from_there(
    stream: Stream, tmp_path: Path
) -> None:
    state = stream.read(words(2, BEFORE), segment=SEGMENT).state
    state.save(tmp_path / "state")
    raw = (tmp_path / "state").read_bytes()
    header = struct.unpack("<Q", raw[:8])[0]
    assert len(raw) - 8 - header == state.nbytes
    loaded = State.load(tmp_path / "state")
    assert isinstance(loaded, StreamState)
    more = words(2, AFTER, seed=1)
    expected = stream.read(more, state, SEGMENT).logits
    assert torch.equal(stream.read(more, loaded, SEGMENT).logits, expected)
    # Rows are independent, so two streams carry twice what one carries.
    assert state.nbytes == 2 * stream.read(words(1, BEFORE), segment=SEGMENT).state.nbytes


def test_a_fresh_process_goes_on_bit_for_bit(tmp_path: Path) -> None:
    tokens, more = words(2, BEFORE), words(2, AFTER, seed=1)
    cases = [
        Case(name, tokens, more, SEGMENT, {"vocab": VOCAB, **options})
        for name, options in MEMORIES.values()
    ]
    for family in ("mistral", "mamba", "rwkv"):
        causal(family).save_pretrained(tmp_path / family)
        cases.append(Case(str(tmp_path / family), tokens, more, SEGMENT))
    memory = document_memory()
    memory.model.config._name_or_path = str(tmp_path / "llama")
    memory.model.save_pretrained(tmp_path / "llama")
    memory.save(tmp_path / "memory")
    cases.append(Case(str(tmp_path / "memory"), tokens, more, None, {"document": "two"}))
    found = go_on(cases)
    assert all(same for _, same in found), [
        case.source for case, (_, same) in zip(cases, found, strict=True) if not same
    ]
    state = found[-1][0]
    assert dict(state.tensors())["layers.0.document"].tolist() == [2, 2]
    plain = open_stream(memory.model).read(tokens).state
    assert state.nbytes - plain.nbytes == 2 * 8


def test_declared_sizes() -> None:
    """What a formula would say, for those that have one."""

    def after(name: str, tokens: int, **options: Any) -> int:
        return open_stream(name, vocab=9, **options).bytes_after(tokens, 8)

    assert after("rnn", 40, width=8) == 8 * 4
    assert after("lstm", 40, width=8) == 2 * 8 * 4
    assert after("gru", 40, width=8, layers=3) == 3 * 8 * 4
    count = 8
    assert after("transformer", 40, width=8) == 2 * 40 * 8 * 4 + count
    assert after("transformer", 40, width=8, context=16) == 2 * 15 * 8 * 4 + count
    assert after("transformer_xl", 40, width=8, mem_len=16) == 16 * 8 * 4
    assert after("compressive", 64, width=8, mem_len=16, compressed_len=6) == 22 * 8 * 4
    assert after("infinite", 64, width=8, mem_len=16, chunk=8, basis=6) == (16 + 6) * 8 * 4 + count
    assert state_bytes(LSTM.make(vocab=9, width=8), 40) == after("lstm", 40, width=8)


@torch.no_grad()
@pytest.mark.parametrize("family", CAUSAL)
def test_a_stream_says_what_the_model_says(family: str) -> None:
    model = causal(family)
    stream = open_stream(model)
    tokens = words(2, 20)
    whole = model(tokens).logits
    torch.testing.assert_close(stream.read(tokens, segment=6).logits, whole, rtol=1e-4, atol=1e-4)


def test_mamba_loses_its_state_when_several_tokens_follow_so_they_are_read_one_by_one() -> None:
    assert HuggingFaceStream(causal("mamba")).one_by_one
    assert not HuggingFaceStream(causal("llama")).one_by_one


def test_a_model_that_hides_its_state_is_refused() -> None:
    model = causal("llama")

    class Secret(torch.nn.Module):
        def __init__(self, block: torch.nn.Module) -> None:
            super().__init__()
            self.block, self.seen = block, torch.zeros(())

        def forward(self, hidden: torch.Tensor, *args: Any, **options: Any) -> Any:
            out = self.block(hidden + self.seen, *args, **options)
            self.seen = hidden.mean()
            return out

    model.model.layers[0].mlp = Secret(model.model.layers[0].mlp)
    with pytest.raises(UserError, match="in its modules"):
        open_stream(model)


def test_states_are_not_taken_from_strangers(tmp_path: Path) -> None:
    stream, other = open_stream(causal("llama")), open_stream(causal("gpt2"))
    state = other.read(words(1, 4)).state
    with pytest.raises(UserError, match="another model"):
        stream.read(words(1, 4), state)
    with pytest.raises(UserError, match="2 rows but the tokens have 1"):
        stream.read(words(1, 4), stream.read(words(2, 4)).state)
    with pytest.raises(UserError, match="cannot start anew"):
        state.reset([0])
    with pytest.raises(UserError, match="can read 64 tokens"):
        other.read(words(1, 65))
    with pytest.raises(UserError, match="no model that goes on"):
        open_stream(torch.nn.Linear(2, 2))
    with pytest.raises(UserError, match="neither a run"):
        open_stream(tmp_path)
    with pytest.raises(UserError, match="its width cannot be changed"):
        open_stream(str(tmp_path), width=3)
    with pytest.raises(UserError, match="no option 'wdith'"):
        open_stream("lstm", wdith=3)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(UserError, match="has no weights"):
        open_stream(tmp_path)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "documents"])
def test_a_state_that_does_not_fit_a_hugging_face_model_is_refused(kind: str) -> None:
    stream = stream_of(kind)
    state = stream.read(words(2, 5)).state
    changes = {
        "longer": lambda tensor: torch.cat((tensor, tensor[..., :1]), -1),
        "an axis more": lambda tensor: tensor[..., None],
        "another kind": lambda tensor: (
            tensor.double() if tensor.is_floating_point() else tensor.float()
        ),
    }
    for wrong, (name, tensor) in enumerate(state.tensors()):
        for how, change in changes.items():
            if how == "longer" and tensor.dim() == 1:
                continue  # another number of rows, which has its own message
            places = iter(range(10**6))
            bad = state.map(lambda t, c=change, w=wrong, p=places: c(t) if next(p) == w else t)
            said = complaint(lambda bad=bad: stream.read(words(2, 3), bad))
            assert said is not None, (name, how)
    assert complaint(lambda: stream.read(words(2, 3), StreamState((), None, state.owner)))


def test_a_case_that_somebody_else_wrote_is_refused(tmp_path: Path) -> None:
    RNNState(torch.zeros(2, 3)).save(tmp_path / "state.safetensors")
    right = {"source": "rnn", "segment": None, "options": {"vocab": VOCAB}}
    for case in ("{", "[]", "{}", '{"source": 1}', json.dumps({**right, "options": 3})):
        tokens = {"tokens": words(2, 3)}
        write_tensors(tmp_path / "more.safetensors", tokens, {"case": case})
        assert "holds no case" in str(complaint(lambda: _continue(tmp_path)))
    write_tensors(tmp_path / "more.safetensors", tokens, {"case": json.dumps(right)})
    assert "holds a RNNState" in str(complaint(lambda: _continue(tmp_path)))
