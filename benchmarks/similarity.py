"""Distances between layers from streamed moments, against the textbook form on all samples."""

from __future__ import annotations

import time
from functools import partial
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import Row, in_child, interleave, milliseconds, peak_memory, ratio
from mnemoscope.core.statistics import Interval
from mnemoscope.lenses.information.entropy import mutual
from mnemoscope.lenses.similarity.cca import canonical, projection_weighted
from mnemoscope.lenses.statistics.clusters import cluster
from mnemoscope.lenses.statistics.moments import Moments, whiten

TITLE = "PWCCA from streamed moments, against a singular value decomposition of all samples"
SETTING = (
    "Vectors with a decaying spectrum and a mean far from zero. *Textbook* centres each matrix in "
    "float64, takes numpy's SVD of both, then that of the product of their left vectors, and "
    "weighs by projections: the definition, pair by pair, all samples in memory. Ours streams "
    "blocks of 2 048 through float64 moments and whitens every layer once. Both values are "
    "checked to agree within 1e-9; both give the distance with the weights of either side. Ratio = "
    "textbook's time / our time; for *all pairs* the textbook is timed on one pair and multiplied. "
    "Memory is the peak of a process of its own; the textbook caches all activations. Information: "
    "clusters learnt from 30 000 vectors, against the same from all of them."
)
Floats = NDArray[np.float32]


def run(quick: bool) -> list[Row]:
    """Compare one pair, all pairs of seven layers, and memory."""
    shrink = 20 if quick else 1
    rounds = 3
    cases = (("pwcca_speedup_vs_numpy_10k", 10_000, 512), ("pwcca_speedup_vs_numpy", 50_000, 768))
    rows = []
    for key, n, d in cases:
        n, d = n // shrink, d // shrink
        x, y = layers(2, n, d)
        assert abs(ours([x, y]) - textbook(x, y)) < 1e-9
        ways = {"ours": partial(ours, [x, y]), "textbook": partial(textbook, x, y)}
        times = interleave(ways, rounds)
        speed = ratio(times["textbook"], times["ours"])
        goal = "≥ 2.5" if key == "pwcca_speedup_vs_numpy" else ""
        rows.append(
            Row(
                key, f"one pair, {n:,} × {d}", milliseconds(times["ours"]),
                milliseconds(times["textbook"]), speed, goal,
            )
        )  # fmt: skip
    n, d = 20_480 // shrink, 384 // shrink
    seven = layers(7, n, d)
    times = interleave(
        {"ours": partial(ours, seven), "textbook": partial(textbook, seven[0], seven[1])}, rounds
    )
    pairs = len(seven) * (len(seven) - 1) // 2
    whole = [pairs * one for one in times["textbook"]]
    rows.append(
        Row(
            "pwcca_all_pairs_speedup_vs_numpy", f"7 layers, {pairs} pairs, {n:,} × {d}",
            milliseconds(times["ours"]), milliseconds(whole), ratio(whole, times["ours"]), "≥ 10",
        )
    )  # fmt: skip
    rows.append(_memory(50_000 // shrink, 768 // shrink))
    rows.append(_information(100_000 // shrink, 512 // shrink, 1000 // shrink))
    return rows


def layers(count: int, n: int, d: int) -> list[Floats]:
    """Layers that keep part of the one before; spectrum 1/i, mean 3."""
    rng = np.random.default_rng(0)
    scale = (1 / np.arange(1, d + 1)).astype(np.float32)
    found = [rng.standard_normal((n, d), dtype=np.float32)]
    while len(found) < count:
        noise = rng.standard_normal((n, d), dtype=np.float32)
        found.append(0.8 * found[-1] + 0.6 * noise)
    return [one * scale + 3 for one in found]


def ours(places: list[Floats]) -> float:
    """All pairs, both directions; the first distance is returned."""
    names = [str(place) for place in range(len(places))]
    pairs = list(combinations(names, 2))
    moments = Moments(pairs)
    tensors = {name: torch.from_numpy(one) for name, one in zip(names, places, strict=True)}
    for at in range(0, len(places[0]), 2048):
        moments.add({name: one[at : at + 2048] for name, one in tensors.items()})
    white = {name: whiten(moments.inner(name)) for name in names}
    found = []
    for left, right in pairs:
        cross = white[left].to_white @ moments.cross[left, right] @ white[right].to_white.T
        correlations, ours, theirs = canonical(cross)
        found.append(projection_weighted(correlations, ours, white[left]))
        projection_weighted(correlations, theirs, white[right])
    return found[0]


def textbook(x: Floats, y: Floats) -> float:
    """The definition: orthonormal bases by SVD, canonical variables, projections."""
    a, b = (one.astype(np.float64) for one in (x, y))
    a, b = a - a.mean(0), b - b.mean(0)
    left = np.linalg.svd(a, full_matrices=False)[0]
    right = np.linalg.svd(b, full_matrices=False)[0]
    u, rho, v = np.linalg.svd(left.T @ right)
    found = [
        1 - weights @ rho / weights.sum()
        for basis, turned, values in ((left, u, a), (right, v.T, b))
        for weights in [np.abs((basis @ turned).T @ values).sum(1)]
    ]
    return float(found[0])


MEASURE = """
import sys
import torch
torch.set_num_threads(1)
from benchmarks.similarity import peak
n, d, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
print(peak(n, d, way))
"""


def peak(n: int, d: int, way: str) -> int:
    """Kilobytes of this process at its peak, when activations come in blocks."""
    rng = np.random.default_rng(0)
    blocks = (
        [rng.standard_normal((2048, d), dtype=np.float32) for _ in "ab"]
        for _ in range(n // 2048 + 1)
    )
    if way == "ours":
        moments = Moments([("a", "b")])
        for a, b in blocks:
            moments.add({"a": torch.from_numpy(a), "b": torch.from_numpy(b)})
        white = {name: whiten(moments.inner(name)) for name in "ab"}
        canonical(white["a"].to_white @ moments.cross["a", "b"] @ white["b"].to_white.T)
    else:
        kept = list(blocks)
        textbook(np.concatenate([a for a, _ in kept]), np.concatenate([b for _, b in kept]))
    return peak_memory()


def _memory(n: int, d: int) -> Row:
    used = {}
    for way in ("ours", "textbook"):
        used[way] = int(in_child(MEASURE, str(n), str(d), way))
    share = used["textbook"] / used["ours"]
    return Row(
        "pwcca_memory_saved_vs_numpy", f"peak memory, one pair, {n:,} × {d}",
        f"{used['ours'] / 1024:.0f} MiB", f"{used['textbook'] / 1024:.0f} MiB",
        Interval(share, share, share),
    )  # fmt: skip


def _information(n: int, d: int, clusters: int) -> Row:
    rng = np.random.default_rng(0)
    tokens = rng.integers(clusters, size=n)
    centres = rng.standard_normal((clusters, d), dtype=np.float32)
    noise = rng.standard_normal((n, d), dtype=np.float32)
    values = torch.from_numpy(centres[tokens] + noise)

    def lloyd_on_all() -> object:
        from mnemoscope.lenses.statistics import clusters as recipe

        before = recipe.LEARN_FROM
        recipe.LEARN_FROM = n
        try:
            return cluster(values, clusters, 0)
        finally:
            recipe.LEARN_FROM = before

    def ours() -> object:
        return mutual(tokens, cluster(values, clusters, 0).ids)

    times = {}
    for name, work in (("ours", ours), ("all", lloyd_on_all)):
        start = time.process_time()  # once each: a round takes minutes
        work()
        times[name] = [time.process_time() - start]
    share = times["all"][0] / times["ours"][0]
    return Row(
        "information_speedup_vs_lloyd_on_all", f"{n:,} × {d}, {clusters} clusters, one seed",
        milliseconds(times["ours"]), milliseconds(times["all"]), Interval(share, share, share),
    )  # fmt: skip
