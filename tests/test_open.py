"""Whatever is given, one opener; the state is all that a model needs to continue, no less."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from carriers import (
    ATTACHED,
    CAUSAL,
    MEMORIES,
    VOCAB,
    causal,
    document_memory,
    infinite_memory,
    words,
)

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.memories.lstm import LSTM
from mnemoscope.memories.state import State, StreamState
from mnemoscope.open import Stream, open_model, open_reader, open_stream
from mnemoscope.studies.sizes import state_bytes

# Everything leaves a cache of 4 and is written again, but not in the last segment before the cut.
BEFORE, AFTER, SEGMENT = 19, 21, 3


def stream_of(kind: str) -> Stream:
    if kind in MEMORIES:
        name, options = MEMORIES[kind]
        return open_stream(name, vocab=VOCAB, **options)
    if kind == "documents":
        return open_stream(document_memory(), document="two")
    if kind == "attached infinite":
        return open_stream(infinite_memory())
    return open_stream(causal(kind))


KINDS = [*MEMORIES, *CAUSAL, "documents", "attached infinite"]


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


def test_states_of_memories_have_the_size_of_their_formula() -> None:
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
    assert after("attention", 40, width=8) == after("transformer", 40, width=8)  # an old name
    assert state_bytes(LSTM.make(vocab=9, width=8), 40) == after("lstm", 40, width=8)


def test_states_are_not_taken_from_strangers() -> None:
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


def test_what_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither a model of ours nor of transformers"):
        open_stream(torch.nn.Linear(2, 2))
    with pytest.raises(UserError, match="neither a run"):
        open_stream(tmp_path)
    with pytest.raises(UserError, match="its width cannot be changed"):
        open_stream(str(tmp_path), width=3)
    with pytest.raises(UserError, match="its width cannot be changed"):
        open_stream(causal("llama"), width=3)
    with pytest.raises(UserError, match="holds no memory that was attached"):
        open_stream(tmp_path, base="gpt2")
    with pytest.raises(UserError, match="has no documents"):
        open_stream("lstm", document="one")
    with pytest.raises(UserError, match="no option 'wdith'"):
        open_stream("lstm", wdith=3)
    with pytest.raises(UserError, match="reads a source first"):
        open_stream(ms.build("encoder_decoder", vocab=9, source_vocab=9))
    with pytest.raises(UserError, match="is an attached memory"):
        open_reader(document_memory())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(UserError, match="has no weights"):
        open_stream(tmp_path)


@pytest.mark.parametrize("kind", ["documents", *ATTACHED])
def test_a_saved_memory_is_a_stream_on_the_base_that_it_names_or_is_given(
    kind: str, tmp_path: Path
) -> None:
    memory = document_memory() if kind == "documents" else infinite_memory(kind)
    base = memory.model if kind == "documents" else memory.base
    options = {"document": "two"} if kind == "documents" else {}
    base.save_pretrained(tmp_path / "base")
    memory.save(tmp_path / "nameless")
    base.config._name_or_path = str(tmp_path / "base")
    memory.save(tmp_path / "named")
    tokens = words(2, 19)
    attached = ms.stream(memory, **options)
    expected = attached.read(tokens, segment=3)
    plain = ms.stream(causal("llama" if kind == "documents" else "gpt2")).read(tokens)
    assert not torch.equal(expected.logits, plain.logits)
    for folder, given in (
        ("named", {}),
        ("nameless", {"base": tmp_path / "base"}),
        ("nameless", {"base": str(tmp_path / "base")}),
        ("nameless", {"base": causal("llama" if kind == "documents" else "gpt2")}),
    ):
        stream = ms.stream(tmp_path / folder, **options, **given)
        assert stream.name == folder
        out = stream.read(tokens, segment=3)
        assert torch.equal(out.logits, expected.logits)
        # Its states are those of the memory that was saved.
        more = words(2, 5, seed=1)
        assert torch.equal(stream.read(more, expected.state).logits, attached.read(
            more, expected.state).logits)  # fmt: skip
    # Without a name the base is found beside the memory, by its fingerprint, and nowhere else.
    assert torch.equal(
        ms.stream(tmp_path / "nameless", **options).read(tokens, segment=3).logits, expected.logits
    )
    alone = shutil.copytree(tmp_path / "nameless", tmp_path / "far" / "away" / "alone")
    with pytest.raises(UserError, match="does not say which model it is for"):
        ms.stream(alone)
    with pytest.raises(UserError, match="another base model"):
        ms.stream(tmp_path / "named", base=causal("mistral"))


def test_a_base_that_learnt_too_is_found_beside_its_memory_wherever_both_are_moved(
    tmp_path: Path,
) -> None:
    memory = infinite_memory()
    memory.base.config._name_or_path = str(tmp_path / "first" / "model")
    memory.save(tmp_path / "first")
    memory.base.save_pretrained(tmp_path / "first" / "model")
    (tmp_path / "first").rename(tmp_path / "moved")
    tokens = words(1, 9)
    expected = ms.stream(memory).read(tokens).logits
    assert torch.equal(ms.stream(tmp_path / "moved").read(tokens).logits, expected)


def test_a_run_a_translator_and_a_model_open_as_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the cat sat on the mat. " * 40)
    run = ms.train(
        "characters", "gru", tmp_path / "run", source=str(tmp_path / "text"), width=8, steps=1,
        batch=2, segment=8,
    )  # fmt: skip
    by_folder, by_object = open_model(tmp_path / "run"), open_model(run)
    assert by_folder.name == by_object.name == "run"
    assert by_folder.encode is not None
    (ids,) = by_folder.encode(["the cat"])
    assert by_folder.decode(int(ids[0])) == "t"
    assert by_folder.cutting == by_object.cutting
    tokens = torch.from_numpy(ids)[None]
    loaded = ms.stream(ms.load(tmp_path / "run")).read(tokens).logits
    assert torch.equal(by_object.stream().read(tokens).logits, loaded)
    assert open_model(ms.load(tmp_path / "run")).name == "gru"
    assert open_model(by_folder) is by_folder
