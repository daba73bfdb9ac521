"""Attention in 16 bits on CPUs, which learns by products of its own, against torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.heads import softmax_attention

MASKS = ["none", "causal", "hidden", "added"]


def _drawn(rows: int, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = [(rows, 3, queries, 5), (rows, 3, keys, 5), (rows, 3, keys, 5)]
    one, two, three = (torch.randn(shape, dtype=torch.bfloat16) for shape in shapes)
    return one, two, three


def _mask(kind: str, rows: int, queries: int, keys: int) -> Tensor | None:
    if kind == "hidden":
        mask = torch.rand(rows, 1, queries, keys) < 0.6
        mask[0, 0, 0] = False  # who sees nothing at all
        return mask
    return torch.randn(rows, 3, queries, keys) if kind == "added" else None


def _learnt(
    given: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, causal: bool, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """The output and all gradients, in one dtype; in 64 bits by torch's own kernel."""
    queries, keys, values = (one.detach().to(dtype).requires_grad_() for one in given)
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)
    output = softmax_attention(queries, keys, values, mask, causal=causal)
    weights = torch.linspace(-1, 1, output.numel(), dtype=dtype).view_as(output)
    return output, *torch.autograd.grad((output * weights).sum(), (queries, keys, values))


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 7, 7), (3, 4, 11), (1, 65, 65)])
def test_learning_in_16_bits_agrees_with_64(kind: str, sizes: tuple[int, int, int]) -> None:
    given, mask, causal = _drawn(*sizes), _mask(kind, *sizes), kind == "causal"
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.bfloat16()  # the same numbers in both
    low = _learnt(given, mask, causal, torch.bfloat16)
    high = _learnt(given, mask, causal, torch.float64)
    for one, other in zip(low, (each.detach() for each in high), strict=True):
        assert one.dtype == torch.bfloat16
        # bfloat16 has 8 bits, and sums of some of these numbers cancel.
        assert torch.allclose(
            one.detach().double(), other, atol=0.03 * float(other.abs().max()) + 1e-6
        )


def test_who_sees_nothing_gets_nothing_and_learns_nothing() -> None:
    given, mask = _drawn(1, 2, 3), torch.tensor([[False] * 3, [True] * 3])
    output, to_queries, *_ = _learnt(given, mask, False, torch.bfloat16)
    assert not output[:, :, 0].any()
    assert not to_queries[:, :, 0].any()
    assert output[:, :, 1].all()


@pytest.mark.parametrize("kind", MASKS)
def test_reading_is_torch_s_own_attention(kind: str) -> None:
    given, mask = _drawn(2, 6, 6), _mask(kind, 2, 6, 6)
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.bfloat16()
    expected = F.scaled_dot_product_attention(*given, mask, is_causal=kind == "causal")
    assert torch.equal(softmax_attention(*given, mask, causal=kind == "causal"), expected)


def test_dropout_takes_weights_away_and_keeps_the_mean() -> None:
    queries, keys, _ = _drawn(64, 8, 8)
    values = torch.ones_like(keys).requires_grad_()
    queries.requires_grad_()
    torch.manual_seed(1)
    output = softmax_attention(queries, keys, values, dropout=0.5)
    assert float(output.detach().float().std()) > 0.1
    assert abs(float(output.detach().float().mean()) - 1) < 0.05
