import dataclasses
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import mnemoscope as ms
from mnemoscope.memories.positions import STRETCH, Positions, rotate, rotation, waves
from mnemoscope.models.model import SequenceModel

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]


@pytest.mark.parametrize("width", [2, 7, 8])
def test_sinusoids_are_those_of_the_paper(width: int) -> None:
    places = torch.tensor([[0, 1, 2, 30], [5, 5, 999, 4]])
    found = waves(places, width)
    assert found.shape == (2, 4, width)
    for row in range(2):
        for token in range(4):
            for column in range(width):
                angle = int(places[row, token]) / 10000 ** (column // 2 * 2 / width)
                wave = math.cos(angle) if column % 2 else math.sin(angle)
                assert found[row, token, column].item() == pytest.approx(wave, abs=2e-4)


FAR = [STRETCH - 1, STRETCH, 2**24, 2**24 + 1, 2**24 + 2, 2**31 + 7, 2**40 + 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_positions_far_down_a_stream_are_told_apart(dtype: torch.dtype) -> None:
    # A float64 of 2⁴⁰ is exact to 2⁻¹³, and so is the angle that a test can compute.
    off = {torch.float64: 5e-4, torch.float32: 5e-4, torch.bfloat16: 5e-3}[dtype]
    places, halves = torch.tensor([FAR]), 16
    exact = torch.tensor(
        [[place * 10000 ** (-i / halves) for i in range(halves)] for place in FAR],
        dtype=torch.float64,
    )
    found = waves(places, 2 * halves, dtype)[0]
    cos, sin = (one[0, 0, :, :halves] for one in rotation(places, 2 * halves, dtype))
    assert found.dtype == cos.dtype == dtype
    for sines, cosines in ((found[:, ::2], found[:, 1::2]), (sin, cos)):
        torch.testing.assert_close(sines.double(), exact.sin(), rtol=0, atol=off)
        torch.testing.assert_close(cosines.double(), exact.cos(), rtol=0, atol=off)
        assert float((sines[2] - sines[3]).abs().max()) > 0.5
        assert float((sines[3] - sines[4]).abs().max()) > 0.5


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_stream_of_millions_still_knows_the_order_of_its_tokens(
    positions: str, dtype: torch.dtype
) -> None:
    model = ms.build("transformer", vocab=9, width=16, heads=2, context=8, positions=positions)
    model = model.to(dtype).eval()
    tokens = torch.tensor([[1, 2, 3, 4], [2, 1, 3, 4]])
    with torch.no_grad():
        begun = model(tokens[:, :1] * 0)
        far = dataclasses.replace(begun.state, count=torch.tensor([2**24] * 2))
        logits = model(tokens, far).logits[:, -1]
    # What was read is the same; only that the first two stood the other way round is not.
    assert float((logits[0] - logits[1]).abs().max()) > 1e-3


def test_the_first_tokens_of_a_stream_have_the_angles_of_version_0_1() -> None:
    places = torch.arange(STRETCH)
    pairs = torch.arange(0, 64, 2, dtype=torch.float32)
    angles = places[:, None] * torch.exp(pairs * (-9.210340371976184 / 64))
    assert torch.equal(waves(places, 64)[:, ::2], angles.sin())
    assert torch.equal(rotation(places[None], 64, torch.float32)[0][0, 0, :, 32:], angles.cos())


def test_sinusoids_are_added_to_scaled_words() -> None:
    vectors, places = torch.randn(1, 3, 8, dtype=torch.float64), torch.tensor([[4, 5, 6]])
    found, turn = Positions("sinusoidal", 8)(vectors, places)
    assert turn is None
    expected = vectors * math.sqrt(8) + waves(places, 8, torch.float64)
    torch.testing.assert_close(found, expected)


def test_learned_positions_are_rows_of_a_table() -> None:
    positions = Positions("learned", 4, context=10)
    vectors, places = torch.randn(2, 3, 4), torch.tensor([[0, 1, 9], [7, 7, 8]])
    found, turn = positions(vectors, places)
    assert turn is None
    assert torch.equal(found, vectors + positions.table.weight[places])


def turned(vectors: Tensor, places: list[int]) -> Tensor:
    return rotate(vectors, rotation(torch.tensor([places]), vectors.shape[-1], vectors.dtype))


@pytest.mark.parametrize("shift", [1, 17, 60])
def test_rotary_scores_depend_on_distance_only(shift: int) -> None:
    queries, keys = torch.randn(2, 1, 2, 5, 6, dtype=torch.float64)
    places = [0, 1, 4, 9, 20]
    scores = turned(queries, places) @ turned(keys, places).mT
    moved = [place + shift for place in places]
    shifted = turned(queries, moved) @ turned(keys, moved).mT
    torch.testing.assert_close(shifted, scores)
    one_sided = turned(queries, moved) @ turned(keys, places).mT
    assert (one_sided - scores).abs().max() > 0.1


def test_rotation_turns_pairs_by_the_angles_of_the_paper() -> None:
    vectors = torch.randn(1, 1, 1, 6, dtype=torch.float64)
    found, plain = turned(vectors, [3])[0, 0, 0], vectors[0, 0, 0]
    for pair in range(3):
        angle = 3 * 10000 ** (-2 * pair / 6)
        turn = complex(math.cos(angle), math.sin(angle))
        expected = complex(plain[pair].item(), plain[pair + 3].item()) * turn
        assert complex(found[pair].item(), found[pair + 3].item()) == pytest.approx(expected, 1e-5)


def test_rotation_at_the_first_place_does_nothing() -> None:
    vectors = torch.randn(1, 2, 3, 8)
    assert torch.equal(turned(vectors, [0, 0, 0]), vectors)


@pytest.mark.parametrize(
    ("kind", "knows"),
    [
        ("transformer", True),
        ("transformer sinusoidal", True),
        ("transformer learned", True),
        ("transformer none", False),
    ],
)
def test_one_layer_without_positions_reads_a_set(make_named: Make, kind: str, knows: bool) -> None:
    model = make_named(kind, layers=1)
    one, two = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[3, 1, 2, 4]])
    difference = (model(one).logits[:, -1] - model(two).logits[:, -1]).abs().max()
    assert bool(difference > 1e-6) == knows


def test_a_row_counts_its_own_tokens(make_named: Make, tokens_of: Tokens) -> None:
    model = make_named("transformer")
    mask = torch.tensor([[True, True, True], [False, True, False]])
    state = model(tokens_of(2, 3), None, mask).state
    assert state.count.tolist() == [3, 1]
    assert model(tokens_of(2, 4), state.reset([0])).state.count.tolist() == [4, 5]
    assert make_named("transformer none")(tokens_of(2, 3)).state.count is None
    assert make_named("gru")(tokens_of(2, 3)).state.count is None
