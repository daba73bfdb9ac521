"""Every closed form of continuous attention against quadrature, and its gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_signal import by_quadrature, normal, parabola
from torch import Tensor

from mnemoscope.memories.infinite.basis import Gaussians, Rectangles, constants
from mnemoscope.memories.infinite.densities import (
    divergence,
    gaussian_below,
    gaussian_expectation,
    parabola_below,
    parabola_expectation,
    parabola_reach,
)

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
@pytest.mark.parametrize("expect", [gaussian_expectation, parabola_expectation])
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
    found = divergence(scalar(mean), scalar(variance), width, 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    free = divergence(scalar(mean), scalar(variance), width)
    assert free >= -1e-12
    assert divergence(scalar(mean), scalar(width**2), width) == pytest.approx(0, abs=1e-12)


def test_rectangles_are_one_in_their_own_part() -> None:
    found = Rectangles(4).evaluate(torch.tensor([-0.1, 0.0, 0.3, 0.99, 1.0, 1.1]).double())
    assert found.argmax(1).tolist()[1:5] == [0, 1, 3, 3]
    assert found.sum(1).tolist() == [0, 1, 1, 1, 1, 0]
