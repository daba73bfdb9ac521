"""Every closed form of continuous attention against quadrature, and its gradients."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_signal import by_quadrature, normal, parabola
from torch import Tensor

from mnemoscope.memories.infinite.basis import Gaussians, Rectangles, constants
from mnemoscope.memories.infinite.densities import (
    Density,
    divergence,
    gaussian_below,
    gaussian_expectation,
    parabola_below,
    parabola_expectation,
    parabola_reach,
)
from mnemoscope.memories.infinite.long_term import write
from mnemoscope.memories.infinite.signal import Plan, fresh

unit_gaussian_expectation = partial(gaussian_expectation, domain="unit")
unit_parabola_expectation = partial(parabola_expectation, domain="unit")
bases = st.builds(
    Gaussians,
    st.integers(2, 9),
    st.lists(st.floats(0.02, 0.3), min_size=1, max_size=3).map(tuple),
)
means, variances = st.floats(0, 1), st.floats(0.003, 1)


def constants_of(basis: Gaussians, like: Tensor) -> tuple[Tensor, Tensor]:
    return constants(basis, like.dtype, like.device)


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@settings(max_examples=60)
@given(basis=bases, mean=means, variance=variances)
def test_the_expectation_under_a_gaussian_is_its_integral(
    basis: Gaussians, mean: float, variance: float
) -> None:
    reach = 12 * math.sqrt(variance) + 1
    slow = by_quadrature(normal(mean, variance), basis, mean - reach, mean + reach, 20_000)
    fast = gaussian_expectation(scalar(mean), scalar(variance), *constants_of(basis, scalar(mean)))
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)


@settings(max_examples=60)
@given(basis=bases, mean=means, variance=variances)
def test_the_expectation_under_a_parabola_is_its_integral(
    basis: Gaussians, mean: float, variance: float
) -> None:
    reach = float(parabola_reach(scalar(variance)))
    slow = by_quadrature(parabola(mean, variance), basis, mean - reach, mean + reach, 40_000)
    fast = parabola_expectation(scalar(mean), scalar(variance), *constants_of(basis, scalar(mean)))
    # The midpoint rule meets the kink at both ends: its error falls with the square of the step.
    torch.testing.assert_close(fast, slow, rtol=0, atol=2e-7)


@settings(max_examples=40)
@given(basis=bases, mean=st.floats(0.001, 0.999), variance=variances)
@pytest.mark.parametrize(
    ("expect", "shape"),
    [(unit_gaussian_expectation, "normal"), (unit_parabola_expectation, "parabola")],
)
def test_on_the_unit_interval_an_expectation_is_given_that_t_lies_there(
    expect: Callable[..., Tensor], shape: str, basis: Gaussians, mean: float, variance: float
) -> None:
    density = (normal if shape == "normal" else parabola)(mean, variance)
    slow = by_quadrature(density, basis, 0.0, 1.0, 40_000)
    whole = by_quadrature(density, Rectangles(1), 0.0, 1.0, 40_000)
    fast = expect(scalar(mean), scalar(variance), *constants_of(basis, scalar(mean)))
    torch.testing.assert_close(fast, slow / whole, rtol=2e-6, atol=2e-6)


def test_a_wide_density_on_the_unit_interval_reads_the_mean_of_all_that_was_written() -> None:
    """On the whole line it also reads what edge functions do outside, which no fit looks at."""
    basis = Gaussians.spread(32, 1.0)
    plan = Plan(basis, 0.01, 128, "equal")
    tokens = torch.randn(1, 20 * 64, 8, dtype=torch.float64, generator=torch.manual_seed(0))
    state = fresh(1, 32, 0, tokens)
    for chunk in tokens.split(64, 1):
        state = write(plan, state, chunk)
    wide = scalar(0.5)[None], scalar(25.0)[None], *constants_of(basis, tokens)
    mean = tokens.mean(1)
    height = 1 / math.sqrt(2 * math.pi * 25.0)  # of so wide a density everywhere on [0, 1]
    on_unit = unit_gaussian_expectation(*wide) @ state.coefficients[0]
    on_line = gaussian_expectation(*wide) / height @ state.coefficients[0]
    far = [float((read - mean).norm() / mean.norm()) for read in (on_unit, on_line)]
    assert far[0] < 0.05
    assert far[1] > 0.2


@given(mean=means, variance=variances)
def test_a_parabola_is_a_density(mean: float, variance: float) -> None:
    reach = float(parabola_reach(scalar(variance)))
    whole = by_quadrature(
        parabola(mean, variance),
        Rectangles(1),
        max(0.0, mean - reach),
        min(1.0, mean + reach),
        9999,
    )
    below = parabola_below(scalar(mean), scalar(variance), torch.tensor([0.0, 1.0]).double())
    torch.testing.assert_close(whole[0], below[1] - below[0], rtol=0, atol=1e-6)


@given(mean=means, variance=variances)
def test_mass_below_an_edge_is_the_integral_up_to_it(mean: float, variance: float) -> None:
    edges = torch.tensor([0.0, 0.2, 0.7, 1.0], dtype=torch.float64)
    parts = gaussian_below(scalar(mean), scalar(variance), edges).diff()
    for part, low, high in zip(parts, edges[:-1], edges[1:], strict=True):
        slow = by_quadrature(normal(mean, variance), Rectangles(1), float(low), float(high), 20_000)
        torch.testing.assert_close(part, slow[0], rtol=0, atol=1e-7)


@pytest.mark.parametrize("widths", [(0.1,), (0.05, 0.2)])
@pytest.mark.parametrize(
    "expect",
    [
        gaussian_expectation,
        parabola_expectation,
        unit_gaussian_expectation,
        unit_parabola_expectation,
    ],
)
def test_gradients_are_those_of_differences(widths: tuple[float, ...], expect: object) -> None:
    basis = Gaussians(7, widths)
    mean = torch.rand(2, 3, dtype=torch.float64).requires_grad_()
    variance = (0.01 + torch.rand(2, 3, dtype=torch.float64)).requires_grad_()
    functions = constants_of(basis, mean)
    assert torch.autograd.gradcheck(lambda m, v: expect(m, v, *functions), (mean, variance))


def test_float32_agrees_with_float64_where_densities_are_narrow() -> None:
    basis = Gaussians.spread(512, 1.0)
    draws = torch.rand(2, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mean, variance = draws[0], 10 ** (-4 + 4 * draws[1])  # down to the floor of the variance
    grads = []
    for dtype in (torch.float64, torch.float32):
        m = mean.to(dtype).requires_grad_()
        v = variance.to(dtype).requires_grad_()
        found = gaussian_expectation(m, v, *constants_of(basis, m))
        weight = torch.arange(512, dtype=dtype).cos()
        gradients = torch.autograd.grad((found @ weight).sum(), (m, v))
        grads.append([found.detach().double(), *(g.double() for g in gradients)])
    for exact, single in zip(*grads, strict=True):
        scale = exact.abs().amax(-1, keepdim=True) if exact.dim() > 1 else exact.abs().max()
        assert ((exact - single).abs() / scale).max() < 1e-4


@given(mean=means, variance=variances, width=st.floats(0.01, 1))
def test_divergence_is_that_of_two_gaussians(mean: float, variance: float, width: float) -> None:
    ours = torch.distributions.Normal(scalar(mean), scalar(math.sqrt(variance)))
    prior = torch.distributions.Normal(scalar(0.3), scalar(width))
    expected = torch.distributions.kl_divergence(ours, prior)
    found = divergence("gaussian", scalar(mean), scalar(variance), width, 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    free = divergence("gaussian", scalar(mean), scalar(variance), width)
    assert free >= -1e-12
    zero = divergence("gaussian", scalar(mean), scalar(width**2), width)
    assert zero == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("kind", "density"), [("gaussian", normal), ("sparse", parabola)])
def test_the_divergence_draws_densities_to_the_standard_deviation_it_is_told(
    kind: Density, density: Callable[[float, float], Callable[[Tensor], Tensor]]
) -> None:
    logs = torch.linspace(-14, 0, 20_001, dtype=torch.float64)
    values = torch.stack([divergence(kind, scalar(0.5), v, 0.05) for v in logs.exp()])
    best = float(logs[values.argmin()].exp())
    assert float(values.min()) == pytest.approx(0, abs=1e-6)
    times = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    weights = density(0.5, best)(times)
    spread = (weights * (times - 0.5).square()).sum() / weights.sum()
    assert math.sqrt(spread) == pytest.approx(0.05, rel=1e-2)


def test_rectangles_are_one_in_their_own_part() -> None:
    found = Rectangles(4).evaluate(torch.tensor([-0.1, 0.0, 0.3, 0.99, 1.0, 1.1]).double())
    assert found.argmax(1).tolist()[1:5] == [0, 1, 3, 3]
    assert found.sum(1).tolist() == [0, 1, 1, 1, 1, 0]
