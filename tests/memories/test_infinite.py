"""Cache, compressed vectors and signal behind each other, once something has left the cache."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.memories.state import State
from mnemoscope.models.model import SequenceModel, StreamState

SMALL: dict[str, Any] = {"vocab": 11, "width": 8, "layers": 2, "heads": 2, "mem_len": 3}
SIGNAL: dict[str, Any] = {"basis": 5, "chunk": 4}
KINDS: dict[str, dict[str, Any]] = {
    "compressive": {"compressed_len": 4, "rate": 2},
    "compressive most-used": {"compressed_len": 4, "rate": 3, "compression": "most-used"},
    "infinite": SIGNAL,
    "infinite fixed": {**SIGNAL, "contraction": 0.75, "widths": (0.03, 0.06)},
    "infinite sticky": {**SIGNAL, "sticky": True, "bins": 9},
    "infinite sparse": {**SIGNAL, "sticky": True, "density": "sparse"},
    "infinite gibbs": {**SIGNAL, "sticky": True, "density": "gibbs"},
    "infinite gate": {**SIGNAL, "gate": True, "mem_len": 0},
    "infinite compressed": {**SIGNAL, "compressed_len": 2, "rate": 2, "compression": "max"},
}
Make = Callable[..., SequenceModel]
# Signals this small are wasteful, and that is what makes slips show.
pytestmark = pytest.mark.filterwarnings("ignore:of the . basis functions")


def build(kind: str, dtype: torch.dtype = torch.float64, **options: Any) -> SequenceModel:
    torch.manual_seed(5)
    model = ms.build(kind.split()[0], **{**SMALL, **KINDS[kind], **options}).to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    return model.eval()


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Make:
    return lambda **options: build(request.param, **options)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))


def read(
    model: SequenceModel, pieces: list[Tensor], state: StreamState | None = None
) -> tuple[list[Tensor], StreamState]:
    logits = []
    for piece in pieces:
        out = model(piece, state)
        logits.append(out.logits)
        state = out.state
    assert state is not None
    return logits, state


@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=3, max_size=6),
    seed=st.integers(0, 99),
    left=st.booleans(),
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_row_behind_a_cache_is_read_as_if_alone(
    kind: str, lengths: list[int], seed: int, left: bool
) -> None:
    model, rows = build(kind), 3
    state, alone = None, [None] * rows
    for number, length in enumerate(lengths):
        tokens = draw(rows, length, seed=seed + number)
        real = torch.randint(
            length + 1, (rows,), generator=torch.Generator().manual_seed(seed - number)
        )
        mask = torch.arange(length) < real[:, None]
        mask = mask.flip(1) if left else mask
        out = model(tokens, state, mask)
        state = out.state
        for row in range(rows):
            if not mask[row].any():
                continue
            single = model(tokens[row : row + 1, mask[row]], alone[row])
            alone[row] = single.state
            torch.testing.assert_close(
                out.logits[row, mask[row]], single.logits[0], rtol=0, atol=1e-9
            )


def test_a_stream_goes_on_after_save_and_load(make: Make, tmp_path: Path) -> None:
    model, pieces = make(), list(draw(2, 40).split(5, 1))
    with torch.no_grad():
        whole, _ = read(model, pieces)
        _, state = read(model, pieces[:4])
        state.save(tmp_path / "state.safetensors")
        loaded = State.load(tmp_path / "state.safetensors")
        assert isinstance(loaded, StreamState)
        rest, _ = read(model, pieces[4:], loaded)
    for one, other in zip(whole[4:], rest, strict=True):
        assert torch.equal(one, other)


def test_a_row_that_starts_anew_knows_nothing_and_the_others_all(make: Make) -> None:
    model, before, after = (
        make(),
        list(draw(3, 30).split(5, 1)),
        list(draw(3, 20, seed=1).split(5, 1)),
    )
    _, state = read(model, before)
    mixed, _ = read(model, after, state.reset([1]))
    kept, _ = read(model, after, state)
    anew, _ = read(model, after)
    for m, k, a in zip(mixed, kept, anew, strict=True):
        torch.testing.assert_close(m[1], a[1], rtol=0, atol=1e-10)
        torch.testing.assert_close(m[[0, 2]], k[[0, 2]], rtol=0, atol=1e-10)
    assert not torch.allclose(kept[0][1], anew[0][1])


def test_rows_can_be_picked_and_doubled(make: Make) -> None:
    model, tokens = make(), draw(3, 30)
    _, state = read(model, list(tokens.split(5, 1)))
    more = draw(3, 6, seed=2)
    whole = model(more, state).logits
    picked = model(more[[2, 0, 2]], state.select([2, 0, 2])).logits
    torch.testing.assert_close(picked, whole[[2, 0, 2]], rtol=0, atol=1e-10)


def test_the_state_stops_growing(make: Make) -> None:
    model = make()
    _, state = read(model, list(draw(1, 60).split(5, 1)))
    size = state.nbytes
    _, state = read(model, list(draw(1, 200).split(5, 1)), state)
    assert abs(state.nbytes - size) <= 2 * 4 * 8 * 8  # a chunk more or less in each layer's cache


def test_memories_behind_a_cache_read_one_token_at_a_time(make: Make) -> None:
    model = make()
    logits, state = read(model, list(draw(2, 30).split(1, 1)))
    assert torch.cat(logits).isfinite().all()
    said = ms.generate(model, draw(2, 3), 30, state=state, temperature=0)
    assert said.tokens.shape == (2, 30)


def test_views_made_once_in_a_stream_change_nothing(make: Make) -> None:
    """Without gradients what is read off a signal is kept with it; with gradients it is not."""
    model, pieces = make(), list(draw(2, 40).split(3, 1))
    slow, _ = read(model, pieces)
    with torch.no_grad():
        fast, state = read(model, pieces)
        for one, other in zip(slow, fast, strict=True):
            torch.testing.assert_close(one.detach(), other, rtol=0, atol=1e-12)
        before = model(pieces[0], state).logits
        for weight in model.parameters():
            weight.mul_(1.1)
        after = model(pieces[0], state).logits
        clean = model(pieces[0], state.map(torch.clone)).logits
    assert not torch.equal(before, after)
    assert torch.equal(after, clean)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_memories_behind_a_cache_in_lower_precision_stay_near(
    make: Make, dtype: torch.dtype
) -> None:
    exact, low = make(), make(dtype=dtype)
    exact.load_state_dict({name: value.double() for name, value in low.state_dict().items()})
    pieces = list(draw(2, 40).split(5, 1))
    with torch.no_grad():
        one, _ = read(exact, pieces)
        other, state = read(low, pieces)
    # Roundings that differ may let attention prefer another token: most of it must agree.
    near = (torch.cat(one, 1) - torch.cat(other, 1).double()).abs()
    assert near.isfinite().all()
    assert near.median() < (1e-4 if dtype == torch.float32 else 0.2)
    kinds = {value.dtype for _, value in state.tensors()}
    assert kinds <= {dtype, torch.float32, torch.int64, torch.bool}


def test_autocast_keeps_the_signal_in_the_precision_of_the_weights() -> None:
    model = build("infinite sticky", dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        logits, state = read(model, list(draw(2, 40).split(5, 1)))
        torch.cat(logits, 1).float().logsumexp(-1).sum().backward()
    first: Any = state.layers[0]
    assert first.signal.coefficients.dtype == torch.float32
    assert all(w.grad is not None and w.grad.isfinite().all() for w in model.parameters())


@pytest.mark.parametrize("basis", [2, 3, 7, 16])
@pytest.mark.parametrize("widths", [None, (0.05, 0.1)])
@pytest.mark.filterwarnings("ignore:of the .. basis functions")
def test_any_number_of_basis_functions(basis: int, widths: tuple[float, ...] | None) -> None:
    model = build("infinite", basis=basis, widths=widths)
    logits, _ = read(model, list(draw(2, 40).split(7, 1)))
    assert torch.cat(logits, 1).isfinite().all()


@pytest.mark.parametrize(
    "kind", ["infinite gate", "infinite sticky", "infinite sparse", "infinite gibbs"]
)
def test_the_gradient_reaches_what_was_written_until_it_is_cut(kind: str) -> None:
    model = build(kind, layers=1, mem_len=0)
    first, second = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[5, 6, 7]])
    state = model(first).state
    assert state.layers[0].cache.length == 0

    def reached(state: StreamState) -> Tensor:
        model.zero_grad()
        model(second, state).logits.square().sum().backward()
        gradient = model.embedding.weight.grad
        assert gradient is not None
        return gradient.abs().sum(1) > 0

    assert reached(state)[1:5].all()
    assert not reached(model(first).state.detach())[1:5].any()


def test_an_empty_signal_is_transformer_xl() -> None:
    xl = ms.build("transformer_xl", **{**SMALL, "mem_len": 64}).double().eval()
    infinite = ms.build("infinite", **{**SMALL, **SIGNAL, "mem_len": 64}).double().eval()
    infinite.load_state_dict(xl.state_dict(), strict=False)
    pieces = list(draw(2, 40).split(5, 1))
    for one, other in zip(read(xl, pieces)[0], read(infinite, pieces)[0], strict=True):
        assert torch.equal(one, other)


def test_what_left_the_cache_still_matters_through_the_signal() -> None:
    model = build("infinite", mem_len=0, layers=1)
    tokens = draw(1, 80)

    def last(tokens: Tensor) -> Tensor:
        return read(model, list(tokens.split(4, 1)))[0][-1]

    other = tokens.clone()
    other[0, :4] = (other[0, :4] + 1) % 11
    assert not torch.equal(last(tokens), last(other))


def test_the_divergence_is_asked_for_in_training_only() -> None:
    model = build("infinite", kl=0.5).train()
    _, state = read(model, [draw(2, 9)])
    out = model(draw(2, 5), state.detach())
    assert set(out.losses) == {"kl"}
    assert float(out.losses["kl"].detach()) > 0
    out.losses["kl"].backward()
    model.eval()
    assert not model(draw(2, 5)).losses


@pytest.mark.parametrize("kind", ["infinite", "infinite sparse"])
def test_the_divergence_counts_neither_padding_nor_reads_of_nothing(kind: str) -> None:
    model = build(kind, kl=0.5, layers=1).train()
    _, state = read(model, [draw(1, 9)])
    tokens = draw(1, 5, seed=1)
    alone = model(tokens, state).losses["kl"]
    padded = torch.cat((tokens, draw(1, 3, seed=2)), 1)
    mask = torch.arange(8)[None] < 5
    torch.testing.assert_close(model(padded, state, mask).losses["kl"], alone)
    # A second row whose signal is empty.
    both = state.select([0, 0]).reset([1])
    torch.testing.assert_close(model(tokens.expand(2, -1), both).losses["kl"], alone)
    nothing = model(tokens).losses["kl"]
    assert nothing == 0
    nothing.backward()


def test_the_signal_joins_the_residual_stream_as_small_as_other_branches() -> None:
    """1 / √(2 · layers) of what a linear layer begins with, a uniform draw below 1 / √width."""
    model = ms.build("infinite", **{**SMALL, **SIGNAL, "width": 64, "layers": 8})
    for layer in model.layers:
        weight: Tensor = layer.attention.signal.out.weight  # type: ignore[assignment]
        assert 0.95 < float(weight.detach().abs().max()) * 8 * 4 <= 1


def test_a_model_tells_its_horizon_when_printed() -> None:
    text = repr(ms.build("infinite", **{**SMALL, "chunk": 16, "basis": 32, "contraction": 0.5}))
    assert "directions of 16 tokens kept after 0, 1, 2" in text
    assert "none is left after" in text


def test_wasted_basis_functions_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="can be told apart"):
        ms.build("infinite", **{**SMALL, "chunk": 512, "basis": 512, "widths": (0.005, 0.01)})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"contraction": 1.5}, "contraction"),
        ({"contraction": "equall"}, "contraction"),
        ({"density": "gibbs", "widths": (0.1,)}, "gibbs density has no use for widths"),
        ({"bins": 9}, "set sticky as well"),
        ({"widths": (0.1, -1)}, "widths must be positive"),
        ({"basis": 1}, "basis"),
    ],
)
def test_options_of_a_signal_that_make_no_sense_are_refused(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        ms.build("infinite", **{**SMALL, **options})
