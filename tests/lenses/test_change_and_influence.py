from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import VOCAB, tiny

import mnemoscope as ms
from mnemoscope.activations.capture import Observed, capture
from mnemoscope.activations.hooks import watch
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.change.grouping import Quota
from mnemoscope.lenses.change.lens import Change
from mnemoscope.lenses.influence.lens import Influence, Visible, record, rerun
from mnemoscope.lenses.neighbours.lens import Neighbours, _others
from mnemoscope.lenses.occurrences.lens import Occurrences
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import by_frequency, by_tags, counted, everything
from mnemoscope.open import open_reader

SITES = ["embeddings", "layer.*.out"]


def observed(tokens: np.ndarray, **sites: np.ndarray) -> Observed:
    place = np.arange(len(tokens))
    values = {name: torch.from_numpy(value).float() for name, value in sites.items()}
    return Observed(tokens, place % 7, place // 7, np.roll(tokens, 1), tokens, tokens, values)


def zipf(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, VOCAB - 4)
    drawn = rng.choice(VOCAB - 5, size=(rows, length), p=shares / shares.sum())
    return torch.from_numpy(drawn + 5)


def test_groups_of_ranks_and_of_tags():
    tokens = np.repeat([7, 3, 9, 1], [10, 8, 5, 1])
    groups = by_frequency(tokens, edges=(1, 3, 100))
    assert groups.names == ("rank 1–1", "rank 2–3", "rank 4–4")
    assert groups.counts.tolist() == [10, 13, 1]
    where = np.zeros(5, dtype=np.int64)
    assert groups.of(np.array([7, 3, 9, 1, 55]), where, where).tolist() == [0, 1, 1, 2, -1]
    assert by_frequency(tokens, edges=(1, 2)).of(np.array([9]), where[:1], where[:1]) == [-1]
    tags = by_tags([["N", "V"], ["", "N"]])
    assert tags.names == ("N", "V")
    assert tags.counts.tolist() == [2, 1]
    rows, places = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert tags.of(rows, places, rows).tolist() == [0, 1, -1, 0]
    with pytest.raises(UserError, match="fewer tags than tokens"):
        tags.of(rows, places + 1, rows)
    with pytest.raises(UserError, match="increasing"):
        by_frequency(tokens, edges=(5, 2))
    assert sorted(counted(tiny("gpt2"), [[5, 6], [7]]).tolist()) == [5, 6, 7]


def test_change_is_seen_where_it_is_and_in_the_group_where_it_is():
    rng = np.random.default_rng(0)
    tokens = rng.permutation(np.repeat([0, 1], [3000, 1500]))
    first = rng.normal(size=(4500, 5))
    second = first @ rng.normal(size=(5, 5))  # a linear map changes nothing
    noise = rng.normal(size=(4500, 5)) * (tokens == 0)[:, None]
    third = second + noise
    lens = Change(by_frequency(tokens, edges=(1, 2)), samples=1000)
    for part in np.array_split(np.arange(4500), 9):
        lens.observe(observed(tokens[part], a=first[part], b=second[part], c=third[part]))
    found = lens.result()
    assert found.steps == ("b", "c")
    assert found.samples == 1000
    assert found.distance[:, 0] == pytest.approx(0, abs=1e-6)
    assert found.distance[1, 1] == pytest.approx(0, abs=1e-6)
    assert found.distance[0, 1] > 0.05
    assert (found.error >= 0).all()
    assert (found.null > 0.8).all()
    assert len(found.table()) == 4
    assert {trace.name for trace in found.figure().data if trace.name} == set(found.groups)


def test_groups_with_too_few_tokens_are_left_out_and_said():
    rng = np.random.default_rng(1)
    tokens = np.repeat([0, 1], [500, 20])
    values = rng.normal(size=(520, 3))
    lens = Change(by_frequency(tokens, edges=(1, 2)), samples=300)
    lens.observe(observed(tokens, a=values, b=values))
    assert lens.result().left_out == {"rank 2–2": 20}
    poor = Change(by_frequency(tokens, edges=(1, 2)), samples=3000)
    poor.observe(observed(tokens, a=values, b=values))
    with pytest.raises(UserError, match=r"no group has 3000 tokens \(rank 1–1: 500"):
        poor.result()


def test_a_layer_run_again_gives_what_it_gave_bit_for_bit(theirs, tokens):
    reader = open_reader(theirs)
    nothing = torch.zeros(tokens.shape, dtype=torch.bool)
    with torch.no_grad():
        with watch(theirs, "layer.*.out") as seen:
            calls = record(reader, tokens)
        for name, call in calls.items():
            torch.testing.assert_close(rerun(reader, name, call, nothing), seen[f"{name}.out"])


def test_hiding_a_token_is_what_a_mask_of_the_whole_model_does():
    """In layer 0 of BERT everybody but the hidden token sees what padding would leave."""
    model, reader = tiny("bert"), open_reader(tiny("bert"))
    tokens = torch.randint(5, VOCAB, (2, 8), generator=torch.Generator().manual_seed(0))
    hidden = torch.zeros(2, 8, dtype=torch.bool)
    hidden[0, 3] = hidden[1, 6] = True
    with torch.no_grad():
        calls = record(reader, tokens)
        ours = rerun(reader, "layer.0", calls["layer.0"], hidden)
        with watch(model, "layer.0.out") as seen:
            model(tokens, attention_mask=(~hidden).long())
    torch.testing.assert_close(ours[~hidden], seen["layer.0.out"][~hidden])


@pytest.mark.parametrize("memory", ["transformer", "lstm", "encoder"])
def test_our_layers_hide_a_token_from_those_who_could_see_it(memory):
    torch.manual_seed(0)
    reader = open_reader(ms.build(memory, vocab=VOCAB, width=8, layers=2))
    tokens = zipf(2, 9)
    hidden = torch.zeros(2, 9, dtype=torch.bool)
    hidden[0, 4] = True
    with torch.no_grad():
        call = record(reader, tokens)["layer.1"]
        plain = rerun(reader, "layer.1", call, torch.zeros_like(hidden))
        moved = (rerun(reader, "layer.1", call, hidden) - plain).abs().amax(-1)
    assert (moved[1] == 0).all()
    assert (moved[0, 5:] > 0).all()
    assert bool((moved[0, :4] > 0).all()) == (memory == "encoder")


def test_influence_of_a_layer_without_values_is_nothing_and_else_something():
    torch.manual_seed(0)
    model = ms.build("encoder", vocab=VOCAB, width=16, layers=2, heads=2)
    with torch.no_grad():
        model.layers[1].attention.out.weight.zero_()
    texts = zipf(120, 8)
    groups = by_frequency(texts.numpy(), edges=(3, 60))
    lens = Influence(groups, samples=400)
    lens.observe(model, list(texts.split(30)))
    found = lens.result()
    assert found.steps == ("layer.0", "layer.1")
    assert found.distance[:, 1] == pytest.approx(0, abs=1e-9)
    assert (found.distance[:, 0] > 1e-5).all()
    assert found.what == "influence"
    assert len(found.table()) == 4


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        (lambda: tiny("gpt2"), lambda to, at: to > at),
        (lambda: tiny("bert"), lambda to, at: to != at),
        (lambda: ms.build("encoder", vocab=VOCAB, width=8), lambda to, at: to != at),
        (lambda: ms.build("gru", vocab=VOCAB, width=8), lambda to, at: to > at),
        (
            lambda: ms.build("sparse", vocab=VOCAB, width=8, pattern="local", stride=2),
            lambda to, at: (to > at) & (to < at + 2),
        ),
    ],
)
def test_only_who_can_see_a_token_is_asked_about_it(model, sees):
    torch.manual_seed(0)
    reader, tokens = open_reader(model()), zipf(9, 9)
    hidden = np.eye(9, dtype=bool)
    with torch.no_grad():
        calls = {"layer.0": record(reader, tokens)["layer.0"]}
        found = Visible()(reader, calls, hidden) & ~hidden
    at, to = np.indices((9, 9))
    assert (found == sees(to, at)).all()


def test_tokens_before_the_hidden_one_do_not_water_down_influence():
    """Of a causal model the influence is that on the tokens after, each of which has changed."""
    model, texts = tiny("gpt2"), zipf(200, 8)
    compared: list[torch.Tensor] = []

    class Kept(Similarity):
        def observe(self, seen: Observed) -> None:
            plain, hidden = seen.sites["layer.0 plain"], seen.sites["layer.0 hidden"]
            compared.append((plain != hidden).any(1))
            super().observe(seen)

    lens = Influence(everything(1600), samples=400, sites=("layer.0.out",))
    lens._lenses = [Kept([("layer.0 plain", "layer.0 hidden")])]
    lens.observe(model, list(texts.split(20)))
    changed = torch.cat(compared)
    assert len(changed) == 400
    assert changed.all()
    # Every batch gives about the same.
    assert min(map(len, compared)) >= 20
    assert lens.result().samples == 400


def test_samples_are_spread_over_the_whole_stream():
    rng = np.random.default_rng(0)
    tokens = rng.permutation(np.repeat([0, 1], [4000, 2000]))
    groups = by_frequency(tokens, edges=(1, 2))
    quota, taken = Quota(groups, 500), []
    for at, part in enumerate(np.array_split(np.arange(6000), 300)):
        chosen = quota.take(0, part[tokens[part] == 0])
        taken += [at] * len(chosen)
    assert quota.full(0)
    by_tenth = np.bincount(np.array(taken) // 30, minlength=10)
    assert by_tenth.sum() == 500
    assert by_tenth.min() >= 25


def test_influence_needs_enough_text():
    lens = Influence(everything(10), samples=400)
    lens.observe(tiny("gpt2"), zipf(2, 8))
    with pytest.raises(UserError, match="no group has 400 tokens"):
        lens.result()


def test_neighbours_find_what_a_space_keeps():
    rng = np.random.default_rng(0)
    tokens = rng.integers(6, size=1200)
    seen = observed(
        tokens,
        token=10 * np.eye(6)[tokens] + rng.normal(size=(1200, 6)) * 0.1,
        position=(np.arange(1200) % 7)[:, None] * np.ones((1, 3))
        + 0.01 * rng.normal(size=(1200, 3)),
        nothing=rng.normal(size=(1200, 6)),
    )
    lens = Neighbours(10)
    lens.observe(seen)
    found = lens.result()
    token, position = found.value["token"], found.value["position"]
    assert found.ceiling == 1
    assert token[0] == pytest.approx(1)
    assert token[2] == pytest.approx(found.null["token"], abs=0.02)
    assert position[1] == pytest.approx(0, abs=0.01)
    assert position[2] == pytest.approx(found.null["position"], abs=0.1)
    # The token to the right is, in this made-up stream, the token itself.
    assert found.value["right"] == pytest.approx(1)
    assert len(found.table()) == 3 * len(found.value) == 15
    assert found.figure("left").layout.yaxis.title.text.startswith("share")
    with pytest.raises(UserError, match="need more"):
        Neighbours(10).result()


def test_neighbours_at_random_are_never_the_token_itself():
    """Three occurrences at positions 0, 1 and 2: two others are at most 2 and at least 1 away."""
    drawn = _others(np.random.default_rng(0), 3, 1000)
    assert not (drawn == np.arange(3)[:, None]).any()
    assert {*drawn.ravel().tolist()} == {0, 1, 2}
    tokens = np.repeat(np.arange(30), 3)
    seen = replace(observed(tokens, space=np.zeros((90, 2))), positions=np.tile([0, 1, 2], 30))
    seen.sites["space"].normal_(generator=torch.Generator().manual_seed(0))
    lens = Neighbours(2)
    lens.observe(seen)
    # Of two others, all are near: no null but this one is possible.
    assert lens.result().null["position"] == pytest.approx(4 / 3, abs=0.1)


def test_occurrences_are_drawn_by_layer_with_a_slider():
    model, texts = tiny("llama"), zipf(40, 8)
    lens = Occurrences({5: "the", 6: "<of>"}, samples=100)
    for seen in capture(model, list(texts.split(10)), sites=SITES):
        lens.observe(seen)
    found = lens.result()
    assert found.coordinates.shape == (4, len(found.words), 2)
    figure = found.figure()
    assert [step.label.split(" ")[0] for step in figure.layout.sliders[0].steps] == [
        "embeddings",
        "layer.0.out",
        "layer.1.out",
        "layer.2.out",
    ]
    assert "&lt;of&gt;" in {trace.name for trace in figure.data}
    assert len(found.table()) == 4 * len(found.words)
    with pytest.raises(UserError, match="'rare' occurred 0 times"):
        Occurrences({4: "rare"}).result()
