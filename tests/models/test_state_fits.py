"""A state that does not fit its model is refused, whichever of its tensors is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from complaints import complaint
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES, TRANSLATORS, find
from mnemoscope.memories.state import State, StreamState
from mnemoscope.models.model import Output, SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel

SMALL: dict[str, dict[str, Any]] = {
    "compressive": {"mem_len": 4, "compressed_len": 4, "rate": 2},
    "infinite": {
        "mem_len": 4,
        "chunk": 2,
        "basis": 6,
        "sticky": True,
        "bins": 5,
        "compressed_len": 3,
    },
    "sparse": {"pattern": "local|column", "stride": 3, "summaries": 1},
}
# Ways of one memory to carry different things.
ALSO: dict[str, tuple[str, dict[str, Any]]] = {
    "attention, learned positions": ("transformer", {"positions": "learned", "context": 32}),
    "infinite, without sticky": ("infinite", {"mem_len": 4, "chunk": 2, "basis": 6}),
    "luong, feeding": ("luong", {"feeding": True}),
    "vector, lstm": ("vector", {"cell": "lstm", "layers": 2}),
}
EVERY = {
    **{name: (name, SMALL.get(name, {})) for name in (*MEMORIES, *TRANSLATORS)},
    **ALSO,
}
TOKENS = torch.arange(12).view(2, 6) % 7


def build(name: str, dtype: torch.dtype = torch.float32) -> SequenceModel:
    known, options = EVERY[name]
    kind = find("translator" if known in TRANSLATORS else "memory", known)
    heads = {"heads": 2} if "heads" in kind.model_fields else {}
    source = {"source_vocab": 7} if known in TRANSLATORS else {}
    torch.manual_seed(0)
    model: SequenceModel = kind.make(vocab=7, width=8, **heads, **source, **options).build()
    return model.to(dtype).eval()


def begin(model: SequenceModel, padded: bool = True) -> StreamState:
    """The state after a few tokens; padded, so that what is optional is there too."""
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = not padded
    with torch.no_grad():
        if isinstance(model, SourceModel):
            state = model.encode(TOKENS, mask)
            return model(TOKENS[:, :3], state, mask[:, 3:]).state
        return model(TOKENS, None, mask).state


def longer(tensor: Tensor) -> Tensor:
    more = tensor.new_zeros(*tensor.shape[:-1], 1)
    return torch.cat((tensor, more), -1)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "a longer last axis": longer,
    "an axis more": lambda tensor: tensor[..., None],
    "an axis less": lambda tensor: tensor.sum(-1, dtype=tensor.dtype),
    "a row more": lambda tensor: torch.cat((tensor, tensor[:1])),
    "no row": lambda tensor: tensor[:0],
    "another kind": lambda tensor: (
        tensor.long() if tensor.is_floating_point() else tensor.to(torch.float32)
    ),
    "a wider kind": lambda tensor: tensor.double(),
    "half a kind": lambda tensor: tensor.half(),
}


def changed(state: StreamState, wrong: str, change: Callable[[Tensor], Tensor]) -> StreamState:
    names = iter([name for name, _ in state.tensors()])
    return state.map(lambda tensor: change(tensor) if next(names) == wrong else tensor)


@pytest.mark.parametrize("name", EVERY)
def test_every_tensor_of_a_state_is_checked(name: str, tmp_path: Path) -> None:
    model = build(name)
    state = begin(model)

    def go_on(state: StreamState) -> Callable[[], Output]:
        return lambda: model(TOKENS, state)

    assert complaint(go_on(state)) is None
    for wrong, _ in state.tensors():
        for change in CHANGES:
            bad = changed(state, wrong, CHANGES[change])
            said = complaint(go_on(bad))
            assert said is not None, (wrong, change)
            assert "\n" not in said

            def from_file(bad: StreamState = bad) -> None:
                bad.save(tmp_path / "state")
                loaded = State.load(tmp_path / "state")
                assert isinstance(loaded, StreamState)
                model(TOKENS, loaded)

            assert complaint(from_file) is not None, (wrong, change)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_goes_on_from_its_own_state_in_any_precision(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = build(name, dtype)
    for padded in (True, False):
        state = begin(model, padded)
        state.save(tmp_path / "state")
        loaded = State.load(tmp_path / "state")
        assert isinstance(loaded, StreamState)
        with torch.no_grad():
            assert torch.equal(model(TOKENS, loaded).logits, model(TOKENS, state).logits)


@pytest.mark.parametrize("name", EVERY)
def test_autocast_goes_on_too(name: str) -> None:
    model = build(name)
    begun = begin(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for state in (begun, begin(model, padded=False)):
            out = model(TOKENS, model(TOKENS, state).state)
            assert out.logits.isfinite().all()


def test_what_is_said_names_the_tensor_and_what_is_expected() -> None:
    model = build("lstm")
    state = begin(model)
    wide = changed(state, "layers.0.cell", lambda tensor: tensor.double())
    with pytest.raises(UserError, match=r"layers\.0\.cell is float64, expected is float32$"):
        model(TOKENS, wide)
    long = changed(state, "layers.0.hidden", longer)
    with pytest.raises(UserError, match=r"hidden has shape \(2, 9\), expected is \(2, 8\)$"):
        model(TOKENS, long)


def test_parts_that_are_missing_or_too_many_or_of_another_memory() -> None:
    model = build("infinite")
    state = begin(model)
    layer: Any = state.layers[0]
    strange = begin(build("lstm")).layers
    for bad, said in (
        (dataclasses.replace(state, layers=()), "layers has 0 parts, not 1"),
        (dataclasses.replace(state, layers=state.layers * 2), "layers has 2 parts, not 1"),
        (dataclasses.replace(state, layers=strange), "is a LSTMState, not a LayerState"),
        (dataclasses.replace(state, count=torch.zeros(2).long()), "count is there"),
        (
            dataclasses.replace(state, layers=(dataclasses.replace(layer, signal=None),)),
            "signal is missing",
        ),
    ):
        with pytest.raises(UserError, match=said):
            model(TOKENS, bad)
    learned = build("attention, learned positions")
    state = begin(learned)
    with pytest.raises(UserError, match="count is missing"):
        learned(TOKENS, dataclasses.replace(state, count=None))
    with pytest.raises(UserError, match="has read -9 tokens"):
        learned(TOKENS, dataclasses.replace(state, count=torch.tensor([-9, 1])))


@pytest.mark.parametrize("owner", ["", "{", "[]", "null", "[" * 100_000, "9" * 10_000])
def test_an_owner_that_says_nothing(owner: str) -> None:
    model = build("gru")
    state = dataclasses.replace(begin(model), owner=owner)
    with pytest.raises(UserError, match="belongs to another model: it does not say which"):
        model(TOKENS, state)
