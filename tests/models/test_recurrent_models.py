from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mnemoscope.activations.capture import capture
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find
from mnemoscope.memories.lstm import LSTM
from mnemoscope.memories.recurrent import Cell
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.recurrent import from_torch, to_torch

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]
MODULES: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
every_kind = pytest.mark.parametrize("kind", MODULES)


@every_kind
def test_the_fused_path_is_the_readable_one(make_named: Make, tokens_of: Tokens, kind: str) -> None:
    model, tokens = make_named(kind), tokens_of(3, 7)
    seen: list[Tensor] = []

    def results() -> dict[str, Tensor]:
        model.zero_grad()
        out = model(tokens, model(tokens_of(3, 4, seed=1)).state)
        out.logits.square().sum().backward()
        gradients = {name: w.grad.clone() for name, w in model.named_parameters()}
        return {"logits": out.logits, **dict(out.state.tensors()), **gradients}

    fused = results()
    hooks = [
        model.get_submodule(f"layers.{index}.gates").register_forward_hook(
            lambda module, inputs, output: seen.append(output)
        )
        for index in range(2)
    ]
    readable = results()
    torch.testing.assert_close(readable, fused, rtol=1e-9, atol=1e-10)

    cell = model.layers[0].cell
    assert isinstance(cell, Cell)
    assert [tuple(gates.shape) for gates in seen[-2:]] == [(3, 7, len(cell.gates), 8)] * 2
    for hook in hooks:
        hook.remove()
    seen.clear()
    results()
    assert not seen


@every_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_to_torch_gives_the_same_outputs(
    make_named: Make, tokens_of: Tokens, kind: str, dtype: torch.dtype
) -> None:
    model, tokens = make_named(kind, dtype=dtype), tokens_of(3, 7)
    module = to_torch(model)
    assert type(module) is MODULES[kind]
    outputs, _ = module(model.embedding(tokens))
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(model.readout(outputs), model(tokens).logits, rtol=0, atol=tolerance)
    with torch.no_grad():
        before = model(tokens).logits
        next(module.parameters()).zero_()
        assert torch.equal(model(tokens).logits, before)


@every_kind
def test_from_torch_gives_the_same_outputs(make_named: Make, tokens_of: Tokens, kind: str) -> None:
    model, tokens = make_named(kind), tokens_of(3, 7)
    before = model(tokens).logits
    module = MODULES[kind](8, 8, 2, batch_first=True, dtype=torch.float64)
    from_torch(model, module)
    outputs, _ = module(model.embedding(tokens))
    torch.testing.assert_close(model.readout(outputs), model(tokens).logits, rtol=0, atol=1e-12)
    assert not torch.allclose(model(tokens).logits, before)


@every_kind
def test_weights_survive_the_round_trip_bit_for_bit(make_named: Make, kind: str) -> None:
    model, other = make_named(kind), make_named(kind)
    with torch.no_grad():
        for weight in other.layers.parameters():
            weight.zero_()
    from_torch(other, to_torch(model))
    for ours, theirs in zip(model.layers.parameters(), other.layers.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    module = MODULES[kind](8, 8, 2, dtype=torch.float64)
    from_torch(model, module)
    for (name, ours), (same, theirs) in zip(
        module.named_parameters(), to_torch(model).named_parameters(), strict=True
    ):
        assert name == same
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "module",
    [
        nn.GRU(8, 8, 2),
        nn.LSTM(8, 8, 1),
        nn.LSTM(8, 6, 2),
        nn.LSTM(6, 8, 2),
        nn.LSTM(8, 8, 2, bias=False),
        nn.LSTM(8, 8, 2, bidirectional=True),
        nn.LSTM(8, 8, 2, proj_size=4),
    ],
    ids=str,
)
def test_a_module_that_does_not_fit(make_named: Make, module: nn.RNNBase) -> None:
    model = make_named("lstm")
    before = [weight.clone() for weight in model.parameters()]
    with pytest.raises(UserError, match="does not fit a model with lstm memory, width 8 and 2"):
        from_torch(model, module)
    assert all(map(torch.equal, before, model.parameters()))


def test_a_relu_network_is_not_our_rnn(make_named: Make) -> None:
    with pytest.raises(UserError, match="does not fit"):
        from_torch(make_named("rnn"), nn.RNN(8, 8, 2, nonlinearity="relu"))


def test_a_transformer_has_no_counterpart_in_torch_nn(make_named: Make) -> None:
    with pytest.raises(UserError, match=r"transformer memory has no counterpart in torch\.nn"):
        to_torch(make_named("transformer"))
    with pytest.raises(UserError, match="does not fit a model with transformer memory"):
        from_torch(make_named("transformer"), nn.GRU(8, 8, 2))


def test_the_forget_gate_starts_open() -> None:
    biases = []
    for bias in (0.0, 2.5):
        torch.manual_seed(0)
        model = LSTM(vocab=5, width=4, layers=2, forget_bias=bias).build()
        biases.append(torch.stack([layer.weights.input_bias.detach() for layer in model.layers]))
    added = biases[1] - biases[0]
    torch.testing.assert_close(added[:, 4:8], torch.full((2, 4), 2.5))
    assert not added[:, :4].any()
    assert not added[:, 8:].any()


@every_kind
def test_dropout_falls_on_what_a_layer_shows_and_not_on_what_it_keeps(
    make_named: Make, tokens_of: Tokens, kind: str
) -> None:
    model, shown = make_named(kind, dropout=0.5).train(), []
    for layer in model.layers:
        layer.register_forward_hook(lambda module, inputs, output: shown.append(output[0]))
    state = model(tokens_of(8, 40)).state
    for vectors in shown:
        # Five standard deviations around one half.
        assert abs((vectors == 0).double().mean() - 0.5) < 5 * 0.5 / vectors.numel() ** 0.5
    assert all((tensor != 0).all() for _, tensor in state.tensors())


@pytest.mark.parametrize("memory", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("padded", [False, True])
def test_bfloat16_by_autocast_with_padding_and_onlookers(memory: str, padded: bool) -> None:
    model = find("memory", memory).make(vocab=7, width=8, layers=2).build()
    tokens = torch.randint(7, (2, 6))
    mask = torch.ones(2, 6, dtype=torch.bool).index_fill(1, torch.tensor([5]), False)
    with torch.autocast("cpu", torch.bfloat16), capture(model, "layers.0.gates") as seen:
        out = model(tokens, None, mask if padded else None)
        again = model(tokens, out.state, mask if padded else None)
    again.logits.float().sum().backward()
    assert seen["layers.0.gates"].isfinite().all()
    exact = model(tokens, model(tokens, None, mask if padded else None).state).logits
    torch.testing.assert_close(again.logits.float()[:, 0], exact[:, 0], atol=0.05, rtol=0.05)
