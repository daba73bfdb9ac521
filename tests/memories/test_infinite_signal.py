"""The signal of the ∞-former: a linear recurrence that equals resampling and fitting anew."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_signal import published_read, refit
from torch import Tensor

from mnemoscope.memories.infinite.basis import Basis, Gaussians, Rectangles
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.infinite.densities import masses
from mnemoscope.memories.infinite.long_term import LongTerm, write
from mnemoscope.memories.infinite.signal import (
    OPERATOR_BYTES,
    ContinuousState,
    Fit,
    Plan,
    ends,
    fresh,
    levels,
    middles,
    operators,
    passed,
    positions,
    quantiles,
)
from mnemoscope.memories.layer import Context

WIDTH = 3
bases = st.one_of(
    st.builds(Gaussians.spread, st.integers(2, 13), st.floats(0.7, 2)),
    st.builds(Gaussians, st.integers(2, 13), st.just((0.05, 0.1))),
    st.builds(Rectangles, st.integers(2, 13)),
)
plans = st.builds(
    Plan,
    bases,
    st.floats(0.1, 2),
    st.integers(1, 20),
    st.one_of(st.just("equal"), st.floats(0.1, 0.9)),
    st.sampled_from(["length", "count"]),
)


NO_CONTEXT = Context(mask=None, rotation=None)


def long_term(**options: Any) -> LongTerm:
    torch.manual_seed(0)
    config = Infinite.make(vocab=2, **{"width": 8, "heads": 2, "basis": 6, **options})
    return LongTerm(config).double()


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def plan(basis: Basis | None = None, contraction: float | str = 0.5, fit: Fit = "length") -> Plan:
    return Plan(basis or Gaussians.spread(8, 1.0), 0.5, 12, contraction, fit)  # type: ignore[arg-type]


@settings(max_examples=40)
@given(plan=plans, lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_the_recurrence_is_resample_and_refit(plan: Plan, lengths: list[int]) -> None:
    state, slow = fresh(1, plan.basis.count, 0, draw(1, WIDTH)), None
    for number, length in enumerate(lengths):
        tokens = draw(1, length, WIDTH, seed=number)
        state = write(plan, state, tokens)
        slow = refit(plan, slow, tokens[0], number, torch.ones(1).double())
        torch.testing.assert_close(state.coefficients[0], slow, rtol=0, atol=1e-9)
        assert state.count.tolist() == [number + 1]


@settings(max_examples=30)
@given(plan=plans, seed=st.integers(0, 9), bins=st.integers(1, 6))
def test_a_sticky_write_samples_where_attention_went(plan: Plan, seed: int, bins: int) -> None:
    state = write(plan, fresh(2, plan.basis.count, bins, draw(1, WIDTH)), draw(2, 5, WIDTH))
    attention = draw(2, bins, seed=seed).abs()
    tokens = draw(2, 4, WIDTH, seed=seed + 1)
    after = write(plan, state.attended(attention), tokens)
    for row in range(2):
        slow = refit(plan, state.coefficients[row], tokens[row], 1, attention[row])
        torch.testing.assert_close(after.coefficients[row], slow, rtol=0, atol=1e-9)
    assert not after.masses.any()


@given(bins=st.integers(1, 9), samples=st.integers(1, 30))
def test_even_attention_gives_even_samples(bins: int, samples: int) -> None:
    for amount in (0.0, 3.0):
        times = quantiles(torch.full((1, bins), amount, dtype=torch.float64), ends(samples))
        torch.testing.assert_close(times[0], ends(samples), rtol=0, atol=1e-12)


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any))
def test_a_part_with_a_share_of_the_mass_gets_that_share_of_the_samples(
    weights: list[int],
) -> None:
    mass = torch.tensor([weights], dtype=torch.float64)
    samples = 1000
    times = quantiles(mass, middles(samples))[0]
    torch.testing.assert_close(passed(mass, times)[0], middles(samples), rtol=0, atol=1e-12)
    assert (times.diff() >= 0).all()
    assert 0 <= times[0] <= times[-1] <= 1
    counts = torch.histc(times - 1e-9, len(weights), 0, 1)
    expected = samples * mass[0] / mass.sum()
    assert ((counts - expected).abs() <= 1.5).all()


@given(length=st.integers(1, 40), samples=st.integers(1, 40), share=st.floats(0.05, 0.95))
def test_positions_order_old_before_new_inside_zeros(
    length: int, samples: int, share: float
) -> None:
    how = Plan(Gaussians.spread(8, 1.0), 0.5, samples, 0.5, "count")
    old, new, outside = positions(how, length, share)
    assert len(old) == samples
    assert (old > 0).all()
    assert (old <= share + 1e-12).all()
    assert (new > share).all()
    assert new[-1] == pytest.approx(1)
    assert ((outside < 0) | (outside > 1)).all()
    # The zeros are symmetric around the middle.
    torch.testing.assert_close(outside.flip(0), 1 - outside, rtol=0, atol=1e-12)


def test_by_length_every_point_stands_in_the_middle_of_its_axis() -> None:
    how = Plan(Gaussians.spread(8, 1.0), 0.5, 3, 0.5, "length")
    old, new, outside = positions(how, 2, 0.6)
    torch.testing.assert_close(old, torch.tensor([0.1, 0.3, 0.5]).double())
    torch.testing.assert_close(new, torch.tensor([0.7, 0.9]).double())
    assert not len(outside)


def test_first_tokens_stand_in_the_middle_of_their_parts() -> None:
    _, tokens, zeros = positions(plan(fit="count"), 4, 0.0)
    assert tokens.tolist() == [0.125, 0.375, 0.625, 0.875]
    assert zeros.tolist() == [-0.375, -0.125, 1.125, 1.375]


@pytest.mark.parametrize("contraction", [0.5, "equal"])
@pytest.mark.parametrize("bins", [0, 5])
def test_rows_that_begin_at_different_times_do_not_meet(
    contraction: float | str, bins: int
) -> None:
    how = plan(contraction=contraction)

    def attended(state: ContinuousState, seed: int) -> ContinuousState:
        return state.attended(draw(len(state.count), bins, seed=seed).abs()) if bins else state

    both = fresh(3, 8, bins, draw(1, WIDTH))
    alone = fresh(1, 8, bins, draw(1, WIDTH))
    for step in range(5):
        tokens = draw(3, 6, WIDTH, seed=step)
        if step == 2:
            both = both.reset([1])
            alone = alone.reset([0])
        both = attended(both, step)
        single = draw(3, bins, seed=step).abs()[1:2]
        alone = alone.attended(single) if bins else alone
        both, alone = write(how, both, tokens), write(how, alone, tokens[1:2])
        torch.testing.assert_close(
            both.select([1]).coefficients, alone.coefficients, rtol=0, atol=1e-12
        )
    assert both.count.tolist() == [5, 3, 5]


def test_only_the_rows_named_are_written() -> None:
    how, tokens = plan(), draw(2, 6, WIDTH, seed=1)
    before = write(how, fresh(2, 8, 4, draw(1, WIDTH)), draw(2, 6, WIDTH)).attended(
        torch.ones(2, 4)
    )
    after = write(how, before, tokens, torch.tensor([True, False]))
    assert torch.equal(after.coefficients[1], before.coefficients[1])
    assert torch.equal(after.masses[1], before.masses[1])
    assert after.count.tolist() == [2, 1]
    assert torch.equal(after.coefficients[0], write(how, before, tokens).coefficients[0])


@pytest.mark.parametrize("bins", [0, 4])
def test_writing_passes_gradcheck(bins: int) -> None:
    how = plan(contraction="equal")
    counts = torch.tensor([2, 0])
    attention = draw(2, bins).abs()

    def written(old: Tensor, tokens: Tensor) -> Tensor:
        return write(how, ContinuousState(old, attention, counts), tokens).coefficients

    inputs = draw(2, 8, WIDTH).requires_grad_(), draw(2, 3, WIDTH, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(written, inputs)


@pytest.mark.parametrize("density", ["gaussian", "sparse"])
def test_reading_passes_gradcheck(density: str) -> None:
    layer = long_term(density=density, floor=1e-3)

    def output(queries: Tensor, signal: Tensor, *weights: Tensor) -> Tensor:
        given = dict(zip(dict(layer.named_parameters()), weights, strict=True))
        state = ContinuousState(signal, draw(1, 0), torch.ones(1, dtype=torch.long))
        read: Tensor = torch.func.functional_call(layer, given, (queries, state, NO_CONTEXT))[0]
        return read

    inputs = draw(1, 2, 3, 4), draw(1, 6, 8, seed=1), *layer.parameters()
    assert torch.autograd.gradcheck(output, [i.detach().requires_grad_() for i in inputs])


def test_with_the_variance_clamped_the_read_is_the_published_one() -> None:
    layer = long_term(basis=16, width=8, heads=2, variance="clamp", domain="line", floor=0.6)
    signal, queries = draw(1, 16, 8) / 16, draw(1, 2, 40, 4, seed=1)
    state = ContinuousState(signal, draw(1, 0), torch.ones(1, dtype=torch.long))
    kept = []
    layer.maps.register_forward_hook(lambda _, __, out: kept.append(out[..., 1]))
    with torch.no_grad():
        slow = published_read(layer, signal[0], queries[0])
        fast = layer(queries, state, NO_CONTEXT)[0][0]
    torch.testing.assert_close(fast, slow, rtol=0, atol=2e-9)
    at_floor = (kept[0] == 0.6).double().mean()
    assert 0.1 < at_floor < 0.9  # the clamp was put to work, and not on all


def test_samples_are_where_draws_of_attended_bins_lie_on_average() -> None:
    """The release draws bins and takes their left edges: half a bin before what they stand for."""
    bins, samples = 16, 8
    mass = draw(1, bins).abs()
    how = Plan(Gaussians.spread(8, 1.0), 0.01, samples, 0.5)
    drawn = torch.multinomial(
        mass.expand(20_000, -1), samples, replacement=True, generator=torch.manual_seed(0)
    )
    middles_drawn = (drawn.double() + 0.5) / bins
    ours = quantiles(mass, levels(how))[0]
    assert float(ours.mean()) == pytest.approx(float(middles_drawn.mean()), abs=0.005)
    in_order = middles_drawn.sort(1).values.mean(0)
    assert (ours - in_order).abs().max() < 1 / bins


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_what_attention_went_to_keeps_its_share_in_however_many_chunks_a_segment_is_written(
    chunks: int,
) -> None:
    """The first of four writes says one and gets 0.7 of the attention, then nobody reads."""
    how, bins = Plan(Gaussians.spread(128, 1.0), 0.01, 512, "equal"), 64
    state = fresh(1, 128, bins, draw(1, 1))
    for write_ in range(4):
        state = write(how, state, torch.full((1, 32, 1), float(write_ == 0)).double())
    masses = torch.full((1, bins), 0.3 / 48).double()
    masses[:, :16] = 0.7 / 16
    state = state.attended(masses)
    for _ in range(chunks):
        state = write(how, state, torch.zeros(1, 32, 1).double())
    signal = how.basis.evaluate(middles(2000)) @ state.coefficients[0, :, 0]
    old = 4 / (4 + chunks)
    assert float((signal > 0.5).double().mean()) == pytest.approx(0.7 * old, abs=0.01)


@pytest.mark.parametrize("density", ["gaussian", "gibbs"])
def test_what_was_made_of_a_signal_with_other_weights_is_made_anew(density: str) -> None:
    """A weight that is gone leaves its place in memory to the next one."""
    signal, queries = draw(1, 6, 8), draw(1, 2, 3, 4, seed=1)
    state = ContinuousState(signal, draw(1, 0), torch.ones(1, dtype=torch.long))
    layer = long_term(density=density)

    def check() -> None:
        clean = layer(queries, state.map(torch.clone), NO_CONTEXT)[0]
        assert torch.equal(layer(queries, state, NO_CONTEXT)[0], clean)

    with torch.no_grad():
        for number in range(20):
            weight = draw(8, 8, seed=number)
            layer(queries, state, NO_CONTEXT)
            del layer.key.weight
            layer.key.weight = torch.nn.Parameter(weight)
            check()
        # A change that the counter of versions does not see.
        layer.value.weight.data = draw(8, 8)
        check()


def test_the_gibbs_read_is_the_integral_over_a_signal_of_steps() -> None:
    layer = long_term(width=4, heads=1, basis=5, density="gibbs")
    signal, queries = draw(1, 5, 4), draw(1, 1, 3, 4, seed=1)
    keys, values = signal[0] @ layer.key.weight.T, signal[0] @ layer.value.weight.T
    points = 5000
    times = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    steps = Rectangles(5).evaluate(times)
    scores = queries[0, 0] @ (steps @ keys).T / 2
    density = scores.exp() / (scores.exp().mean(1, keepdim=True))
    slow = density @ (steps @ values) / points
    state = ContinuousState(signal, draw(1, 0), torch.ones(1, dtype=torch.long))
    fast = layer(queries, state, NO_CONTEXT)[0][0]
    torch.testing.assert_close(fast, layer.out(slow), rtol=0, atol=1e-12)
    weights = (queries[0, 0] @ keys.T / 2).softmax(-1)
    torch.testing.assert_close(fast, layer.out(weights @ values), rtol=0, atol=1e-12)


@pytest.mark.parametrize("density", ["gaussian", "sparse"])
def test_masses_of_padding_do_not_count_and_all_add_up(density: str) -> None:
    mean, variance = draw(2, 2, 3).sigmoid(), draw(2, 2, 3, seed=1).exp()
    whole = masses(density, mean, variance, 64, None)  # type: ignore[arg-type]
    mask = torch.tensor([[True, False, True], [True, True, True]])
    part = masses(density, mean, variance, 64, mask)  # type: ignore[arg-type]
    assert (part[0] < whole[0]).all() or part[0].sum() < whole[0].sum()
    assert torch.equal(part[1], whole[1])
    assert (whole.sum(1) <= 6 + 1e-9).all()


def test_operators_of_a_long_stream_are_made_once_and_few_of_large_ones_held() -> None:
    how, cpu = plan(contraction="equal"), torch.device("cpu")
    after = operators(how, 4, False, torch.float32, cpu)
    writes = [after(count) for count in range(1500)]
    assert writes[-1].new.shape == (8, 4)
    assert writes[-1].old.shape == (8, 8)
    again = operators(how, 4, False, torch.float32, cpu)
    assert all(again(count) is maps for count, maps in enumerate(writes))
    assert [how.share(count) for count in (1, 2, 3)] == [1 / 2, 2 / 3, 3 / 4]
    large = Plan(Gaussians.spread(512, 1.0), 0.5, 512, "equal")
    held: Any = operators(large, 512, True, torch.float32, cpu)
    assert held.cache_info().maxsize * 4 * 512 * 1024 <= OPERATOR_BYTES


@pytest.mark.parametrize("bins", [0, 32])
@pytest.mark.parametrize("basis", [Gaussians.spread(32, 1.0), Rectangles(32)])
def test_every_quarter_of_a_long_history_keeps_its_share(basis: Basis, bins: int) -> None:
    """Column 0 says one in every chunk, column q in those of quarter q alone."""
    chunks, length = 32 * 32, 32
    how = Plan(basis, 0.01, 128, "equal", "length")
    state = fresh(1, 32, bins, draw(1, 5))
    for chunk in range(chunks):
        tokens = torch.zeros(1, length, 5, dtype=torch.float64)
        tokens[..., 0] = tokens[..., 1 + 4 * chunk // chunks] = 1
        state = write(how, state, tokens)
    signal = basis.evaluate(middles(1000)) @ state.coefficients[0]
    assert 0.4 < signal[:, 0].min() <= signal[:, 0].max() < 1.1
    shares = 4 * signal[:, 1:].mean(0)
    assert 0.7 < shares.min() <= shares.max() < 1.05
    # Every quarter stands where it belongs.
    assert (signal[:, 1:].argmax(1) == (4 * middles(1000)).long()).double().mean() > 0.95


def test_counted_points_of_the_present_outweigh_the_past() -> None:
    """Why points are weighed by length: the published fit, at the same number of writes."""
    how = Plan(Gaussians.spread(32, 1.0), 0.5, 32, "equal", "count")
    state = fresh(1, 32, 0, draw(1, 1))
    for _ in range(32 * 32):
        state = write(how, state, torch.ones(1, 32, 1, dtype=torch.float64))
    signal = how.basis.evaluate(middles(1000)) @ state.coefficients[0]
    assert signal.min() < 0.1
    assert signal.max() > 3


@pytest.mark.parametrize(("writes", "least"), [(1, 0.99), (64, 0.95)])
def test_a_signal_of_rectangles_does_not_shrink(writes: int, least: float) -> None:
    layer = long_term(density="gibbs", basis=32, chunk=32)
    state = layer.fresh(1)
    for _ in range(writes):
        state = layer.write(state, torch.ones(1, 32, 8, dtype=torch.float64))
    assert least < state.coefficients.min() <= state.coefficients.max() <= 1


@pytest.mark.parametrize("sticky", [False, True])
def test_the_oldest_rectangle_is_read(sticky: bool) -> None:
    layer = long_term(density="gibbs", basis=32, chunk=32, sticky=sticky)
    first = torch.zeros(1, 32, 8, dtype=torch.float64)
    first[0, 0] = 1
    before = layer.write(layer.fresh(1), first)
    after = layer.write(before, torch.zeros(1, 32, 8, dtype=torch.float64))
    assert after.coefficients[0, 0, 0] > 0.4 * before.coefficients[0, 0, 0] > 0.2


def test_equal_shares_keep_every_chunk_equally_and_a_fixed_share_does_not() -> None:
    """Chunk c says the constant c-th unit vector; its share is what the mean of the signal has."""
    chunks, grid = 12, middles(400)
    shares = {}
    for contraction in (0.75, "equal"):
        how = Plan(Gaussians.spread(64, 1.0), 1e-3, 256, contraction)
        state = fresh(1, 64, 0, draw(1, chunks))
        for chunk in range(chunks):
            tokens = torch.zeros(1, 32, chunks, dtype=torch.float64)
            tokens[..., chunk] = 1
            state = write(how, state, tokens)
        signal = how.basis.evaluate(grid) @ state.coefficients[0]
        shares[contraction] = signal.mean(0)
    torch.testing.assert_close(
        shares["equal"], torch.full((chunks,), 1 / chunks).double(), rtol=0.2, atol=0
    )
    assert shares[0.75][-1] > 5 * shares[0.75][0]
