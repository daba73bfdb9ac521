from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from largest import Largest
from torch import Tensor

from mnemoscope.memories.sparse import kernels, parts
from mnemoscope.memories.sparse.kernels import attend, attend_flex, attend_masked
from mnemoscope.memories.sparse.patterns import SETS, Pattern

NAMES = ["local", "column", "block", "summary", "strided", "fixed", "dense"]
ODD = "local+summary"


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for _ in range(3)
    ]


def with_slopes(attention: Callable[..., Tensor], given: list[Tensor]) -> list[Tensor]:
    found = attention(*given)
    wanted = torch.linspace(-1, 1, found.numel(), dtype=found.dtype).view(found.shape)
    return [found.detach(), *torch.autograd.grad(found, given, wanted)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pattern, int]:
    stride = draw(st.one_of(st.integers(1, 9), st.sampled_from([32, 64, 96, 130])))
    summaries = draw(st.integers(1, stride))
    length = draw(st.integers(1, 300 if stride > 9 else 60))
    sets = draw(st.sets(st.sampled_from(SETS), min_size=1))
    context = draw(st.one_of(st.none(), st.integers(1, length)))
    subblock = draw(st.integers(0, stride // summaries - 1))
    chosen = tuple(name for name in SETS if name in sets)
    return Pattern(chosen, stride, summaries, context, subblock), length


def compare(pattern: Pattern, given: list[Tensor]) -> None:
    fast = with_slopes(partial(attend, pattern=pattern), given)
    slow = with_slopes(partial(attend_masked, pattern=pattern), given)
    for mine, theirs in zip(fast, slow, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@settings(max_examples=120)
@given(case=cases(), rows=st.integers(1, 2), seed=st.integers(0, 99), small=st.booleans())
def test_outputs_and_gradients_are_those_of_masked_attention(
    case: tuple[Pattern, int], rows: int, seed: int, small: bool
) -> None:
    pattern, length = case
    with pytest.MonkeyPatch.context() as patched:
        if small:  # cuts that else only long sequences have
            patched.setattr(parts, "TILE", 4)
            patched.setattr(parts, "FEW", 6)
            kernels._plan.cache_clear()
        compare(pattern, draw(rows, 2, length, 3, seed=seed))
    kernels._plan.cache_clear()


@pytest.mark.parametrize("subblock", [0, 3])
@pytest.mark.parametrize("context", [None, 700])
@pytest.mark.parametrize("name", [*NAMES, ODD, "strided+fixed", "column+block"])
def test_long_and_ragged_sequences_agree_with_masked_attention(
    name: str, context: int | None, subblock: int
) -> None:
    known = Pattern.parse(name, 64, 8, context)
    compare(Pattern(known.sets, 64, 8, context, subblock), draw(1, 1, 2011, 4))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", [*NAMES, ODD, "strided+fixed"])
def test_beyond_the_context_no_square_is_made(name: str, dropout: float) -> None:
    length = 4096
    pattern, given = Pattern.parse(name, 32, 4, 512), draw(1, 1, length, 4, dtype=torch.float32)
    with Largest() as largest:
        found = partial(attend, pattern=pattern, dropout=dropout)(*given)
        torch.autograd.grad(found, given, torch.ones_like(found))
    assert 0 < largest.numbers <= length**2 // 64


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("name", ["local", "column", "summary", "strided", "fixed"])
def test_gradients_of_sparse_kernels_pass_gradcheck(name: str, dropout: float) -> None:
    pattern = Pattern.parse(name, 3, 1)

    def attention(*given: Tensor) -> Tensor:
        torch.manual_seed(5)  # the same dropout every time
        return partial(attend, pattern=pattern, dropout=dropout)(*given)

    assert torch.autograd.gradcheck(attention, draw(1, 2, 8, 2))


def test_small_tiles_and_large_ones_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    given = draw(3, 2, 50, 4)
    for name in NAMES:
        pattern = Pattern.parse(name, 7, 2)
        whole = with_slopes(partial(attend, pattern=pattern), given)
        for room in (1, 100):
            monkeypatch.setattr(kernels, "ROOM_ON_CPU", room)
            cut = with_slopes(partial(attend, pattern=pattern), given)
            for mine, theirs in zip(cut, whole, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
        monkeypatch.undo()


def test_the_private_kernel_does_what_is_expected_of_it() -> None:
    query, key, value = (x.detach() for x in draw(1, 2, 6, 3))
    found, total = getattr(torch.ops.aten, kernels.FUSED)(query, key[:, :, :4], value[:, :, :4])
    scores = query @ key[:, :, :4].transpose(2, 3) * 3**-0.5
    torch.testing.assert_close(total, scores.logsumexp(-1))
    torch.testing.assert_close(found, scores.softmax(-1) @ value[:, :, :4])


def test_without_the_private_kernel_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, given = Pattern.parse("fixed", 16, 4), draw(2, 2, 600, 4)
    fused = with_slopes(partial(attend, pattern=pattern), given)
    monkeypatch.setattr(kernels, "FUSED", "_no_such_kernel")
    public = with_slopes(partial(attend, pattern=pattern), given)
    for mine, theirs in zip(fused, public, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["strided", "fixed", ODD])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 2e-5), (torch.bfloat16, 6e-2)])
def test_other_precisions_are_near(name: str, dtype: torch.dtype, near: float) -> None:
    pattern, given = Pattern.parse(name, 16, 4), draw(1, 2, 300, 8, dtype=dtype)
    exact = [x.detach().double().requires_grad_() for x in given]
    fast = with_slopes(partial(attend, pattern=pattern), given)
    assert all(x.dtype == dtype for x in fast)
    slow = with_slopes(partial(attend_masked, pattern=pattern), exact)
    for mine, theirs in zip(fast, slow, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=near, atol=near)


def test_large_scores_do_not_overflow() -> None:
    given = [x.detach().mul(300).requires_grad_() for x in draw(1, 1, 40, 8, dtype=torch.float32)]
    for name in ("strided", "fixed"):
        pattern = Pattern.parse(name, 6, 2)
        fast = with_slopes(partial(attend, pattern=pattern), given)
        slow = with_slopes(partial(attend_masked, pattern=pattern), given)
        torch.testing.assert_close(fast[0], slow[0], rtol=1e-3, atol=1e-2)
        assert all(slope.isfinite().all() for slope in fast)


@pytest.mark.parametrize("name", ["strided", "fixed", "local", ODD])
def test_dropout_drops_weights_and_keeps_their_mean(name: str) -> None:
    length, rate = 48, 0.25
    pattern = Pattern.parse(name, 6, 2)
    query, key, _ = (x.detach() for x in draw(1, 1, length, 4))
    # With the unit vectors as values, what is found is the weights themselves.
    unit = torch.eye(length, dtype=torch.float64)[None, None]
    whole = attend(query, key, unit, pattern)
    torch.manual_seed(0)
    dropped = attend(query, key, unit, pattern, rate)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], whole[kept] / (1 - rate))
    assert kept.sum() / (whole != 0).sum() == pytest.approx(1 - rate, abs=0.06)
    assert not torch.equal(dropped, attend(query, key, unit, pattern, rate))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", [*NAMES, ODD])
def test_flex_attention_agrees(name: str) -> None:
    pattern = Pattern.parse(name, 5, 2)
    given = [x.detach().float() for x in draw(1, 2, 37, 8)]
    with torch.no_grad():
        found = partial(attend_flex, pattern=pattern, compiled=False)(*given)
    torch.testing.assert_close(
        found, partial(attend_masked, pattern=pattern)(*given), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("name", NAMES)
def test_only_what_the_mask_shows_matters(name: str) -> None:
    pattern, (query, key, value) = Pattern.parse(name, 4, 1), draw(1, 1, 18, 2)
    slope = torch.autograd.functional.jacobian(
        lambda v: attend(query, key, v, pattern).sum(-1)[0, 0], value
    )[:, 0, 0].abs()
    assert torch.equal(slope.sum(-1) > 0, torch.from_numpy(pattern.mask(18)))


def test_rows_in_any_layout() -> None:
    pattern, packed = Pattern.parse("strided", 5, 1), draw(2, 23, 3, 12)[0].detach()
    query, key, value = packed.view(2, 23, 3, 3, 4).permute(2, 0, 3, 1, 4)
    found = attend(query, key, value, pattern)
    torch.testing.assert_close(found, attend_masked(query, key, value, pattern))
