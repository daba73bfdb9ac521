from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from built_heads import built, passages
from tiny_models import VOCAB, tiny

import mnemoscope as ms
from mnemoscope.activations.attention_inputs import capture_attention_inputs
from mnemoscope.activations.fixed_length import cut, lay
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.positions.fourier import only_band, spectra
from mnemoscope.lenses.positions.frequencies import (
    OCTAVES,
    band_names,
    band_shares,
    frequencies,
    peak,
    window_size,
)
from mnemoscope.lenses.positions.means import PositionMeans
from mnemoscope.lenses.positions.position_table import position_table
from mnemoscope.lenses.spectrum.lens import Spectrum
from mnemoscope.lenses.waves.bands import Band, Filter, effects, octaves, taken_off
from mnemoscope.lenses.waves.lens import Waves
from mnemoscope.lenses.waves.losses import loss_of
from mnemoscope.lenses.waves.propagation import NormSpread, Propagation, scaled_fit
from mnemoscope.lenses.waves.recovery import Recovery
from mnemoscope.open import open_reader


def wave(texts: int, length: int, period: float, noise: float) -> torch.Tensor:
    """(B, T, 6): a sine and a cosine in two columns, noise in all."""
    torch.manual_seed(0)
    angle = 2 * math.pi * torch.arange(length) / period
    found = noise * torch.randn(texts, length, 6)
    found[:, :, 1] += 2 * angle.sin()
    found[:, :, 4] += 2 * angle.cos()
    return found


def test_an_amplitude_shows_as_it_is_and_a_slope_not_at_all():
    place = torch.arange(64, dtype=torch.float64)[:, None]
    found = spectra(1.5 * (2 * math.pi * place / 8).sin() + 0.3 * place + 7, 64)[0, :, 0].abs()
    places = frequencies(64)
    assert float(found.max()) == pytest.approx(1.5, rel=0.02)
    assert places[int(found.argmax())] == 1 / 8
    assert spectra(0.3 * place + 7, 64).abs().max() < 1e-9


def test_a_wave_under_words_is_found_with_period_and_columns_and_words_are_flat():
    lens = Spectrum(window=60)
    for batch in wave(200, 90, 7.5, 3.0).split(20):
        lens.observe({"place": batch})
    found = lens.result()
    assert 1 / found.peak[0] == pytest.approx(7.5, rel=0.02)
    assert found.sharpness[0] > 5 > 3.5 > found.sharpness_null[0].max()
    assert found.words_sharpness[0] < 2
    assert set(np.argsort(-found.amplitude["place"].max(1))[:2].tolist()) == {1, 4}
    assert found.amplitude["place"].max() == pytest.approx(2, rel=0.2)
    assert found.bands[0, band_names().index("4–8")] > 0.8
    assert (1 / found.drift()[0]) == pytest.approx(7.5, rel=0.02)
    # Two columns of variance 2 among six of 9 and those.
    assert found.share[0] == pytest.approx(4 / (6 * 9 + 4), rel=0.1)
    assert found.table()[0]["site"] == "place"
    found.figure("place")
    found.heatmap("place")
    with pytest.raises(UserError, match="did you mean 'place'"):
        found.figure("plac")


def test_words_alone_are_no_wave_and_their_share_is_none():
    lens = Spectrum(window=60)
    for batch in wave(200, 90, 7.5, 3.0).split(20):
        lens.observe({"place": batch - wave(1, 90, 7.5, 0.0)})
    found = lens.result()
    assert abs(found.share[0]) < 0.005


def test_a_drifting_period_is_followed():
    torch.manual_seed(0)
    place = torch.arange(256, dtype=torch.float64)
    angle = 2 * math.pi * (0.08 * place + 0.0002 * place**2)
    signal = torch.stack((angle.sin(), angle.cos()), 1) + 0.1 * torch.randn(40, 256, 2)
    lens = Spectrum(window=64)
    lens.observe({"x": signal})
    found = lens.result()
    expected = 0.08 + 0.0004 * found.centres
    assert found.drift()[0] == pytest.approx(expected, abs=1 / 64)
    assert found.drift()[0, -1] > found.drift()[0, 0] + 0.04


def test_bands_part_the_power_and_a_filter_parts_the_signal():
    places = frequencies(64)
    assert band_shares(np.ones(len(places)), places).sum() == pytest.approx(1)
    alone = band_shares((places == 1 / 8).astype(float), places)
    assert alone.argmax() == OCTAVES.index(8)
    torch.manual_seed(0)
    signal = torch.randn(3, 50, 4, dtype=torch.float64)
    bands = octaves()
    parts = [only_band(signal, one.low, one.high) for one in bands]
    assert torch.allclose(torch.stack(parts[:-1]).sum(0), parts[-1])
    assert torch.allclose(parts[-1], signal - signal.mean(1, keepdim=True))
    assert torch.allclose(only_band(parts[1], bands[1].low, bands[1].high), parts[1])
    assert peak(np.zeros(4), places[:4])[1] == 1
    with pytest.raises(UserError, match=r"between 0 and 0.5"):
        Band("wrong", 0.3, 0.6)
    with pytest.raises(UserError, match="stop, pass"):
        taken_off({}, bands[0], "wide")  # type: ignore[arg-type]


def test_too_few_positions_for_the_frequencies_asked_are_refused():
    assert window_size(40, 64, None) == 40
    assert window_size(100, 64, 49) == 100
    with pytest.raises(UserError, match="ask for at most 19"):
        window_size(40, 64, 60)
    lens = Spectrum(frequencies=100)
    with pytest.raises(UserError, match=r"100 frequencies need windows of 202"):
        lens.observe({"x": torch.randn(4, 80, 3)})
    with pytest.raises(UserError, match="at least 1"):
        Spectrum(frequencies=0)
    with pytest.raises(UserError, match="nothing was observed"):
        Spectrum().result()


def test_halves_free_the_share_of_what_words_leave():
    torch.manual_seed(0)
    means = PositionMeans()
    for batch in torch.randn(40, 30, 8).split(7):
        means.add(batch)
    assert means.counts == [20, 20]
    assert abs(means.share()) < 0.02 < means.mean().var(0, correction=0).sum() / means.total()
    with pytest.raises(UserError, match="one length"):
        means.add(torch.randn(2, 31, 8))
    with pytest.raises(UserError, match="two texts"):
        PositionMeans().halves()


def test_a_band_that_a_head_lives_on_moves_its_attention_and_another_does_not():
    model = built([3], 2)  # a period of 14.9 tokens
    reader = open_reader(model)
    pieces = cut(reader, passages(32), 80)
    from mnemoscope.lenses.heads.lens import Heads

    lens = Heads(length=80, window=60)
    lens.observe(model, pieces.tokens)
    found = effects(reader, pieces, lens.means())
    moved = dict(zip(found.bands, found.moved["stop"][:, 0], strict=True))
    assert moved["8–16"] > 0.15 > 4 * moved["2–4"]
    assert moved["all"] == pytest.approx(moved["8–16"], rel=0.3)
    left = dict(zip(found.bands, found.moved["pass"][:, 0], strict=True))
    assert left["8–16"] < 0.5 * left["2–4"]
    assert left["all"] < 1e-12
    assert found.asked == "hidden tokens"
    assert found.change["pass"][-1] == pytest.approx(0, abs=1e-12)
    found.figure()
    assert len(found.table()) == 18


def test_a_filter_changes_what_the_model_computes_and_leaves_no_trace(theirs):
    tokens = torch.randint(5, VOCAB, (4, 32), generator=torch.Generator().manual_seed(1))
    reader = open_reader(theirs)
    from mnemoscope.lenses.heads.lens import Heads

    lens = Heads(length=32, window=16)
    lens.observe(theirs, tokens)
    off = taken_off(lens.means(), octaves()[-1])
    before = reader.read(tokens).last_hidden_state
    with (
        torch.no_grad(),
        capture_attention_inputs(theirs, lambda one: None, Filter(off, slice(1, 32))),
    ):
        during = reader.read(tokens).last_hidden_state
    assert not torch.equal(before, during)
    assert torch.equal(before, reader.read(tokens).last_hidden_state)


def test_no_word_reaches_an_earlier_position_through_a_filter():
    model = ms.build("transformer", vocab=VOCAB, width=16, layers=2, heads=2, positions="learned",
                     context=40).eval()  # fmt: skip
    tokens = torch.randint(VOCAB, (6, 40))
    reader = open_reader(model)
    from mnemoscope.lenses.heads.lens import Heads

    lens = Heads(length=40, window=30)
    lens.observe(model, tokens)
    other = tokens.clone()
    other[:, 30] = (other[:, 30] + 1) % VOCAB
    change = Filter(taken_off(lens.means(), octaves()[-1]), slice(1, 40))
    with torch.no_grad(), capture_attention_inputs(model, lambda one: None, change):
        a, b = reader.read(tokens).logits, reader.read(other).logits
    assert torch.equal(a[:, :30], b[:, :30])
    assert not torch.equal(a[:, 30:], b[:, 30:])


def test_losses_are_those_of_the_model(tokens):
    transformers = pytest.importorskip("transformers")
    base = tiny("gpt2")
    whole = transformers.GPT2LMHeadModel(base.config).eval()
    whole.transformer.load_state_dict(base.state_dict())
    with torch.no_grad():
        own = whole(tokens, labels=tokens).loss
        for model in (whole, base):  # the head is tied to the words: it can be had without
            loss = loss_of(open_reader(model), tokens)
            assert loss is not None
            assert loss.name == "next token"
            assert loss.of(tokens, slice(1, 9)).mean() == pytest.approx(float(own), rel=1e-5)
        follows = loss_of(open_reader(tiny("bert")), tokens)
        assert follows is not None
        assert follows.name == "which text follows"
        assert follows.of(tokens, slice(1, 9)).shape == (4,)
    assert (
        loss_of(open_reader(ms.build("encoder_decoder", vocab=9, source_vocab=9)), tokens) is None
    )


def test_a_table_scaled_by_rows_and_columns_is_recognised_and_a_shuffled_one_not():
    torch.manual_seed(0)
    table = torch.randn(50, 12, dtype=torch.float64)
    table = table - table.mean(0)
    rows, columns = torch.rand(50, 1) + 0.5, torch.randn(1, 12)
    fit, left, _ = scaled_fit(rows.double() * table * columns, table)
    assert fit == pytest.approx(1, abs=1e-8)
    assert (left[:, None] / rows).std() < 1e-6 * (left[:, None] / rows).mean().abs()
    lens = Propagation(table)
    noise = torch.randn(60, 50, 12)
    lens.observe({"below": (rows * table * columns + noise).float(), "above": noise})
    found = lens.result()
    assert found.fit[0] > 0.9 > 0.5 > found.shuffled[0]
    assert found.fit[0] > found.line[0] + 0.5
    assert found.fit[1] < 0.5
    assert found.energy[0] > 0.3 > 0.02 > abs(found.energy[1])
    found.figure()
    with pytest.raises(UserError, match="nothing to follow"):
        Propagation(None)
    with pytest.raises(UserError, match="the position embeddings"):
        lens.observe({"x": torch.randn(2, 49, 12)})


def test_position_tables_of_all_kinds():
    for kind in ("learned", "sinusoidal", "rotary", "none"):
        model = ms.build("encoder", vocab=9, width=8, heads=2, positions=kind, context=20)
        table = position_table(model, 12)
        assert (table is None) == (kind in ("rotary", "none"))
        if table is not None:
            tokens = torch.zeros(1, 12, dtype=torch.long)
            (seen,) = (lay(open_reader(model), tokens, slice(0, 12), "embeddings"),)
            words = model.embedding.weight[0] * (8**0.5 if kind == "sinusoidal" else 1)
            torch.testing.assert_close(seen["embeddings"][0], table + words)
    learned = position_table(tiny("gpt2"), 9)
    assert learned is not None
    assert torch.equal(learned, tiny("gpt2").wpe.weight[:9])
    assert position_table(tiny("bert"), 9).shape == (9, 16)
    assert position_table(tiny("llama"), 9) is None
    assert position_table(tiny("t5"), 9) is None


def test_norms_that_divide_all_alike_do_not_vary():
    model = torch.nn.Sequential(torch.nn.LayerNorm(8, elementwise_affine=False))
    lens = NormSpread()
    alike = torch.nn.functional.layer_norm(torch.randn(4, 10, 8), (8,))
    with lens.watching(model, slice(0, 10)):
        model(alike)
    assert lens.result()["0"] < 1e-3
    other = NormSpread()
    with other.watching(model, slice(0, 10)):
        model(alike * torch.tensor([1.0, 3.0] * 5)[:, None])
    assert other.result()["0"] == pytest.approx(0.5, abs=1e-2)
    assert not model[0]._forward_pre_hooks


def test_directions_that_hold_positions_are_told_from_those_that_do_not():
    lens = Recovery(directions=3, best=2, samples=1000)
    for batch in wave(60, 60, 7.5, 1.0).split(10):
        lens.observe({"x": batch})
    unit = torch.eye(6)
    found = lens.result({"waves": {"x": unit[:, [1, 4]]}, "words": {"x": unit[:, [0, 2]]}})
    assert found.value["waves"][0] == pytest.approx(2 / 3, abs=0.05)
    assert abs(found.value["words"][0]) < 0.05
    assert found.value["PCA"][0] == pytest.approx(2 / 3, abs=0.08)
    assert found.value["discriminant, told the positions"][0] == pytest.approx(2 / 3, abs=0.08)
    assert abs(found.null) < 0.05
    found.figure()
    assert len(found.table()) == 5
    with pytest.raises(UserError, match="between 1 and 3"):
        Recovery(directions=3, best=4)


def test_texts_are_cut_to_one_length_with_what_stands_around_them():
    reader = open_reader(tiny("gpt2"))
    pieces = cut(reader, [[7] * 50, [8] * 53], 25, texts=2)
    assert pieces.tokens.shape == (2, 25)
    assert pieces.kept == slice(1, 25)
    with pytest.raises(UserError, match="too few for one text"):
        cut(reader, [[7] * 10], 30)
    with pytest.raises(UserError, match="positions are too few"):
        cut(reader, [[7] * 100], 12)
    with pytest.raises(UserError, match="end at 32"):
        cut(reader, [[7] * 100], 40)
    with pytest.raises(UserError, match="no text"):
        cut(reader, [], 30)
    with pytest.raises(UserError, match="one length"):
        cut(reader, [torch.zeros(1, 20, dtype=torch.long), torch.zeros(1, 21, dtype=torch.long)])
    with pytest.raises(UserError, match="without a vocabulary"):
        cut(reader, ["a text"])


def test_broken_models_are_told():
    model = tiny("gpt2")
    with torch.no_grad():
        model.h[1].mlp.c_proj.weight[0, 0] = float("nan")
    lens = Waves(length=32, window=16)
    with pytest.raises(UserError, match="NaN"):
        lens.observe(model, torch.randint(5, VOCAB, (4, 32)))


def test_all_lenses_in_one_reading_on_every_family(theirs):
    torch.manual_seed(0)
    lens = Waves(length=32, texts=12, window=16, filtered=4, paper=1)
    lens.observe(theirs, torch.randint(5, VOCAB, (12, 32)))
    found = lens.result()
    absolute = theirs.config.model_type in ("gpt2", "bert")
    assert (found.propagation is not None) == absolute
    assert found.spectrum.sites[0] == "embeddings"
    assert len(found.spectrum.sites) == 1 + 3 * 3
    assert found.heads.relative.shape[0] == 3
    assert (found.heads.rotary is None) == (theirs.config.model_type not in ("gpt_neox", "llama"))
    assert found.norms
