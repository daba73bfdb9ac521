import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from mnemoscope.memories.state import State
from mnemoscope.models.model import SequenceModel, parameters

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]
Read = Callable[..., tuple[Tensor, Any]]

NEEDED = {
    # (rows, layers, width, tokens read) -> numbers that have to be kept
    "rnn": lambda rows, layers, width, read: rows * layers * width,
    "gru": lambda rows, layers, width, read: rows * layers * width,
    "lstm": lambda rows, layers, width, read: 2 * rows * layers * width,
    "transformer": lambda rows, layers, width, read: 2 * rows * layers * width * read,
}


@pytest.mark.parametrize("kind", NEEDED)
@pytest.mark.parametrize("grad", [False, True])
def test_nbytes_is_what_has_to_be_kept(
    make_named: Make, tokens_of: Tokens, read_in: Read, kind: str, grad: bool
) -> None:
    model = make_named(kind, dtype=torch.float32, layers=3)
    with torch.set_grad_enabled(grad):
        _, state = read_in(model, tokens_of(2, 9), [4, 1, 4])
    counters = 2 * 8 if kind == "transformer" else 0
    assert state.nbytes == 4 * NEEDED[kind](2, 3, 8, 9) + counters


@settings(max_examples=10)
@given(rows=st.lists(st.integers(0, 2), min_size=1, max_size=5), padded=st.booleans())
def test_selected_rows_go_on_as_the_originals_do(
    make: Make, tokens_of: Tokens, rows: list[int], padded: bool
) -> None:
    model, more = make(), tokens_of(3, 4, seed=1)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False], [False] + [True] * 4])
    with torch.no_grad():
        state = model(tokens_of(3, 5), None, mask if padded else None).state
        logits = model(more[rows], state.select(rows)).logits
        torch.testing.assert_close(logits, model(more, state).logits[rows], rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("padded", [False, True])
def test_a_reset_row_starts_anew_and_the_others_do_not_notice(
    make: Make, tokens_of: Tokens, length: int, padded: bool
) -> None:
    model, more = make(dtype=torch.float32), tokens_of(3, length, seed=1)
    mask = tokens_of(3, 5, seed=3) > 2 if padded else None
    with torch.no_grad():
        state = model(tokens_of(3, 5), None, mask).state
        before, after = model(more, state).logits, model(more, state.reset([1])).logits
        fresh = model(more).logits
    assert torch.equal(after[0], before[0])
    assert torch.equal(after[2], before[2])
    assert not torch.allclose(after[1], before[1], atol=1e-3)
    torch.testing.assert_close(after[1], fresh[1], rtol=0, atol=1e-5)


def test_a_state_with_all_rows_reset_is_no_state(
    make: Make, tokens_of: Tokens, read_in: Read
) -> None:
    model, more = make(), tokens_of(3, 6, seed=1)
    with torch.no_grad():
        state = model(tokens_of(3, 5)).state.reset([0, 1, 2])
        logits, _ = read_in(model, more, [2, 4], state=state)
        torch.testing.assert_close(logits, model(more).logits, rtol=0, atol=1e-12)


def test_a_row_can_be_reset_again_and_again(make: Make, tokens_of: Tokens) -> None:
    model, documents = make(), [tokens_of(2, length, seed=length) for length in (3, 5, 2)]
    state = None
    for document in documents:
        out = model(document, None if state is None else state.reset([True, False]))
        state = out.state
        torch.testing.assert_close(out.logits[0], model(document).logits[0], rtol=0, atol=1e-12)
    whole = model(torch.cat(documents, 1)).logits[1, -2:]
    torch.testing.assert_close(out.logits[1], whole, rtol=0, atol=1e-10)


def test_a_saved_state_goes_on_as_the_original_does(
    make: Make, tokens_of: Tokens, tmp_path: Path
) -> None:
    model, more = make(), tokens_of(2, 4, seed=1)
    state = model(tokens_of(2, 5), None, tokens_of(2, 5, seed=3) > 2).state
    state.save(tmp_path / "state")
    loaded = State.load(tmp_path / "state")
    assert loaded.nbytes == state.nbytes
    assert torch.equal(model(more, loaded).logits, model(more, state).logits)


ELSEWHERE = """
import sys
from pathlib import Path
import torch
from safetensors.torch import load_file, save_file
from mnemoscope.memories.state import State
from mnemoscope.core.registry import find

folder = Path(sys.argv[1])
torch.set_num_threads(int(sys.argv[2]))
for kind in sys.argv[3:]:
    model = find("memory", kind).make(vocab=11, width=8, layers=2).build().eval()
    model.load_state_dict(load_file(folder / f"{kind}.weights"))
    more = load_file(folder / "more")["tokens"]
    with torch.no_grad():
        out = model(more, State.load(folder / f"{kind}.state"))
    save_file({"logits": out.logits}, folder / f"{kind}.logits")
"""


def test_a_saved_state_goes_on_in_a_fresh_process(
    make_named: Make, tokens_of: Tokens, tmp_path: Path
) -> None:
    kinds, expected, more = ["rnn", "lstm", "gru", "transformer"], {}, tokens_of(3, 6, seed=1)
    save_file({"tokens": more}, tmp_path / "more")
    for kind in kinds:
        model = make_named(
            kind, dtype=torch.float32, **({"heads": 4} if kind == "transformer" else {})
        )
        save_file(model.state_dict(), tmp_path / f"{kind}.weights")
        with torch.no_grad():
            state = model(tokens_of(3, 2), model(tokens_of(3, 5)).state).state
            state.save(tmp_path / f"{kind}.state")
            expected[kind] = model(more, state).logits
    arguments = [str(tmp_path), str(torch.get_num_threads()), *kinds]
    subprocess.run([sys.executable, "-c", ELSEWHERE, *arguments], check=True, timeout=120)
    for kind in kinds:
        assert torch.equal(load_file(tmp_path / f"{kind}.logits")["logits"], expected[kind]), kind


def test_no_memory_hides_in_the_module(make: Make, tokens_of: Tokens) -> None:
    model = make()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = model(tokens_of(2, 5)).logits
    model(tokens_of(2, 7, seed=1), model(tokens_of(2, 3)).state)
    assert torch.equal(model(tokens_of(2, 5)).logits, first)
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert not list(model.buffers())


def test_parameters_counts_what_training_can_change(make_named: Make) -> None:
    model = make_named("gru", layers=2)
    recurrent = 2 * (2 * 3 * 8 * 8 + 2 * 3 * 8)
    assert parameters(model) == 11 * 8 + recurrent + 8 * 11 + 11
    model.embedding.requires_grad_(False)
    assert parameters(model) == recurrent + 8 * 11 + 11
