"""What the pages on heads, waves, gates, states and translators lead with, held against arrays."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.alignment.result import AlignmentResult
from mnemoscope.lenses.attention_maps.result import AttentionMapsResult
from mnemoscope.lenses.gates.result import GatesResult
from mnemoscope.lenses.heads.lens import Heads
from mnemoscope.lenses.heads.result import HeadsResult
from mnemoscope.lenses.horizon.result import HorizonResult
from mnemoscope.lenses.lens import Result
from mnemoscope.lenses.reach.result import ReachResult
from mnemoscope.lenses.spectrum.lens import Spectrum
from mnemoscope.lenses.waves.lens import Waves
from mnemoscope.lenses.waves.result import WavesResult
from mnemoscope.lenses.waves.summary import BandFilters
from mnemoscope.report.document import Figure, Finding, Table

PRIVATE = r"\b(place|goes on|worth|named|even|nan|inf)\b"


def told(result: Result) -> list[str]:
    """The sentences of a page, which are plain and stand above a figure that is drawn once."""
    lead, *evidence = result.sections()
    assert isinstance(lead, Finding)
    sentences, figure = [str(part) for part in lead.parts[:-1]], lead.parts[-1]
    for said in sentences:
        assert said.endswith(".")
        assert said[0].isupper()
        assert len(said) < 260
        assert not re.search(PRIVATE, said)
    below = [part.name for one in evidence for part in one.parts if isinstance(part, Figure)]
    assert isinstance(figure, Figure)
    assert figure.name not in below
    return sentences


# Gates (T, G): one gate wide open, one half open, a candidate that is none.


def gates(**changes: Any) -> GatesResult:
    mean = np.array([[0.8, 0.4, -0.9], [0.9, 0.6, -0.7]])
    found = GatesResult(
        ("forget", "output", "candidate"), mean, mean - 0.1, mean + 0.1, np.zeros((2, 3, 4))
    )
    return replace(found, **changes)


def test_the_gate_furthest_from_half_open_and_the_one_that_moves_are_told() -> None:
    far, moves = told(gates())
    assert far.startswith("The forget gate is furthest from half open")
    assert "open to 0.85 on average over tokens (80 % of texts and units: 0.75 to 0.95)" in far
    assert "The output gate moves most" in moves
    assert "lowest at token 0 (0.40) and highest at token 1 (0.60)" in moves
    assert {trace.name for trace in gates().figure().data if trace.name} == {"forget", "output"}


def test_gates_that_stand_still_at_one_half_are_not_distinguishable() -> None:
    still = np.full((2, 3), 0.51)
    far, moves = told(gates(mean=still, low=still - 0.1, high=still + 0.1))
    assert far.startswith("No gate is distinguishable from half open")
    assert "0.51" in far
    assert moves.startswith("Averaged over texts and units, no gate moves by as much as 0.02")


def test_gates_of_a_memory_without_a_candidate_have_a_page() -> None:
    mean = np.array([[0.8, -0.4], [0.9, -0.3]])
    own = GatesResult(("keep", "turn"), mean, mean - 0.1, mean + 0.1, np.zeros((2, 2, 4)))
    assert told(own)[0].startswith("The turn gate is furthest from half open")
    assert own.figure().layout.yaxis.range[0] < -0.5


# Attention of two layers whose patterns would let uniform attention reach 4 and 8 tokens back.


def maps(*distances: tuple[float, float]) -> AttentionMapsResult:
    weights = np.full((2, 17, 17), 1 / 17)
    return AttentionMapsResult(
        ("local", "strided"), weights, np.array(distances), np.array([4.0, 8.0])
    )


def test_attention_is_compared_with_uniform_attention_over_its_pattern() -> None:
    first, second = told(maps((2.0, 8.1), (2.2, 7.9), (2.1, 8.0)))
    assert first == (
        "Attention stays nearer in 1 of 2 layers than uniform attention over the same pattern "
        "would."
    )
    assert "largest in layer 1 (local): attention lies 2.1 tokens back on average" in second
    assert "(80 % of 3 texts: 2.0 to 2.2), uniform attention would lie 4.0 back" in second
    both, _ = told(maps((2.0, 9.0), (2.2, 9.1)))
    assert "nearer in 1 of 2 layers and reaches farther back in 1 of 2 layers than" in both


def test_attention_that_is_uniform_or_seen_once_is_not_told_apart() -> None:
    first, _ = told(maps((3.9, 8.1), (4.1, 7.9)))
    assert "In no layer is the distance of attention distinguishable" in first
    first, second = told(maps((2.0, 8.0)))
    assert "is not judged" in first
    assert "texts" not in second


# Alignment: two layers, the second one sharp.


def aligned(sharp: float = 0.7, error: float = 0.05, sentences: int = 9) -> AlignmentResult:
    weights = np.array([[[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.4, 0.6]]])
    return AlignmentResult(
        ("▁dog", "∎"), ("▁hund", "∎"), weights, np.array([0.2, sharp]), np.array([0.01, error]),
        0.2, sentences,
    )  # fmt: skip


def test_sharp_attention_is_told_with_its_band_and_the_strongest_link() -> None:
    first, second = told(aligned())
    assert first.startswith("Attention is sharpest in layer 2")
    assert "0.70 ± 0.10 of it to one source token, on average over 9 sentences" in first
    assert "equal attention to all would give 0.20" in first
    assert "from “hund” to “dog”, with 0.90 of the attention" in second


def test_attention_that_could_be_equal_is_not_distinguishable() -> None:
    for sharp, error in ((0.24, 0.001), (0.5, 0.2)):
        assert told(aligned(sharp, error))[0].endswith("from which it is not distinguishable.")
    alone = told(aligned(sentences=1, error=0.0))[0]
    assert "gives 0.70 of it to one source token, in the one sentence read" in alone


# Reach: half of the gradient goes to the source.


def reached(shares: list[float], leak: float = 0.0) -> ReachResult:
    influence = np.array([[0.5, 0.5 - leak, leak], [0.5, 0.25, 0.25]])
    even = np.full(len(shares), 0.6)
    return ReachResult(("dog",), ("▷", "hund"), ("hund", "∎"), influence, np.array(shares), even)


def test_what_the_gradient_says_of_source_and_future() -> None:
    first, second = told(reached([0.30, 0.32, 0.28]))
    assert "0.30 ± 0.02 goes to the source, on average over 3 sentences" in first
    assert first.endswith("counted alike, 0.60 would.")
    assert "no gradient goes to target tokens that come later" in second
    assert "0.050 of the gradient goes to target tokens" in told(reached([0.3, 0.3], 0.1))[1]


def test_a_gradient_like_that_of_all_tokens_is_not_distinguishable() -> None:
    assert told(reached([0.3, 0.9]))[0].endswith("from which it is not distinguishable.")
    alone = told(reached([0.3]))[0]
    assert "one sentence, so its spread is unknown" in alone
    assert "±" not in alone


# Horizon: how many of four components are kept at ages 0, 8, 16.


def kept(
    *counts: int, low: int = 0, null: int = 0, expected: tuple[int, ...] = ()
) -> HorizonResult:
    def components(numbers: list[int]) -> Floats:
        return np.array([[0.9] * n + [0.0] * (4 - n) for n in numbers])

    mean = list(counts)
    fewer = [max(0, n - low) for n in mean]
    return HorizonResult(
        8 * np.arange(len(mean)), components(mean), components(fewer), components(mean),
        components([null] * len(mean)), np.array(expected, dtype=np.int64), (400, 33),
    )  # fmt: skip


def test_the_horizon_is_where_nothing_more_is_found_than_by_chance() -> None:
    first, second = told(kept(4, 2, 0))
    assert (
        "Of the 4 Fourier components of a window of 4 tokens, 4 can be read off the state" in first
    )
    assert "at age 0 (4 to 4 over 4 folds); states of other streams give at most 0" in first
    assert second.startswith("The horizon lies between ages 8 and 16")
    first, second = told(kept(4, 3, 2, null=1))
    assert second.startswith("The horizon lies beyond age 16")
    assert "2 can still be read there (2 to 2 over 4 folds)" in second
    # What a fold does not find is not known to be there.
    assert "between ages 0 and 8" in told(kept(4, 2, 0, low=2))[1]


def test_a_state_that_keeps_nothing_or_is_asked_once() -> None:
    (alone,) = told(kept(0, 0, 0))
    assert "At no age is what can be read off the state distinguishable from chance" in alone
    assert len(told(kept(3))) == 1
    *_, algebra = told(kept(4, 2, 0, expected=(4, 3, 0)))
    assert "predicts 4 at age 0 and 0 at age 16; no count differs from it by more than 1" in algebra


# Spectra, heads and waves: of models small enough to be read at once.


def waves_of(values: torch.Tensor) -> Any:
    lens = Spectrum(window=30)
    for batch in values.split(8):
        lens.observe({"site": batch})
    return lens.result()


def test_a_wave_is_told_with_its_period_and_its_controls() -> None:
    torch.manual_seed(0)
    angle = 2 * torch.pi * torch.arange(60) / 6
    signal = torch.stack((angle.sin(), angle.cos()), 1)
    found = waves_of(signal + torch.randn(32, 60, 2))
    first, second = told(found)
    assert "stand out at 1 of 1 sites, most at site: " in first
    assert f"{found.sharpness[0]:.1f} times the mean power at a period of 6 tokens (" in first
    assert f"at most {found.sharpness_null[0].max():.1f}, words:" in first
    assert f"explain {found.share[0]:.2f} of the variance" in second
    slow = torch.arange(60)[:, None].expand(60, 2) / 30 * 2 * torch.pi
    assert "or longer" in told(waves_of(slow.sin() + 0.1 * torch.randn(32, 60, 2)))[0]


def test_noise_and_constants_hold_no_wave() -> None:
    torch.manual_seed(0)
    (noise,) = told(waves_of(torch.randn(32, 60, 8)))
    assert "waves along positions are not distinguishable from noise" in noise
    (constant,) = told(waves_of(torch.ones(4, 60, 2)))
    assert "Positions explain at most 0.000 of the variance" in constant
    # A random walk differs from position to position but has no sharp frequency of its own.
    walk = torch.randn(60, 8)
    (still,) = told(waves_of(walk + 0.1 * torch.randn(32, 60, 8)))
    assert still.startswith("At none of 1 sites are waves along positions distinguishable")


def seen_heads(tokens: torch.Tensor, **shape: Any) -> HeadsResult:
    torch.manual_seed(0)
    options: dict[str, Any] = {"width": 8, "layers": 1, "heads": 1, "context": 32, **shape}
    lens = Heads(length=32, window=16, reach=4)
    lens.observe(ms.build("encoder", vocab=9, positions="rotary", **options), tokens)
    return lens.result()


def test_the_strongest_head_is_told_with_its_null_and_where_it_attends() -> None:
    tokens = torch.randint(9, (8, 32), generator=torch.Generator().manual_seed(0))
    found = seen_heads(tokens, heads=2, layers=2)
    n, h = found.strongest(1)[0]
    first, second, third = told(found)
    assert (
        f"explains {found.relative[n, h]:.2f} of the score energy of layer {n}, head {h}" in first
    )
    assert f"(scores shuffled: {found.relative_null[n, h]:.3f})" in first
    above = int((found.relative - found.relative_null >= 0.1).sum())
    assert f"in {above} of 4 heads." in first if above else "that counts" in first
    at = found.offsets.tolist().index(found.favourite[n, h])
    assert (
        f"{found.measured[n, h, at]:.2f} of its attention against {found.flat[n, at]:.2f}" in second
    )
    assert f"{found.fit[n, h]:.2f}" in third
    quiet = replace(found, relative=found.relative_null * 0.9)
    assert "no head is distinguishable from shuffled scores" in told(quiet)[0]


def test_one_head_that_reads_one_token_over_and_over_has_a_page() -> None:
    found = seen_heads(torch.zeros(2, 32, dtype=torch.long))
    told(found)
    claims = next(part for part in found.sections()[1].parts if isinstance(part, Table))
    verdicts = {row[0]: row[1] for row in claims.rows}
    assert verdicts["The delay of the waves ranks heads as their attention does"] == "not judged"


@pytest.fixture(scope="module")
def waves() -> WavesResult:
    torch.manual_seed(0)
    model = ms.build(
        "encoder", vocab=9, width=8, heads=2, layers=1, positions="learned", context=32
    )
    lens = Waves(length=32, texts=8, window=16, filtered=4, paper=1)
    lens.observe(model, torch.randint(9, (8, 32)), silent=True)
    return lens.result()


def filtered(stop: float, control: float, error: float = 0.01, **changes: Any) -> BandFilters:
    modes = {"stop": stop, "pass": 0.0, "elsewhere": control}
    return BandFilters(
        asked="next token", bands=("2–4", "all"), texts=4, loss=1.0, entropy=2.0,
        change={mode: np.array([value, value]) for mode, value in modes.items()},
        error={mode: np.full(2, error) for mode in modes},
        moved={mode: np.zeros((2, 1)) for mode in modes},
        matched=np.ones(2),
    ) if not changes else replace(filtered(stop, control, error), **changes)  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (filtered(0.5, 0.1), "adds 0.5 ± 0.01 nats to the loss on the next token; as much energy "
         "taken off elsewhere adds 0.1 ± 0.01."),
        (filtered(0.5, 0.49), "not distinguishable from as much energy taken off elsewhere (0.49"),
        (filtered(0.1, 0.5), "no more than as much energy taken off elsewhere (0.5"),
        (filtered(0.5, 0.1, loss=2.5), "not judged: it loses 2.50 nats on the next token, no less "
         "than token frequencies alone (2.00)."),
        (filtered(0.5, 0.1, matched=np.full(2, 0.2)), "not judged: the control found 0.20 of the "
         "band's energy elsewhere."),
        (filtered(0.5, 0.1, asked=""), "changes 0.5 ± 0.01 of the outputs' variance; as much"),
    ],
)  # fmt: skip
def test_whether_waves_are_used_is_said_against_the_control(
    waves: WavesResult, filters: BandFilters, said: str
) -> None:
    *_, use = told(replace(waves, bands=filters))
    assert said in use


def test_a_page_of_waves_leads_with_waves_heads_and_use(waves: WavesResult) -> None:
    first, second, third = told(waves)
    assert "waves" in first.lower()
    assert "The distance i − j explains" in second
    assert "not judged" in third  # nothing was trained
    legend = {trace.name for trace in waves.bands.figure().data}
    assert legend == {
        "band taken out", "only the band left", "control: as much energy taken off elsewhere",
    }  # fmt: skip
