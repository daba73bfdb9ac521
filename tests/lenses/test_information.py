from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from mnemoscope.activations.capture import Observed, capture
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.information.entropy import entropy, mutual
from mnemoscope.lenses.information.lens import Information
from mnemoscope.lenses.information.result import InformationResult
from mnemoscope.lenses.statistics.clusters import cluster
from mnemoscope.lenses.statistics.sample import Sample


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
