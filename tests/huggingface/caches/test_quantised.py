"""Packed numbers: round trips, errors within half a step, bytes as counted by hand."""

from __future__ import annotations

import pytest
import torch
from cached_models import causal, some_tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.caches.config import Quantised
from mnemoscope.huggingface.caches.packing import dequantise, pack, quantise, unpack
from mnemoscope.huggingface.caches.quantised import QuantisedLayer
from mnemoscope.open import open_stream

BITS = st.sampled_from((2, 4, 8))


@given(BITS, st.integers(0, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_packing_is_undone_by_unpacking(bits: int, count: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(2**bits, (2, 3, 8 * count), generator=generator, dtype=torch.uint8)
    packed = pack(codes, bits)
    assert packed.dtype == torch.uint8
    assert packed.shape == (2, 3, count * bits)
    assert torch.equal(unpack(packed, bits), codes)


@given(BITS, st.sampled_from((8, 16)), st.floats(-50, 50), st.floats(1e-3, 50), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_numbers_come_back_within_half_a_step(
    bits: int, group: int, middle: float, spread: float, seed: int
):
    generator = torch.Generator().manual_seed(seed)
    values = middle + spread * torch.randn(3, 4 * group, generator=generator)
    packed = quantise(values, bits, group)
    found = dequantise(packed, bits, group, torch.float32)
    step = packed.scale.float().repeat_interleave(group, -1)
    # Scale and zero are rounded to 11 bits, which shifts the ends of a group.
    rounding = 2.0**-10 * (values.abs().max() + step * 2**bits)
    assert bool(((found - values).abs() <= step / 2 + rounding).all())


def test_a_group_of_one_number_is_that_number():
    same = torch.full((1, 8), 0.5)
    assert torch.equal(dequantise(quantise(same, 2, 8), 2, 8, torch.float32), same)
    with pytest.raises(UserError, match="too large for 16 bits"):
        quantise(torch.full((1, 8), 1e6), 4, 8)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_layer_rounds_every_token_once_whatever_the_segments(bits: int):
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, 2, 3, 41, 16, generator=generator)
    whole, parted = QuantisedLayer(Quantised(bits=bits, group=8)), None
    whole.update(keys, values)
    parted = QuantisedLayer(Quantised(bits=bits, group=8))
    begin = 0
    for length in (3, 1, 17, 8, 12):
        new = slice(begin, begin + length)
        parted.update(keys[:, :, new], values[:, :, new])
        begin += length
    assert {n: t.tolist() for n, t in whole.held.items()} == {
        n: t.tolist() for n, t in parted.held.items()
    }
    # By hand: 40 tokens packed in groups of 8, one as it is.
    plain = dequantise(
        quantise(keys[:, :, :40].transpose(2, 3), bits, 8), bits, 8, torch.float32
    ).transpose(2, 3)
    after, _ = whole.update(keys[:, :, :1], values[:, :, :1])
    torch.testing.assert_close(after, torch.cat([plain, keys[:, :, 40:], keys[:, :, :1]], 2))


@pytest.mark.parametrize(("bits", "each"), [(8, 1.0), (4, 0.5), (2, 0.25)])
def test_bytes_are_those_of_packed_numbers_scales_and_the_rest(bits: int, each: float):
    """Two layers, two key-value heads of width 8; 16 of 19 tokens are packed in groups of 8."""
    stream = open_stream(causal("llama"), cache="quantised", bits=bits, group=8)
    state = stream.read(some_tokens(1, 19)).state
    numbers = 2 * 2 * 2 * 8  # keys and values of one token
    packed = 16 * numbers * each + 16 * numbers / 8 * (2 + 2)
    assert state.nbytes == packed + 3 * numbers * 4 + 8  # and the count of tokens


def test_more_bits_are_nearer_to_the_full_cache():
    model, tokens = causal("llama"), some_tokens(4, 40)
    full = open_stream(model, cache="full").read(tokens, segment=10).logits
    errors = [
        float((stream.read(tokens, segment=10).logits - full).abs().mean())
        for bits in (8, 4, 2)
        for stream in [open_stream(model, cache="quantised", bits=bits, group=8)]
    ]
    assert 0 < errors[0] < errors[1] / 4 < errors[2] / 8
