from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

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
from mnemoscope.lenses.waves.bands import Band, Filter, effects, matched, octaves, taken_off
from mnemoscope.lenses.waves.lens import Waves
from mnemoscope.lenses.waves.losses import loss_of
from mnemoscope.lenses.waves.propagation import (
    Norms,
    Propagation,
    residual_norms,
    scaled_fit,
)
from mnemoscope.lenses.waves.recovery import Recovery
from mnemoscope.lenses.waves.shifts import shifted
from mnemoscope.open import open_model, open_reader


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


@pytest.mark.parametrize("positions", [64, 33, 30])
def test_the_fastest_wave_shows_its_amplitude_as_slower_ones_do(positions: int):
    size = window_size(positions, 64, None)
    place = torch.arange(size, dtype=torch.float64)[:, None]
    found = spectra(1.5 * (math.pi * place).cos(), size)[0, :, 0].abs()
    assert frequencies(size)[-1] == 1 / 2
    assert float(found[-1]) == pytest.approx(1.5, rel=0.001)
    assert float(found.max()) == pytest.approx(1.5, rel=0.06)


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
    found = effects(reader, pieces, lens.means(), lens.variances())
    moved = dict(zip(found.bands, found.moved["stop"][:, 0], strict=True))
    assert moved["8–16"] > 0.15 > 4 * moved["2–4"]
    assert moved["all"] == pytest.approx(moved["8–16"], rel=0.3)
    left = dict(zip(found.bands, found.moved["pass"][:, 0], strict=True))
    assert left["8–16"] < 0.5 * left["2–4"]
    assert left["all"] < 1e-12
    assert found.asked == "hidden tokens"
    assert found.change["pass"][-1] == pytest.approx(0, abs=1e-12)
    assert found.loss > found.entropy - 1  # its weights are made by hand: it has learnt nothing
    found.figure()
    assert len(found.table()) == 18


def test_the_control_leaves_the_band_and_takes_as_much_energy_off_the_rest(theirs):
    from mnemoscope.lenses.heads.lens import Heads

    tokens = torch.randint(5, VOCAB, (16, 32), generator=torch.Generator().manual_seed(1))
    lens = Heads(length=32, window=16)
    lens.observe(theirs, tokens)
    means, variances = lens.means(), lens.variances()
    band = octaves()[1]
    stop = Filter(taken_off(means, band), slice(1, 32))
    control = Filter(taken_off(means, band, "elsewhere", variances), slice(1, 32))
    after: dict[tuple[int, str, str], torch.Tensor] = {}
    for name, change in (("stop", stop), ("control", control)):

        def tried(layer, kind, value, name=name, change=change):
            after[layer, kind, name] = value - change(layer, kind, value)
            return value  # so that both see the same inputs in every layer

        with torch.no_grad(), capture_attention_inputs(theirs, lambda one: None, tried):
            open_reader(theirs).read(tokens)
    assert matched(means, variances, band) == pytest.approx(1)
    for layer, (queries, keys) in means.items():
        for kind, mean in (("q", queries), ("k", keys)):
            taken, other = (after[layer, kind, name][:, :, 1:] for name in ("stop", "control"))
            share = len(mean) // taken.shape[1]
            energy = only_band(mean, band.low, band.high)[::share].square().sum((1, 2))
            assert torch.allclose(other.double().square().sum((2, 3)).mean(0), energy, rtol=1e-3)
            # Of the mean, nothing in the band is taken off.
            inside = only_band(other.double().mean(0), band.low, band.high)
            assert inside.square().sum() < 1e-6 * energy.sum()
    with pytest.raises(UserError, match="variances"):
        taken_off(means, band, "elsewhere")


def test_a_shift_of_the_wave_moves_attention_as_far_and_not_that_of_a_head_on_words():
    from mnemoscope.lenses.heads.lens import Heads

    model = built([1, 2, 3], 2, sharpness=8.0)
    lens = Heads(length=80, window=60)
    lens.observe(model, passages(16))
    found = shifted(open_reader(model), lens.fixed, lens.means(), shifts=(1, 3))
    assert found.moved[:, 0, 0] == pytest.approx(1, abs=0.1)
    assert found.stayed[:, 0, 0] == pytest.approx(0, abs=0.1)
    # What words decide stays.
    assert (found.moved[:, 0, 1] < 0.3).all()
    assert (found.stayed[:, 0, 1] > 0.6).all()


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
            loss = loss_of(open_reader(model))
            assert loss is not None
            assert loss.name == "next token"
            assert loss.of(tokens, slice(1, 9)).mean() == pytest.approx(float(own), rel=1e-5)
    # A bare encoder says nothing that could be right or wrong.
    assert loss_of(open_reader(tiny("bert"))) is None
    assert loss_of(open_reader(ms.build("encoder_decoder", vocab=9, source_vocab=9))) is None


class Hiding:
    """All that is asked of a tokenizer: what hides a token."""

    mask_token_id = 3


def test_a_masked_model_is_asked_for_hidden_tokens_by_its_own_head(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(tiny("bert").config).eval()
    with torch.no_grad():
        model.cls.predictions.bias.normal_(std=3)  # whoever reads without the head misses it
    model.save_pretrained(tmp_path)
    tokens = torch.randint(5, VOCAB, (6, 20))
    bare = replace(open_model(str(tmp_path), head=False), tokenizer=Hiding())
    assert type(bare.model).__name__ == "BertModel"
    loss, own = loss_of(bare), loss_of(replace(open_reader(model), tokenizer=Hiding()))
    assert loss is not None
    assert own is not None
    assert loss.name == own.name == "hidden tokens"
    with torch.no_grad():
        nats = loss.of(tokens, slice(1, 20))
        assert nats == pytest.approx(own.of(tokens, slice(1, 20)), rel=1e-5)
        # A head that always says one token is right where that one is hidden.
        model.cls.predictions.bias.fill_(-1e4)[7] = 1e4
        assert own.of(torch.full((2, 20), 7), slice(1, 20)).max() < 1e-3
    assert loss_of(open_reader(model)) is None  # nobody knows what hides a token


def test_a_model_without_a_head_is_shown_by_what_its_last_layer_gives():
    from mnemoscope.lenses.heads.lens import Heads

    model, tokens = tiny("bert"), torch.randint(5, VOCAB, (8, 32))
    lens = Heads(length=32, window=16)
    lens.observe(model, tokens)
    found = effects(open_reader(model), lens.fixed, lens.means(), lens.variances())
    assert found.asked == ""
    assert np.isnan(found.loss)
    assert found.change["pass"][-1] == 0
    assert found.change["stop"][-1] > found.change["stop"][:-1].max() > 0


def test_an_exact_s_p_l_is_recognised_whatever_the_mean_of_p():
    torch.manual_seed(0)
    for offset in (0.0, 3.0):
        table = offset + torch.randn(50, 12, dtype=torch.float64)
        rows, columns = torch.rand(50, 1).double() + 0.5, torch.randn(1, 12).double()
        fit, left, _ = scaled_fit(rows * table * columns, table)
        assert fit == pytest.approx(1, abs=1e-4)
        if not offset:
            assert (left[:, None] / rows).std() < 0.02 * (left[:, None] / rows).mean().abs()


def test_a_table_scaled_by_rows_and_columns_is_told_from_a_shuffled_one():
    torch.manual_seed(0)
    table = torch.randn(50, 12, dtype=torch.float64)
    rows, columns = torch.rand(50, 1) + 0.5, torch.randn(1, 12)
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


def watched(vectors: torch.Tensor, norm: torch.nn.Module, **how: Any) -> Norms:
    found = Norms(**how)
    model = torch.nn.Sequential(norm)
    for batch in vectors.split(4):
        with found.watching(model, slice(0, vectors.shape[1])):
            model(batch)
    assert not model[0]._forward_hooks
    return found


def test_norms_that_divide_all_alike_do_not_vary():
    norm = torch.nn.LayerNorm(8, elementwise_affine=False)
    alike = torch.nn.functional.layer_norm(torch.randn(4, 10, 8), (8,))
    assert watched(alike, norm).result()[0].spread < 1e-3
    other = watched(alike * torch.tensor([1.0, 3.0] * 5)[:, None], norm).result()
    assert other[0].spread == pytest.approx(0.5, abs=1e-2)


def test_what_a_norm_does_to_positions_is_told_by_its_own_s_and_gain():
    torch.manual_seed(0)
    table = wave(1, 48, 7.5, 0.0)[0].repeat(1, 6)  # (48, 36)
    norm = torch.nn.LayerNorm(36)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    words = 2 * torch.randn(400, 48, 36)
    with torch.no_grad():
        even = watched(table + words, norm, path={"top": ("0",)}, width=36)
        # The second half of every text is louder: S is large on one side, small on the other.
        loud = torch.cat((torch.ones(24), torch.full((24,), 5.0)))[:, None]
        torn = watched(table + loud * words, norm, path={"top": ("0",)}, width=36)
    plain, broken = even.result(table)[0], torn.result(table)[0]
    assert plain.on_path
    assert plain.measured > 0.95
    assert plain.constant > 0.95
    assert plain.whole > 0.95
    assert broken.measured > broken.constant + 0.1
    assert broken.whole == pytest.approx((1 + 1 / 5) ** 2 / (2 * (1 + 1 / 25)), abs=0.05)
    # Carried through the norm with nothing fitted, P is what is there; half of it is, if half is
    # taken off before.
    for left in (1.0, 0.5):
        with torch.no_grad():
            seen = watched(left * table + words, norm, path={"top": ("0",)}, width=36)
            lens = Propagation(table, seen)
            lens.observe({"top": norm(left * table + words)})
        found = lens.result()
        assert found.kept[0] == pytest.approx(left, abs=0.05)
        assert found.whole[0] > 0.95
        assert found.norms[0] == pytest.approx(1 if left == 1 else 0, abs=0.1)


def test_norms_on_the_way_are_told_from_those_beside_it():
    tokens = torch.zeros(1, 9, dtype=torch.long)
    post = residual_norms(open_reader(tiny("bert")), tokens)
    assert [len(norms) for norms in post.values()] == [1, 3, 5, 7]
    assert post["embeddings"] == ("embeddings.LayerNorm",)
    pre = residual_norms(open_reader(tiny("gpt2")), tokens)
    assert set(pre.values()) == {()}
    for norm, count in (("pre", 0), ("post", 4)):
        model = ms.build("encoder", vocab=9, width=8, heads=2, layers=2, norm=norm)
        assert len(residual_norms(open_reader(model), tokens)["layer.1.out"]) == count


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
    with pytest.raises(UserError, match="has no vocabulary"):
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
    assert len(found.columns) == 4
    assert found.shift is not None
    assert found.shift.moved.shape == (3, *found.heads.relative.shape)
