"""What the pages of lenses lead with: the sentences, at the edges of what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mnemoscope.lenses.change.result import GroupedResult
from mnemoscope.lenses.extremes import Extremes, band, with_band
from mnemoscope.lenses.information.result import InformationResult
from mnemoscope.lenses.lens import Result
from mnemoscope.lenses.neighbours.result import NeighboursResult
from mnemoscope.lenses.occurrences.result import OccurrencesResult
from mnemoscope.lenses.retention.result import (
    Curve,
    Estimate,
    RetentionComparison,
    RetentionResult,
)
from mnemoscope.lenses.similarity.result import SimilarityResult
from mnemoscope.report.document import Figure, Table


def told(result: Result) -> str:
    lead, *_ = result.sections()
    return " ".join(part for part in lead.parts if isinstance(part, str))


def test_estimates_have_three_digits_and_their_band_as_many_decimals() -> None:
    assert with_band(0.5283, 0.5131, 0.5434) == "0.528 (0.513 to 0.543)"
    assert with_band(0.01, 0.0, 0.02) == "0.0100 (0.0000 to 0.0200)"
    assert with_band(123.4, 100.2, 150.7) == "123 (100 to 151)"
    assert with_band(3e-16, -1e-15, 1e-15) == "0.00 (0.00 to 0.00)"
    assert with_band(0.25, np.nan, np.nan) == "0.250"


def test_extremes_are_apart_by_what_their_bands_leave() -> None:
    values, errors = np.array([0.5, np.nan, 0.2]), np.array([0.03, np.nan, 0.04])
    ends = Extremes(["a", "b", "c"], *band(values, errors), 0.1)
    assert (ends.largest, ends.smallest) == ("a", "c")
    claim = ends.claim("a is larger")
    assert claim.effects == pytest.approx([0.3 - 2 * 0.05])
    assert claim.verdict == "seen"
    assert replace(ends, least=0.3).claim("a is larger").verdict == "not seen"
    unsure = replace(ends, low=np.full(3, np.nan)).claim("a is larger")
    assert str(unsure) == "a is larger: not judged (their errors could not be measured)"
    parts = ("the share", "Sites", "at")
    told = "largest at a, 0.500 (0.440 to 0.560), and smallest at c, 0.200 (0.120 to 0.280)."
    assert ends.sentence(*parts, seen=True) == f"The share is {told}"
    noise = "Sites are not distinguishable by the share: it is "
    assert ends.sentence(*parts, seen=False) == noise + told
    same = Extremes(["a", "b"], np.ones(2), np.ones(2), np.ones(2))
    assert same.sentence(*parts, seen=False) == f"{noise}1.00 (1.00 to 1.00) at all of them."
    alone = Extremes(["a"], np.ones(1), np.full(1, np.nan), np.full(1, np.nan))
    assert alone.sentence(*parts, seen=False) == "The share is 1.00 at a."


def grouped(**changes: Any) -> GroupedResult:
    distance = np.array([[0.4, 0.5], [0.2, 0.3]])
    found = GroupedResult(
        groups=("rank 1–10", "rank 11–20"),
        steps=("layer.0.out", "layer.1.out"),
        distance=distance,
        error=np.full((2, 2), 0.01),
        null=np.full((2, 2), 0.9),
        samples=800,
        per_dimension=100.0,
        left_out={},
        what="change",
        by="frequency",
    )
    return replace(found, **changes)


def test_change_beyond_the_noise_is_said_with_its_band_and_its_null() -> None:
    said = told(grouped())
    assert "largest for frequency rank 1–10, 0.450 (0.430 to 0.470)" in said
    assert "smallest for frequency rank 11–20, 0.250 (0.230 to 0.270)" in said
    assert "paired at random would give 0.9." in said
    assert "not distinguishable" not in said
    assert "The influence (PWCCA distance, mean over layers)" in told(grouped(what="influence"))
    assert "largest for the tag N" in told(grouped(by="tag", groups=("N", "V")))


@pytest.mark.parametrize("what", ["change", "influence"])
def test_inside_the_noise_groups_are_not_distinguishable(what: str) -> None:
    noisy = grouped(what=what, error=np.full((2, 2), 0.1))
    assert "Groups of tokens are not distinguishable" in told(noisy)
    assert noisy.claim().verdict != "seen"
    # Less than a tenth more does not count, however sure it is.
    near = np.array([[0.4, 0.5], [0.39, 0.48]])
    assert "not distinguishable" in told(grouped(distance=near, error=np.full((2, 2), 1e-6)))


def test_of_one_group_its_layers_are_compared() -> None:
    alone = grouped(
        groups=("all tokens",), distance=np.array([[0.2, 0.5]]), error=np.full((1, 2), 0.01),
        null=np.full((1, 2), 0.9), by="group",
    )  # fmt: skip
    assert "The change (PWCCA distance) is largest at layer.1.out, 0.500" in told(alone)
    same = replace(alone, distance=np.array([[0.5, 0.5]]))
    assert "Layers are not distinguishable" in told(same)
    assert "0.500 (0.480 to 0.520) at all of them" in told(same)


def test_change_near_its_null_and_from_few_tokens_is_warned_about() -> None:
    assert "some of these are not distinguishable" in told(grouped(null=np.full((2, 2), 0.51)))
    few = told(grouped(per_dimension=4.0))
    assert "Groups of tokens are not distinguishable" in few
    assert "There are 4.0 tokens for each dimension" in few
    assert "mostly bias" in few


def test_the_figure_of_change_has_bands_and_the_null() -> None:
    figure = grouped().figure()
    assert [trace.fill for trace in figure.data] == ["toself", "toself", None, None]
    (null,) = figure.layout.shapes
    assert (null.y0, null.name) == (0.9, "null: paired at random (0.9)")
    assert figure.layout.yaxis.range is None
    # Where the null would press all curves flat, it is told in the legend alone.
    small = grouped(distance=np.full((2, 2), 0.01), error=np.full((2, 2), 0.001)).figure()
    assert small.layout.yaxis.range[1] == pytest.approx(0.012 * 1.1)
    assert small.layout.shapes[0].name == "null: paired at random (0.9)"


def test_distances_of_pairs_inside_the_noise_are_not_distinguishable() -> None:
    found = SimilarityResult(
        sites=("a", "b", "c"),
        pairs=(("a", "b"), ("b", "c")),
        distance={name: np.array([0.3, 0.1]) for name in ("pwcca", "cka", "procrustes")},
        error={name: np.array([0.01, 0.01]) for name in ("pwcca", "cka", "procrustes")},
        null={name: np.array([0.9, 0.9]) for name in ("pwcca", "cka", "procrustes")},
        samples=500,
        widths={"a": 5, "b": 5, "c": 5},
        ranks={"a": 5, "b": 5, "c": 5},
    )
    assert "distance is largest between a and b, 0.300 (0.280 to 0.320)" in told(found)
    noisy = replace(found, error={name: np.array([0.1, 0.1]) for name in found.error})
    assert "Pairs of sites are not distinguishable" in told(noisy)
    assert "mostly bias" in told(replace(found, samples=20))
    first: dict[str, Any] = {
        part: {name: values[:1] for name, values in getattr(found, part).items()}
        for part in ("distance", "error", "null")
    }
    alone = replace(found, pairs=(("a", "b"),), **first)
    assert "The PWCCA distance is 0.300 (0.280 to 0.320) between a and b." in told(alone)
    assert not any(isinstance(part, Table) for part in alone.parts())


def test_what_sites_tell_is_compared_in_every_clustering() -> None:
    value = np.array([[2.0, 2.1], [1.0, 1.1]])
    whole = {"token": value}
    found = InformationResult(
        ("a", "b"), 50, whole, {"token": value * 0 + 0.1}, {"token": value * 0 + 0.01},
        {"token": value / 3}, {"token": 3.0}, {"token": 900}, value * 0 + 3.5, value * 0 + 0.2,
        np.eye(2), 20,
    )  # fmt: skip
    assert "largest at a, 2.05 (1.88 to 2.12), and smallest at b" in told(found)
    assert "Shuffled clusters would tell 0.10 nats." in told(found)
    close = replace(found, value={"token": np.array([[2.0, 2.1], [2.1, 2.0]])})
    assert "Sites are not distinguishable" in told(close)
    full = replace(found, cluster_entropy=np.array([[2.1, 2.1], [3.5, 3.5]]))
    assert "At 1 of 2 sites, 50 clusters tell nearly all that so many can" in told(full)


def test_neighbours_of_sites_that_are_all_alike_are_not_distinguishable() -> None:
    values = {"token": np.array([0.9, 0.5]), "position": np.full(2, np.nan)}
    found = NeighboursResult(
        ("a", "b"), 10, values, {name: np.full(2, 0.01) for name in values},
        {"token": 0.1, "position": np.nan}, 0.95, 500,
    )  # fmt: skip
    assert "largest at a, 0.900 (0.880 to 0.920), and smallest at b, 0.500" in told(found)
    assert "At random it would be 0.1" in told(found)
    full = replace(found, value={**values, "token": np.full(2, 0.95)})
    assert "not distinguishable" in told(full)
    assert "at all of them" in told(full)
    assert any("nothing can be said" in part for part in found.parts() if isinstance(part, str))


def test_occurrences_lie_together_where_the_nearest_dot_is_the_same_token() -> None:
    words = ("is",) * 30 + ("was",) * 30
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(60, 2))
    parted = mixed + 20 * np.array([[word == "is"] for word in words])
    found = OccurrencesResult(
        ("a", "b"), words, np.arange(60), np.stack([mixed, parted]), np.array([0.4, 0.9]), 0.1
    )
    ends, chance = found.alike()
    assert ends.values[1] == 1
    assert ends.values[0] < 0.8
    assert chance == pytest.approx(29 / 59)
    assert "largest at b, 1.00 (1.00 to 1.00), and smallest at a" in told(found)
    # Dots upon each other are not their own neighbours.
    same = replace(found, coordinates=np.zeros((2, 60, 2)), words=("is", "was") * 30)
    assert same.alike()[0].values == pytest.approx(0.5, abs=0.02)
    assert "draw several tokens" in told(replace(found, words=("is",) * 60))


def retained(model: str, bits: tuple[float, ...], half: Any, horizon: Any) -> RetentionResult:
    def curve(along: Any) -> Curve:
        few = len(bits)
        return Curve(
            x=tuple(8**at for at in range(few)), bits=bits, low=tuple(b - 0.1 for b in bits),
            high=tuple(b + 0.1 for b in bits), blanked=(0.01,) * few, shuffled=(0.02,) * few,
            most=(3.0,) * few, accuracy=(0.5,) * few, bytes=(64.0,) * few, narrowest=(64,) * few,
            along=along,
        )  # fmt: skip

    return RetentionResult(
        model, 8, 100, curve("age"), curve("items"), curve("overwrites"),
        Estimate(half, half, half), Estimate(horizon, horizon, None), max(bits), 64.0, 1000, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "half", "horizon", "said"),
    [
        ((0.0, 0.0, 0.0), 0.0, 0.0, "not distinguishable from chance at any age"),
        ((2.0, 1.9, 1.8), None, None, "More than half of what it recalls is left at age 64."),
        ((2.0, 0.8, 0.5), 6.0, None, "lost after 6 tokens (6 to 6), not all by age 64."),
        ((2.0, 0.8, 0.0), 6.0, 30.0, "the rest falls to chance after 30 tokens (30 to beyond 64)."),
        ((0.16, 0.16, 0.1), None, 40.0, "What it recalls falls to chance after 40 tokens"),
    ],
)
def test_how_long_a_memory_lasts_is_a_sentence(
    bits: tuple[float, ...], half: Any, horizon: Any, said: str
) -> None:
    found = retained("gru", bits, half, horizon)
    assert said in told(found)
    assert "at most 0.02 bits" in told(found)
    whole = " ".join(
        part for section in found.sections() for part in section.parts if isinstance(part, str)
    )
    assert "nothing to lose" not in whole
    assert "None" not in whole


def test_of_several_models_the_best_is_said_where_anything_is_left() -> None:
    gru, lstm = retained("gru", (2.0, 1.0, 0.0), 8.0, 20.0), retained("lstm", (2.5, 2, 0.1), 9, 60)
    both = RetentionComparison({"gru": gru, "lstm": lstm})
    assert "At age 8 lstm recalls most, 2.00 (1.90 to 2.10) of 3.00 bits; next is gru" in told(both)
    assert "From age 64 on, none is distinguishable from chance." in told(both)
    alike = RetentionComparison({"a": gru, "b": replace(gru, model="b")})
    assert "which is not distinguishable from b with 1.00 (0.90 to 1.10)" in told(alike)
    none = retained("rnn", (0.0, 0.0, 0.0), 0.0, 0.0)
    neither = RetentionComparison({"a": none, "b": none})
    assert "not distinguishable from chance at any age from 1 to 64" in told(neither)


def test_the_figure_of_a_finding_is_not_drawn_again() -> None:
    lead, evidence = retained("gru", (2.0, 1.0, 0.0), 8.0, 20.0).sections()
    drawn = [part.name for part in (*lead.parts, *evidence.parts) if isinstance(part, Figure)]
    assert drawn == ["Recall by age", "Recall by items", "Recall by overwrites"]
