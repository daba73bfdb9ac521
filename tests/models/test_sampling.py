from itertools import combinations

import pytest
import torch
from torch import Tensor

from mnemoscope.models.generation import choose

DRAWS, OUTPUTS = 20_000, 6


def logits_of(seed: int) -> Tensor:
    return torch.randn(OUTPUTS, generator=torch.Generator().manual_seed(seed))


def frequencies(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """How often each token is chosen in many independent rows."""
    generator = torch.Generator().manual_seed(0)
    chosen = choose(logits.expand(DRAWS, -1), temperature, top_k, top_p, generator)
    return torch.bincount(chosen, minlength=OUTPUTS) / DRAWS


def assert_drawn_from(found: Tensor, chances: Tensor) -> None:
    # Five standard deviations of a binomial frequency; what has no chance must never come.
    assert ((found - chances).abs() <= 5 * (chances * (1 - chances) / DRAWS).sqrt() + 1e-7).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_tokens_come_as_often_as_softmax_says(seed: int, temperature: float) -> None:
    logits = logits_of(seed)
    assert_drawn_from(frequencies(logits, temperature), (logits / temperature).softmax(-1))


@pytest.mark.parametrize("top_k", [1, 2, 4, OUTPUTS, 99])
def test_top_k_keeps_the_likeliest(top_k: int) -> None:
    logits = logits_of(2)
    ranked = sorted(range(OUTPUTS), key=lambda token: -logits[token].item())
    chances = torch.zeros(OUTPUTS)
    chances[ranked[:top_k]] = logits[ranked[:top_k]].softmax(-1)
    assert_drawn_from(frequencies(logits, top_k=top_k), chances)


def smallest_set(chances: Tensor, p: float) -> list[int]:
    """Of the smallest sets of tokens whose chances reach p, the likeliest; by trying them all."""
    for size in range(1, OUTPUTS + 1):
        sets = [list(tokens) for tokens in combinations(range(OUTPUTS), size)]
        best = max(sets, key=lambda tokens: chances[tokens].sum().item())
        if chances[best].sum() >= p:
            return best
    return list(range(OUTPUTS))


@pytest.mark.parametrize("top_p", [0.05, 0.35, 0.6, 0.85, 0.95, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_top_p_keeps_the_smallest_set_that_reaches_p(seed: int, top_p: float) -> None:
    whole = logits_of(seed).softmax(-1)
    kept = smallest_set(whole, top_p)
    chances = torch.zeros(OUTPUTS)
    chances[kept] = whole[kept] / whole[kept].sum()
    found = frequencies(logits_of(seed), top_p=top_p)
    assert_drawn_from(found, chances)
    assert found.nonzero().flatten().tolist() == kept


def test_top_p_acts_on_what_top_k_left() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    chosen = choose(logits.expand(2000, -1), 1.0, 2, 0.55, torch.Generator().manual_seed(0))
    # After top_k the first has 4/7 > 0.55, so it stands alone; before, it would have needed two.
    assert chosen.unique().tolist() == [0]


def test_no_temperature_takes_the_largest_of_every_row() -> None:
    logits = torch.randn(50, OUTPUTS)
    assert torch.equal(choose(logits, 0, None, None, None), logits.argmax(-1))


def test_low_precision_is_sampled_too() -> None:
    logits = logits_of(0).bfloat16()
    assert_drawn_from(frequencies(logits), logits.float().softmax(-1))
