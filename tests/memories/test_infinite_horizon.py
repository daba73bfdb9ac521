"""What algebra says of a signal's memory, against writing and reading back."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_signal import sticky_share

from mnemoscope.memories.infinite.basis import Gaussians
from mnemoscope.memories.infinite.horizon import (
    FAINT,
    directions,
    frequency_gains,
    gains,
    responses,
    spectrum,
    timeline,
    used,
)
from mnemoscope.memories.infinite.long_term import write
from mnemoscope.memories.infinite.signal import (
    ContinuousState,
    Fit,
    Plan,
    fresh,
    middles,
    positions,
)

LENGTH, WRITES = 12, 6


def plan(
    contraction: float | str, count: int = 24, fit: Fit = "length", penalty: float = 0.01
) -> Plan:
    samples = 4 * count if fit == "length" else 2 * count
    return Plan(Gaussians.spread(count, 1.0), penalty, samples, contraction, fit)  # type: ignore[arg-type]


def published(contraction: float | str, count: int = 24) -> Plan:
    return plan(contraction, count, "count", 0.5)


both = pytest.mark.parametrize("plan", [plan, published])


@both
@pytest.mark.parametrize("contraction", [0.5, 0.75, "equal"])
def test_responses_are_what_comes_back_of_a_chunk_that_was_written(
    plan: Callable[..., Plan], contraction: float | str
) -> None:
    how = plan(contraction)
    for age, response in enumerate(responses(how, LENGTH, WRITES)):
        number = WRITES - 1 - age
        state = fresh(1, 24, 0, torch.zeros(1, LENGTH, dtype=torch.float64))
        at = torch.zeros(LENGTH, dtype=torch.float64)
        for step in range(WRITES):
            # The chunk says the unit vectors, one a token; all others say nothing.
            tokens = torch.zeros(1, LENGTH, LENGTH, dtype=torch.float64)
            share = how.share(step) if step else 0.0
            at = share * at
            if step == number:
                tokens[0] = torch.eye(LENGTH)
                at = positions(how, LENGTH, share)[1]
            state = write(how, state, tokens)
        back = how.basis.evaluate(at) @ state.coefficients[0]
        torch.testing.assert_close(response, back, rtol=0, atol=1e-9)


@pytest.mark.parametrize("contraction", [0.75, "equal"])
def test_the_timeline_says_where_tokens_went(contraction: float | str) -> None:
    """A signal that was told the number of every token knows it at the place the timeline says."""
    how = Plan(Gaussians.spread(256, 1.0), 0.1, 512, contraction)  # type: ignore[arg-type]
    state, masses = fresh(1, 256, 8, torch.zeros(1, 1).double()), []
    for step in range(5):
        mass = torch.rand(1, 8, generator=torch.Generator().manual_seed(step)).double() + 0.2
        masses.append(mass)
        tokens = (64 * step + torch.arange(64).double())[None, :, None]
        state = write(how, state.attended(mass), tokens)
    told = timeline(how, 64, masses, 400)[0]
    known = (
        how.basis.evaluate((torch.arange(400).double() + 0.5) / 400) @ state.coefficients[0, :, 0]
    )
    inside = slice(20, 380)  # at both ends the signal bends towards zero
    assert (told - known)[inside].abs().median() < 3
    assert (told.diff() >= 0).all()


def test_directions_are_counted_from_gains() -> None:
    how = plan(0.75)
    found = gains(how, LENGTH, WRITES)
    assert found.shape == (WRITES, LENGTH)
    assert (np.diff(found, axis=1) <= 1e-12).all()
    assert directions(how, LENGTH, WRITES).tolist() == (found > FAINT).sum(1).tolist()


@both
def test_a_fixed_share_forgets_geometrically_and_equal_shares_do_not(
    plan: Callable[..., Plan],
) -> None:
    fixed, equal = (directions(plan(c, 64), 64, 12) for c in (0.5, "equal"))
    # Half the room per write: half the directions, down to none.
    assert fixed[0] / fixed[2] == pytest.approx(4, rel=0.3)
    assert fixed[8] <= 1 < fixed[1]
    # Every chunk has a twelfth of 64 functions, whatever its age.
    assert equal[1:].min() >= 3
    assert equal.max() <= 8


@both
def test_slow_waves_outlive_fast_ones(plan: Callable[..., Plan]) -> None:
    left = frequency_gains(plan(0.75, 32), 32, 8)
    assert left.shape == (8, 17)
    assert left[1, 0] > 0.9
    assert left[1, 14] < 0.3
    assert (left[:, 0] >= left[:, 14] - 1e-9).all()


@both
def test_narrow_functions_are_all_used_and_wide_ones_are_not(plan: Callable[..., Plan]) -> None:
    narrow = plan(0.5, 64)
    assert used(narrow, 64) > 0.85 * 64
    wide = replace(narrow, basis=Gaussians(512, (0.005, 0.01)), samples=512)
    assert used(wide, 512) < 0.5 * 512  # the release's setting
    assert used(plan(0.5, 512), 512) > 0.9 * 512


@both
def test_the_spectrum_is_that_of_a_memory_left_alone(plan: Callable[..., Plan]) -> None:
    how = plan(0.75)
    values = np.abs(spectrum(how, LENGTH))
    assert values[0] < 1
    state = write(
        how, fresh(1, 24, 0, torch.zeros(1, 1).double()), torch.ones(1, LENGTH, 1).double()
    )
    sizes = []
    for _ in range(40):
        state = write(how, state, torch.zeros(1, LENGTH, 1, dtype=torch.float64))
        sizes.append(float(state.coefficients.norm()))
    assert sizes[-1] / sizes[-2] == pytest.approx(values[0], rel=0.02)


@pytest.mark.parametrize("attention", [0.1, 0.3, 0.5])
def test_the_share_of_a_region_tends_to_the_sticky_law(attention: float) -> None:
    """The first chunk says one, all later ones zero; attention follows it wherever it goes."""
    contraction, bins = 0.5, 256
    how = Plan(Gaussians.spread(256, 1.0), 0.01, 512, contraction)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    middle = (edges[1:] + edges[:-1]) / 2
    state = fresh(1, 256, bins, torch.zeros(1, 1).double())
    state = write(how, state, torch.ones(1, 64, 1, dtype=torch.float64))
    share = 1.0
    for _ in range(40):
        region = middle < share
        masses = attention * region / region.sum() + (1 - attention) / bins
        state = write(how, state.attended(masses[None]), torch.zeros(1, 64, 1).double())
        signal = how.basis.evaluate(middles(2000)) @ state.coefficients[0, :, 0]
        share = float((signal > 0.5).double().mean())
    assert share == pytest.approx(sticky_share(contraction, attention), abs=0.02)


def test_a_region_nobody_looks_at_goes() -> None:
    how, bins = Plan(Gaussians.spread(64, 1.0), 0.1, 128, 0.75), 64
    state = fresh(1, 64, bins, torch.zeros(1, 1).double())
    state = write(how, state, torch.ones(1, 64, 1, dtype=torch.float64))
    newest = torch.zeros(1, bins, dtype=torch.float64)
    newest[0, 3 * bins // 4 :] = 1
    assert isinstance(state, ContinuousState)
    for _ in range(3):
        state = write(how, state.attended(newest), torch.zeros(1, 64, 1).double())
    signal = how.basis.evaluate(middles(500)) @ state.coefficients[0, :, 0]
    assert signal.abs().max() < 0.05
