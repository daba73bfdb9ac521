"""Our sparse attention against torch's dense causal attention: time, memory, share of the peak."""

from __future__ import annotations

import math
import statistics
from functools import partial

import torch
from torch import Tensor

from benchmarks.measure import Row, in_child, interleave, milliseconds, peak_memory, ratio
from mnemoscope.core.statistics import Interval
from mnemoscope.memories.sparse.kernels import attend, attend_masked
from mnemoscope.memories.sparse.patterns import Pattern

TITLE = "Sparse attention, exact: strided and fixed patterns against dense causal attention"
SETTING = (
    "One row, 4 heads of width 64, stride √n, 8 summaries, float32; *theirs* is torch's fused "
    "causal attention (`scaled_dot_product_attention`). Up to 4k, outputs and gradients are "
    "checked against masked attention within 1e-4. Ratio = dense time / our time; behind our "
    "time stands the share of the rate of a 1024³ matrix product, measured in the same run, that "
    "the pairs looked at account for (4·E flop a pair forward, 14·E with the backward pass). "
    "Memory is the peak of a process of its own beyond what it had before, with the backward "
    "pass; ratio = dense / ours."
)
HEADS, SIZE, SUMMARIES = 4, 64, 8
PATTERNS = ("strided", "fixed")
# tokens and rounds; at 64k one dense step takes a minute
CASES = {"1k": (1024, 25), "4k": (4096, 9), "16k": (16384, 5), "64k": (65536, 2)}
QUICK = {"1k": (16, 3), "4k": (64, 3), "16k": (256, 3), "64k": (1024, 3)}
# Shorter ones need less than importing torch did, and a peak never falls.
MEMORY, QUICK_MEMORY = {"16k": 16384, "64k": 65536}, {"16k": 2048}
GOALS = {
    "strided_16k_train_speedup": "≥ 12",
    "fixed_16k_train_speedup": "≥ 8",
    "strided_1k_train_speedup": "≥ 1",
    "fixed_1k_train_speedup": "≥ 1",
}


def run(quick: bool) -> list[Row]:
    """Compare both patterns at every length, then their memory."""
    peak = _matrix_rate()
    rows = []
    lengths = QUICK_MEMORY if quick else MEMORY
    for size, (length, rounds) in (QUICK if quick else CASES).items():
        for learn in (False, True):
            rows += _compare(size, length, rounds, learn, peak)
        rows += _memory(size, lengths[size]) if size in lengths else []
    return rows


def _compare(size: str, length: int, rounds: int, learn: bool, peak: float) -> list[Row]:
    given = _draw(length)
    wanted = torch.randn(given[0].shape)
    patterns = {name: _pattern(name, length) for name in ("dense", *PATTERNS)}

    def work(pattern: Pattern) -> list[Tensor]:
        if not learn:
            with torch.no_grad():
                return [attend(*given, pattern)]
        found = attend(*given, pattern)
        return [found.detach(), *torch.autograd.grad(found, given, wanted)]

    if length <= 4096 and learn:
        for pattern in patterns.values():
            slow = attend_masked(*given, pattern)
            exact = [slow, *torch.autograd.grad(slow, given, wanted)]
            for mine, theirs in zip(work(pattern), exact, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    times = interleave({name: partial(work, p) for name, p in patterns.items()}, rounds)
    rows = []
    for name in PATTERNS:
        flop = (14 if learn else 4) * SIZE * HEADS * patterns[name].pairs(length)
        share = flop / statistics.median(times[name]) / peak
        key = f"{name}_{size}_{'train' if learn else 'forward'}_speedup"
        rows.append(
            Row(
                key=key,
                what=f"{name}, {length} tokens, {'with backward' if learn else 'forward'}",
                ours=f"{milliseconds(times[name])}, {100 * share:.0f} % of peak",
                theirs=milliseconds(times["dense"]),
                ratio=ratio(times["dense"], times[name]),
                goal=GOALS.get(key, ""),
            )
        )
    return rows


def _memory(size: str, length: int) -> list[Row]:
    megabytes = {name: _peak(name, length) for name in ("dense", *PATTERNS)}
    rows = []
    for name in PATTERNS:
        over = megabytes["dense"] / megabytes[name]
        rows.append(
            Row(
                key=f"{name}_{size}_memory",
                what=f"{name}, {length} tokens, peak memory with backward",
                ours=f"{megabytes[name]:.0f} MB",
                theirs=f"{megabytes['dense']:.0f} MB",
                ratio=Interval(over, over, over),
                goal="ours < 1000 MB" if length == 65536 else "",
            )
        )
    return rows


def _peak(name: str, length: int) -> float:
    """Megabytes that one step needs, in a fresh process."""
    code = f"from benchmarks.sparse import step; step({name!r}, {length})"
    return float(in_child(code))


def step(name: str, length: int) -> None:
    """Print the megabytes that one forward and backward pass needs at its peak."""
    torch.set_num_threads(1)
    # Dense attention keeps what it keeps at any length; a minute's wait would tell no more.
    heads = 1 if name == "dense" and length > 16384 else HEADS
    for tokens in (64, length):
        query, key, value = given = _draw(tokens, heads)
        wanted = torch.ones_like(query)
        before = peak_memory()
        found = attend(query, key, value, _pattern(name, tokens))
        torch.autograd.grad(found, given, wanted)
    print((peak_memory() - before) / 1024 * HEADS / heads)


def _draw(length: int, heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, heads, length, SIZE)
    return query.requires_grad_(), key.requires_grad_(), value.requires_grad_()


def _pattern(name: str, length: int) -> Pattern:
    stride = math.isqrt(length)
    return Pattern.parse(name, stride, min(SUMMARIES, stride))


def _matrix_rate() -> float:
    """Flop per second of a product of two 1024 × 1024 matrices."""
    one, two = torch.randn(2, 1024, 1024)
    times = interleave({"product": lambda: one @ two}, rounds=9)["product"]
    return 2 * 1024**3 / min(times)
