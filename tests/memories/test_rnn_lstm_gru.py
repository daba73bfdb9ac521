from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mnemoscope.memories import gru, lstm, rnn
from mnemoscope.memories.recurrent import Cell, Weights, scan, step_by_step

INPUT, WIDTH = 3, 5
CELLS: dict[str, tuple[Cell, Any, int]] = {
    "rnn": (rnn.RNN.cell, nn.RNN, 1),
    "lstm": (lstm.LSTM.cell, nn.LSTM, 2),
    "gru": (gru.GRU.cell, nn.GRU, 1),
}
STATES: dict[str, Any] = {"rnn": rnn.RNNState, "lstm": lstm.LSTMState, "gru": gru.GRUState}
every_cell = pytest.mark.parametrize("name", CELLS)


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def weights_of(name: str) -> Weights:
    gates = {"rnn": 1, "lstm": 4, "gru": 3}[name] * WIDTH
    shapes = [(gates, INPUT), (gates, WIDTH), (gates,), (gates,)]
    return Weights(*(draw(*shape, seed=i).requires_grad_() for i, shape in enumerate(shapes)))


def start_of(name: str, rows: int) -> list[Tensor]:
    return [draw(rows, WIDTH, seed=9 + i).requires_grad_() for i in range(CELLS[name][2])]


@every_cell
@pytest.mark.parametrize(("rows", "steps"), [(1, 1), (3, 1), (1, 13), (4, 7)])
def test_scan_is_torch_nn_in_values_and_gradients(name: str, rows: int, steps: int) -> None:
    cell, kind, _ = CELLS[name]
    weights, start = weights_of(name), start_of(name, rows)
    inputs = draw(rows, steps, INPUT, seed=7).requires_grad_()
    outputs, state, opened = scan(cell, inputs, STATES[name](*start), weights)
    assert opened is None

    module = kind(INPUT, WIDTH, batch_first=True, dtype=torch.float64)
    layout = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    module.load_state_dict(dict(zip(layout, weights, strict=True)))
    before = tuple(tensor[None] for tensor in start)
    expected, after = module(inputs, before if len(before) > 1 else before[0])
    last = after if isinstance(after, tuple) else (after,)

    ours = [outputs, *(tensor for _, tensor in state.tensors())]
    theirs = [expected, *(tensor[0] for tensor in last)]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)

    def gradients(results: list[Tensor], of: list[Tensor]) -> tuple[Tensor, ...]:
        slopes = [draw(*r.shape, seed=20 + i) for i, r in enumerate(results)]
        return torch.autograd.grad(results, of, slopes)

    torch.testing.assert_close(
        gradients(ours, [*weights, inputs, *start]),
        gradients(theirs, [*(getattr(module, key) for key in layout), inputs, *start]),
        rtol=1e-10,
        atol=1e-12,
    )


@every_cell
def test_the_gradient_of_one_step_is_that_of_finite_differences(name: str) -> None:
    cell = CELLS[name][0]

    def step(inputs: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        weights, start = Weights(*rest[:4]), STATES[name](*rest[4:])
        state, gates = cell.step(cell.project(inputs, weights)[:, 0], start, weights)
        return (*(tensor for _, tensor in state.tensors()), *gates)

    inputs = draw(2, 1, INPUT).requires_grad_()
    assert torch.autograd.gradcheck(step, (inputs, *weights_of(name), *start_of(name, 2)))


def literal_rnn(x: Tensor, h: Tensor, _: Tensor, w: Callable[[int, Tensor, Tensor], Any]) -> Any:
    own, past = w(0, x, h)
    candidate = (own + past).tanh()
    return candidate, h, {"candidate": candidate}


def literal_lstm(x: Tensor, h: Tensor, c: Tensor, w: Callable[[int, Tensor, Tensor], Any]) -> Any:
    i, f, o = (sum(w(part, x, h)).sigmoid() for part in (0, 1, 3))
    g = sum(w(2, x, h)).tanh()
    kept = f * c + i * g
    return o * kept.tanh(), kept, {"input": i, "forget": f, "candidate": g, "output": o}


def literal_gru(x: Tensor, h: Tensor, _: Tensor, w: Callable[[int, Tensor, Tensor], Any]) -> Any:
    r, z = (sum(w(part, x, h)).sigmoid() for part in (0, 1))
    own, past = w(2, x, h)
    n = (own + r * past).tanh()
    return (1 - z) * n + z * h, h, {"reset": r, "update": z, "candidate": n}


LITERAL = {"rnn": literal_rnn, "lstm": literal_lstm, "gru": literal_gru}


@every_cell
def test_gates_are_those_of_the_equations(name: str) -> None:
    cell, rows, steps = CELLS[name][0], 3, 6
    weights, start = weights_of(name), start_of(name, rows)
    inputs = draw(rows, steps, INPUT, seed=7)
    outputs, _, opened = scan(cell, inputs, STATES[name](*start), weights, watch=True)
    assert opened is not None
    assert opened.shape == (rows, steps, len(cell.gates), WIDTH)

    def part(index: int, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        rows_of = slice(index * WIDTH, (index + 1) * WIDTH)
        w, u, b, c = (array[rows_of] for array in weights)
        return w @ x + b, u @ h + c

    for row in range(rows):
        h, c = start[0][row], start[-1][row]
        for step in range(steps):
            h, c, gates = LITERAL[name](inputs[row, step], h, c, part)
            torch.testing.assert_close(outputs[row, step], h, rtol=0, atol=1e-12)
            for index, gate in enumerate(cell.gates):
                torch.testing.assert_close(
                    opened[row, step, index], gates[gate], rtol=0, atol=1e-12
                )


@every_cell
@settings(max_examples=30)
@given(mask=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=3))
def test_a_masked_row_does_not_move(name: str, mask: list[list[bool]]) -> None:
    cell, moves, rows = CELLS[name][0], torch.tensor(mask), len(mask)
    weights, start = weights_of(name), STATES[name](*start_of(name, rows))
    # Padding is poisoned: whatever stands there must not reach a real token.
    inputs = draw(rows, 6, INPUT, seed=7).masked_fill(~moves[..., None], torch.nan)
    outputs, state, _ = scan(cell, inputs, start, weights, moves)
    for row in range(rows):
        alone = start.select([row])
        for step in range(6):
            if mask[row][step]:
                _, alone, _ = scan(cell, inputs[row : row + 1, step : step + 1], alone, weights)
            torch.testing.assert_close(outputs[row, step], alone.hidden[0], rtol=0, atol=1e-12)
        for (_, ours), (_, theirs) in zip(state.tensors(), alone.tensors(), strict=True):
            torch.testing.assert_close(ours[row], theirs[0], rtol=0, atol=1e-12)


@every_cell
def test_no_gradient_reaches_padding(name: str) -> None:
    moves = torch.tensor([[True, False, True, False], [False, True, True, True]])
    inputs = draw(2, 4, INPUT, seed=7).requires_grad_()
    state = STATES[name](*start_of(name, 2))
    outputs, _, _ = scan(CELLS[name][0], inputs, state, weights_of(name), moves)
    (gradient,) = torch.autograd.grad(outputs.square().sum(), inputs)
    assert torch.equal(gradient.abs().sum(-1) > 0, moves)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("rows", "steps"), [(1, 1), (3, 8)])
def test_the_unrolled_lstm_is_step_after_step(rows: int, steps: int, padded: bool) -> None:
    weights, inputs = weights_of("lstm"), draw(rows, steps, INPUT, seed=5).requires_grad_()
    start = start_of("lstm", rows)
    mask = draw(rows, steps, seed=6) > 0 if padded else None
    projected = lstm.project(inputs, weights)
    slow = step_by_step(
        lstm.LSTM.cell, projected, lstm.LSTMState(*start), weights, mask, watch=True
    )
    fast = scan(lstm.LSTM.cell, inputs, lstm.LSTMState(*start), weights, mask, watch=True)
    leaves = [inputs, *start, *weights]
    gradients = []
    for outputs, state, gates in (slow, fast):
        loss = (outputs * draw(rows, steps, WIDTH, seed=7)).sum()
        loss = loss + (state.hidden * draw(rows, WIDTH, seed=8)).sum() + state.cell.pow(2).sum()
        gradients.append(torch.autograd.grad(loss, leaves))
        assert gates is not None
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    for one, other in zip((slow[0], slow[2]), (fast[0], fast[2]), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
    torch.testing.assert_close(slow[1].cell, fast[1].cell, rtol=0, atol=1e-14)


def test_the_gradient_of_the_unrolled_lstm_is_that_of_finite_differences() -> None:
    weights, inputs = weights_of("lstm"), draw(2, 4, INPUT, seed=5).requires_grad_()
    mask = torch.tensor([[True, True, False, True], [False, True, True, True]])

    def read(inputs: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        state = lstm.LSTMState(hidden, cell)
        outputs, state, _ = scan(lstm.LSTM.cell, inputs, state, Weights(*weights), mask)
        return outputs, state.cell

    assert torch.autograd.gradcheck(read, (inputs, *start_of("lstm", 2), *weights))
