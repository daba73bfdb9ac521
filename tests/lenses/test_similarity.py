from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny

from mnemoscope.activations.capture import Observed, capture
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.similarity.reference import anatome, google_svcca
from mnemoscope.lenses.similarity.result import SimilarityResult


def observed(sites: dict[str, np.ndarray]) -> Observed:
    zeros = np.zeros(len(next(iter(sites.values()))), dtype=np.int64)
    values = {name: torch.from_numpy(value) for name, value in sites.items()}
    return Observed(zeros, zeros, zeros, zeros, zeros, zeros, values)


def measure(x: np.ndarray, y: np.ndarray, parts: int = 5, folds: int = 1) -> SimilarityResult:
    lens = Similarity([("x", "y")], folds=folds)
    for a, b in zip(np.array_split(x, parts), np.array_split(y, parts), strict=True):
        lens.observe(observed({"x": a, "y": b}))
    return lens.result()


def textbook(x: np.ndarray, y: np.ndarray) -> float:
    """PWCCA as it is defined, from orthonormal bases of the samples."""
    x, y = x - x.mean(0), y - y.mean(0)
    qx, qy = np.linalg.qr(x)[0], np.linalg.qr(y)[0]
    u, rho, _ = np.linalg.svd(qx.T @ qy)
    weights = np.abs((qx @ u[:, : len(rho)]).T @ x).sum(1)
    return 1 - weights @ rho / weights.sum()


def pair(
    seed: int, n: int = 400, d: int = 12, e: int = 9, offset: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """Six directions shared, each behind its own noise: equal correlations leave weights open."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 6))
    x = np.hstack((shared, rng.normal(size=(n, d - 6)))) @ rng.normal(size=(d, d)) + offset
    noisy = shared + rng.normal(size=(n, 6)) * np.arange(1, 7) / 6
    y = np.hstack((noisy, rng.normal(size=(n, e - 6)))) @ rng.normal(size=(e, e)) - offset
    return x, y


@pytest.mark.parametrize("offset", [0.0, 10.0, 1000.0])
def test_pwcca_is_the_definition_whatever_the_offset(offset):
    x, y = pair(0, n=2000, d=30, e=20, offset=offset)
    found = measure(x, y)
    assert found.distance["pwcca_left"][0] == pytest.approx(textbook(x, y), abs=1e-9)
    assert found.distance["pwcca_right"][0] == pytest.approx(textbook(y, x), abs=1e-9)
    mean = (textbook(x, y) + textbook(y, x)) / 2
    assert found.distance["pwcca"][0] == pytest.approx(mean, abs=1e-9)


def test_naive_moments_in_single_precision_fail_where_ours_do_not():
    x, y = pair(1, n=2000, d=30, e=20, offset=1000.0)
    x, y = x.astype(np.float32), y.astype(np.float32)

    def naive(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a.T @ b / len(a) - np.outer(a.mean(0), b.mean(0))).astype(np.float64)

    def root(moment: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(moment)
        kept = values > 1e-10 * values[-1]
        return vectors[:, kept] / np.sqrt(values[kept])

    wx, wy = root(naive(x, x)), root(naive(y, y))
    u, rho, _ = np.linalg.svd(wx.T @ naive(x, y) @ wy, full_matrices=False)
    weights = np.abs((wx @ u).T @ naive(x, x)).sum(1)
    wrong = 1 - weights @ rho / weights.sum()
    right = textbook(x.astype(np.float64), y.astype(np.float64))
    assert abs(wrong - right) > 1e-2
    assert measure(x, y).distance["pwcca_left"][0] == pytest.approx(right, abs=1e-6)


def test_batches_of_any_size_give_the_same(tmp_path):
    x, y = pair(2)
    whole = measure(x, y, parts=1)
    for parts in (3, 40):
        cut = measure(x, y, parts=parts)
        for name, value in whole.distance.items():
            assert cut.distance[name] == pytest.approx(value, abs=1e-9)


def test_debiased_cka_is_the_unbiased_hsic_of_gram_matrices():
    x, y = pair(3, n=60, d=12, e=9)

    def hsic(k: np.ndarray, m: np.ndarray) -> float:
        k, m, n = k.copy(), m.copy(), len(k)
        np.fill_diagonal(k, 0)
        np.fill_diagonal(m, 0)
        rest = k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k @ m).sum()
        return float((np.trace(k @ m) + rest) / (n * (n - 3)))

    k, m = x @ x.T, y @ y.T
    expected = hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m))
    assert 1 - measure(x, y).distance["cka"][0] == pytest.approx(expected, abs=1e-9)


def test_the_null_is_that_of_shuffled_rows():
    x, y = pair(4, n=500, d=30, e=25)
    rng = np.random.default_rng(0)
    shuffled = [measure(x, y[rng.permutation(500)]).distance for _ in range(8)]
    null = measure(x, y).null
    for name in ("pwcca", "cca", "svcca", "procrustes"):
        values = [float(one[name][0]) for one in shuffled]
        assert null[name][0] == pytest.approx(
            np.mean(values), abs=float(5 * np.std(values) + 0.003)
        )
    assert np.mean([one["cka"][0] for one in shuffled]) == pytest.approx(1, abs=0.02)
    independent = measure(x, rng.normal(size=(500, 25)))
    assert independent.distance["pwcca"] == pytest.approx(independent.null["pwcca"], abs=0.03)


def test_the_error_covers_what_another_sample_gives():
    found = [measure(*pair(5, n=4000), folds=4), measure(*pair(5, n=8000), folds=4)]
    apart = abs(found[0].distance["pwcca"][0] - found[1].distance["pwcca"][0])
    assert 0 < found[0].error["pwcca"][0] < 0.05
    assert apart < 4 * found[0].error["pwcca"][0] + 0.01


seeds = st.integers(0, 2**31)


def turn(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


@settings(max_examples=15)
@given(seeds)
def test_similarity_has_the_invariances_it_promises(seed):
    x, y = pair(seed % 50)
    rng = np.random.default_rng(seed)
    base = measure(x, y).distance
    linear = rng.normal(size=(9, 9)) + 3 * np.eye(9)
    mapped = measure(x, y @ linear + rng.normal(size=9)).distance
    # Canonical correlations do not change under any invertible map of either side, PWCCA not
    # under those of the side that does not give the weights.
    assert mapped["cca"] == pytest.approx(base["cca"], abs=1e-6)
    assert mapped["pwcca_left"] == pytest.approx(base["pwcca_left"], abs=1e-6)
    turned = measure(7.0 * x @ turn(rng, 12), 0.1 * y @ turn(rng, 9)).distance
    for name in ("cka", "procrustes", "cca", "svcca"):
        assert turned[name] == pytest.approx(base[name], abs=1e-8)


@settings(max_examples=15)
@given(seeds)
def test_a_place_is_at_no_distance_from_itself(seed):
    x, _ = pair(seed % 1000)
    found = measure(x, x.copy()).distance
    for value in found.values():
        assert value == pytest.approx(0, abs=1e-7)


def test_empty_directions_change_nothing():
    x, y = pair(6)
    flat = np.hstack((x, -x.sum(1, keepdims=True), np.full((len(x), 1), 2.0)))
    found, base = measure(flat, y), measure(x, y)
    assert found.ranks["x"] == 12
    assert found.widths["x"] == 14
    assert found.distance["cca"] == pytest.approx(base.distance["cca"], abs=1e-8)
    assert found.distance["pwcca_right"] == pytest.approx(base.distance["pwcca_right"], abs=1e-8)


def test_layer_norms_of_real_models_never_fail_it():
    model = tiny("bert")
    lens = Similarity()
    tokens = torch.randint(5, 50, (16, 20), generator=torch.Generator().manual_seed(0))
    for seen in capture(model, list(tokens.split(4)), sites=["embeddings", "layer.*.out"]):
        lens.observe(seen)
    found = lens.result()
    assert len(found.pairs) == 6
    assert set(found.ranks.values()) == {15}
    assert all(np.isfinite(values).all() for values in found.distance.values())
    assert found.matrix().shape == (4, 4)
    assert found.figure().data[0].type == "heatmap"
    assert len(found.table()) == 6 * 7


def test_similarity_refuses_few_samples_constants_and_unknown_names():
    x, y = pair(7)
    with pytest.raises(UserError, match="12 samples are too few for x, which has 12"):
        measure(x[:12], y[:12], parts=2)
    with pytest.raises(UserError, match="y is constant"):
        measure(x, np.full_like(y, 1e6))
    with pytest.raises(UserError, match="nothing was observed"):
        Similarity().result()
    with pytest.raises(UserError, match="nothing was captured at 'z'"):
        Similarity([("x", "z")]).observe(observed({"x": x, "y": y}))
    with pytest.raises(UserError, match="needs two sites"):
        Similarity().observe(observed({"x": x}))
    with pytest.raises(UserError, match="unknown measure"):
        measure(x, y).figure("pwca")


def test_few_samples_are_warned_about(caplog):
    x, y = pair(8, n=60)
    assert measure(x, y).per_dimension == 5
    assert "mostly bias" in caplog.text


def test_public_variants_are_the_definition_only_where_nothing_can_differ():
    x, y = pair(9, n=500, d=9, e=12, offset=0.0)
    x = x - x.mean(0)
    values, vectors = np.linalg.eigh(x.T @ x)
    white = x @ vectors / np.sqrt(values)
    # Left unwhitened is the same as whitened when the data are white.
    assert google_svcca(white, y) == pytest.approx(textbook(white, y), abs=1e-9)
    one = x[:, :1]
    assert anatome(one, y) == pytest.approx(textbook(one, y), abs=1e-9)
    x, y = pair(9, n=500, d=9, e=12, offset=3.0)
    for variant in (google_svcca, anatome):
        assert abs(variant(x, y) - textbook(x, y)) > 1e-3
        with pytest.raises(UserError, match="too few"):
            variant(x[:10], y[:10])
        with pytest.raises(UserError, match="constant"):
            variant(np.ones_like(x), y)
