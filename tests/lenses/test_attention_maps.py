from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.attention_maps.lens import AttentionMaps
from mnemoscope.memories.sparse.patterns import Pattern
from mnemoscope.models.model import SequenceModel


def small(pattern: str = "strided,fixed") -> SequenceModel:
    torch.manual_seed(0)
    options: dict[str, Any] = {"width": 16, "layers": 2, "heads": 2, "stride": 4, "summaries": 1}
    return ms.build("sparse", vocab=9, pattern=pattern, **options)


def test_weights_are_means_over_rows_and_heads_however_they_come() -> None:
    model, tokens = small(), torch.randint(9, (6, 14))
    whole, parts = AttentionMaps(), AttentionMaps()
    whole.observe(model, tokens)
    for part in tokens.split([1, 3, 2]):
        parts.observe(model, part)
    one, two = whole.result(), parts.result()
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-7)
    np.testing.assert_allclose(one.distances, two.distances, atol=1e-6)
    np.testing.assert_allclose(one.weights.sum(2), 1, atol=1e-6)
    assert one.patterns == ("strided", "fixed")
    assert np.array_equal(one.weights[0] > 0, Pattern.parse("strided", 4).mask(14))


def test_even_looks_have_the_distance_of_an_even_look() -> None:
    model = small("local|dense")
    with torch.no_grad():
        for layer in model.layers:
            for weight in layer.attention.qkv.parameters():
                weight.zero_()  # all scores are equal
    lens = AttentionMaps()
    lens.observe(model, torch.randint(9, (3, 11)))
    found = lens.result()
    np.testing.assert_allclose(found.distances, np.broadcast_to(found.even, (3, 2)), rtol=1e-5)
    rows = found.table()
    assert [row["layer"] for row in rows] == [1, 2]
    assert rows[0]["distance"] == pytest.approx(rows[0]["even"], rel=1e-5)


def test_an_image_is_seen_from_a_pixel() -> None:
    lens = AttentionMaps()
    lens.observe(small("dense"), torch.randint(9, (2, 12)))
    found = lens.result()
    seen = found.seen_from(5, (3, 4))  # token 5 has read the pixels 0 to 4
    assert seen.shape == (2, 3, 4)
    assert np.isfinite(seen).sum() == 2 * 5
    np.testing.assert_array_equal(seen.reshape(2, 12)[:, :5], found.weights[:, 5, 1:6])
    assert len(found.figure().layout.sliders[0].steps) == 2


def test_attention_maps_refuse_other_models_lengths_and_sizes() -> None:
    with pytest.raises(UserError, match="nothing was observed yet"):
        AttentionMaps().result()
    with pytest.raises(UserError, match=r"those of a sparse model.*gru memory"):
        AttentionMaps().observe(ms.build("gru", vocab=9), torch.zeros(1, 4, dtype=torch.long))
    lens = AttentionMaps()
    lens.observe(small(), torch.zeros(1, 8, dtype=torch.long))
    with pytest.raises(UserError, match="one lens per length"):
        lens.observe(small(), torch.zeros(1, 9, dtype=torch.long))
    with pytest.raises(UserError, match="too many to draw"):
        lens.observe(small(), torch.zeros(1, 5000, dtype=torch.long))
