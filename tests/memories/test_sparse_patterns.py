from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.memories.sparse.patterns import Part, Pattern, hops, layer_patterns, reaches_all

NAMES = ["local", "column", "block", "summary", "strided", "fixed"]


@st.composite
def patterns(draw: st.DrawFn, names: list[str] = NAMES) -> Pattern:
    stride = draw(st.one_of(st.integers(1, 12), st.sampled_from([64, 96, 130])))
    summaries = draw(st.integers(1, stride))
    return Pattern.parse(draw(st.sampled_from(names)), stride, summaries)


def pairs_of(part: Part, pattern: Pattern, length: int) -> np.ndarray:
    """Every (query, key) a part looks at, by what its spans say."""
    queries, keys = part.queries.positions(), part.keys.positions()
    if part.summaries:
        keys = pattern.summary_positions(length)[keys]
    seen = np.ones((queries.shape[1], keys.shape[1]), bool)
    if part.hidden is not None:
        seen = ~part.hidden
    query, key = np.nonzero(seen)
    return np.stack([queries[:, query].ravel(), keys[:, key].ravel()], 1)


@given(pattern=patterns(), blocks=st.integers(1, 9))
def test_parts_hold_every_pair_once(pattern: Pattern, blocks: int) -> None:
    length = pattern.stride * blocks
    parts = pattern.parts(length)
    assert parts is not None
    count = np.zeros((length, length), int)
    opened = np.zeros(length, int)
    for part in parts:
        met = pairs_of(part, pattern, length)
        np.add.at(count, (met[:, 0], met[:, 1]), 1)
        if part.opens:
            opened[part.queries.positions().ravel()] += 1
        # A query without a key would divide by zero.
        assert part.hidden is None or (~part.hidden).any(1).all()
    assert np.array_equal(count, pattern.mask(length))
    assert (opened == 1).all()


def test_masks_are_what_the_paper_draws() -> None:
    def drawn(name: str) -> list[str]:
        mask = Pattern.parse(name, 3, 1).mask(7)
        return ["".join("#" if seen else "." for seen in row) for row in mask]

    assert drawn("local")[4:] == ["..###..", "...###.", "....###"]
    assert drawn("column")[4:] == [".#..#..", "..#..#.", "#..#..#"]
    assert drawn("strided")[4:] == [".####..", "..####.", "#..####"]
    assert drawn("block")[2:] == ["###....", "...#...", "...##..", "...###.", "......#"]
    assert drawn("summary")[2:] == ["..#....", "..##...", "..#.#..", "..#..#.", "..#..##"]
    assert drawn("fixed")[2:] == ["###....", "..##...", "..###..", "..####.", "..#..##"]
    assert drawn("dense")[6] == "#######"


@settings(max_examples=50)
@given(
    pattern=patterns([*NAMES, "dense", "local+summary", "strided+fixed"]),
    length=st.integers(1, 70),
    context=st.one_of(st.none(), st.integers(1, 80)),
)
def test_pairs_and_what_is_kept_follow_from_the_mask(
    pattern: Pattern, length: int, context: int | None
) -> None:
    pattern = Pattern(pattern.sets, pattern.stride, pattern.summaries, context)
    mask = pattern.mask(length)
    assert pattern.pairs(length) == mask.sum()
    assert mask.diagonal().all()
    assert not np.triu(mask, 1).any()
    # Seen by anybody later, over a time long enough for every set to come round once.
    far = pattern.mask(length + 2 * pattern.stride)
    for now in range(1, length + 1):
        positions = np.arange(now)
        assert np.array_equal(pattern.retains(positions, now), far[now:, :now].any(0))


@given(stride=st.integers(1, 8), length=st.integers(1, 60), data=st.data())
def test_two_hops_reach_everything(stride: int, length: int, data: st.DataObject) -> None:
    summaries = data.draw(st.integers(1, stride))
    local, column, block, summary, strided, fixed = (
        Pattern.parse(name, stride, summaries) for name in NAMES
    )
    assert reaches_all([local, column], length)
    assert reaches_all([column, local], length)
    assert reaches_all([block, summary], length)
    assert reaches_all([strided, strided], length)
    assert reaches_all([fixed, fixed], length)


def test_some_patterns_do_not_reach_all_in_two_hops() -> None:
    local, column, block, summary, *_ = (Pattern.parse(name, 4, 1) for name in NAMES)
    assert not reaches_all([local, local], 16)
    assert not reaches_all([column, column], 16)
    # Summaries first: what the others in a block know can no longer get into them.
    assert not reaches_all([summary, block], 16)
    assert hops([local], 16).sum() == local.pairs(16)


def test_a_plan_repeats_over_layers_and_splits_heads() -> None:
    plan = layer_patterns("column, local|block ,strided", 5, 4, 2, context=100)
    assert [tuple(pattern.name for pattern in layer) for layer in plan] == [
        ("column",),
        ("local", "block"),
        ("strided",),
        ("column",),
        ("local", "block"),
    ]
    assert all(p.context == 100 and p.summaries == 2 for layer in plan for p in layer)
    assert Pattern.parse("column+local", 4).name == "strided"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strieded", "unknown set 'strieded'; did you mean 'strided'"),
        ("local+clumn", "unknown set 'clumn'; did you mean 'column'"),
        ("", "unknown set ''"),
    ],
)
def test_a_pattern_that_is_none(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Pattern.parse(text, 4)


@pytest.mark.parametrize(("stride", "summaries"), [(0, 1), (4, 0), (4, 5)])
def test_sizes_that_make_no_sense(stride: int, summaries: int) -> None:
    with pytest.raises(UserError, match="between 1 and stride summaries"):
        Pattern.parse("fixed", stride, summaries)
