from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.activations.capture import capture
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.gates.lens import Gates


def test_capture_sees_what_the_module_returned_and_leaves_nothing_behind() -> None:
    model = ms.build("transformer", vocab=7, width=16, layers=2)
    tokens = torch.randint(7, (2, 5))
    before = model(tokens).logits
    with capture(model, "layers.*.norm2") as seen:
        during = model(tokens).logits
    assert sorted(seen) == ["layers.0.norm2", "layers.1.norm2"]
    assert seen["layers.0.norm2"].shape == (2, 5, 16)
    assert torch.equal(before, during)
    assert not any(module._forward_hooks for module in model.modules())


def test_capture_takes_its_hooks_away_when_the_model_fails() -> None:
    model = ms.build("gru", vocab=7)
    with pytest.raises(UserError, match="outside the vocabulary"), capture(model, "layers.0.gates"):
        model(torch.tensor([[99]]))
    assert not any(module._forward_hooks for module in model.modules())


def test_capture_of_an_unknown_or_silent_place_is_an_error() -> None:
    model = ms.build("lstm", vocab=7)
    with pytest.raises(UserError, match=r"layers\.0\.gates"), capture(model, "layer.0.gates"):
        pass
    with pytest.raises(UserError, match="never called"), capture(model, "layers.0.gates"):
        pass


def test_memory_is_flat_over_many_captures() -> None:
    model = ms.build("lstm", vocab=7, width=8)
    tokens = torch.randint(7, (2, 6))

    def living() -> int:
        gc.collect()
        return sum(type(thing) is torch.Tensor for thing in gc.get_objects())

    counts = []
    gc.freeze()  # what lives already need not be counted again and again
    try:
        for _ in range(20):
            with torch.no_grad(), capture(model, "layers.0.gates"):
                model(tokens)
            counts.append(living())
    finally:
        gc.unfreeze()
    assert counts[-1] <= counts[2]


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_streamed_statistics_are_those_of_all_gates_at_once(memory: str) -> None:
    model = ms.build(memory, vocab=5, width=24)
    tokens = torch.randint(5, (12, 9))
    lens = Gates()
    for rows in tokens.split(5):
        lens.observe(model, rows)
    result = lens.result()
    with torch.no_grad(), capture(model, "layers.0.gates") as seen:
        model(tokens)
    gates = seen["layers.0.gates"].double().numpy().transpose(1, 2, 0, 3).reshape(9, -1, 12 * 24)
    assert len(result.names) == gates.shape[1]
    np.testing.assert_allclose(result.mean, gates.mean(-1), atol=1e-7)
    low, high = np.percentile(gates, [10, 90], axis=-1, method="inverted_cdf")
    np.testing.assert_allclose(result.low, low, atol=0.0101)
    np.testing.assert_allclose(result.high, high, atol=0.0101)
    np.testing.assert_allclose(result.example[3, 1], seen["layers.0.gates"][0, 3, 1], atol=1e-6)


def test_result_becomes_a_table_and_figures() -> None:
    lens = Gates()
    lens.observe(ms.build("lstm", vocab=5, width=4), torch.randint(5, (2, 3)))
    result = lens.result()
    assert len(result.table()) == 3 * 4
    assert {trace.name for trace in result.figure().data} >= {"input", "forget", "output"}
    picture = result.units("forget", ["A", "A", "?"]).data[0].z
    assert np.asarray(picture).shape == (4, 3)


def test_gates_refuse_other_memories_layers_and_lengths() -> None:
    tokens = torch.randint(5, (2, 3))
    with pytest.raises(UserError, match="gates are those of LSTM and GRU"):
        Gates().observe(ms.build("transformer", vocab=5), tokens)
    with pytest.raises(UserError, match="gates are those of LSTM and GRU"):
        Gates().observe(ms.build("rnn", vocab=5), tokens)
    with pytest.raises(UserError, match="layers 0 to 0"):
        Gates(layer=1).observe(ms.build("gru", vocab=5), tokens)
    with pytest.raises(UserError, match="nothing was observed"):
        Gates().result()
    lens, model = Gates(), ms.build("gru", vocab=5)
    lens.observe(model, tokens)
    with pytest.raises(UserError, match="one lens per length"):
        lens.observe(model, tokens[:, :2])
