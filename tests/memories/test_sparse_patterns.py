from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.memories.sparse import parts as cutting
from mnemoscope.memories.sparse.config import Sparse
from mnemoscope.memories.sparse.parts import Part, cut, summary_positions
from mnemoscope.memories.sparse.patterns import SETS, Pattern, hops, layer_patterns, reaches_all

NAMES = ["local", "column", "block", "summary", "strided", "fixed"]


# Every union of sets that there is.
ALL = ["+".join(some) for count in range(1, 6) for some in combinations(SETS, count)]


@st.composite
def patterns(draw: st.DrawFn, names: list[str] = ALL) -> Pattern:
    stride = draw(st.one_of(st.integers(1, 12), st.sampled_from([64, 96, 130])))
    summaries = draw(st.integers(1, stride))
    subblock = draw(st.integers(0, stride // summaries - 1))
    context = draw(st.one_of(st.none(), st.integers(1, 5 * stride)))
    known = Pattern.parse(draw(st.sampled_from(names)), stride, summaries, context)
    return Pattern(known.sets, stride, summaries, context, subblock)


def by_the_book(pattern: Pattern, length: int) -> np.ndarray:
    """The mask, token by token (Child 2019, section 4.3), with sub-blocks as in its release."""
    mask = np.zeros((length, length), bool)
    size, count = pattern.stride, pattern.summaries
    ends = size - pattern.subblock * count
    for i in range(length):
        for j in range(max(0, i + 1 - (pattern.context or length)), i + 1):
            mask[i, j] = i == j or any(
                {
                    "local": j > i - size,
                    "column": (i - j) % size == 0,
                    "block": i // size == j // size,
                    "summary": j % size in range(ends - count, ends),
                    "dense": True,
                }[name]
                for name in pattern.sets
            )
    return mask


@settings(max_examples=50)
@given(pattern=patterns(), length=st.integers(1, 60))
def test_masks_are_those_of_the_book(pattern: Pattern, length: int) -> None:
    assert np.array_equal(pattern.mask(length), by_the_book(pattern, length))


def pairs_of(part: Part, pattern: Pattern, length: int) -> np.ndarray:
    """Every (query, key) a part looks at, by what its spans say."""
    queries, keys = part.queries.positions(), part.keys.positions()
    if part.summaries:
        keys = summary_positions(pattern, length)[keys]
    seen = np.ones((queries.shape[1], keys.shape[1]), bool)
    if part.hidden is not None:
        seen = ~part.hidden
    query, key = np.nonzero(seen)
    return np.stack([queries[:, query].ravel(), keys[:, key].ravel()], 1)


@settings(max_examples=150)
@given(pattern=patterns(), blocks=st.integers(1, 9), small=st.booleans())
def test_parts_hold_every_pair_once(pattern: Pattern, blocks: int, small: bool) -> None:
    length = pattern.stride * blocks
    with pytest.MonkeyPatch.context() as patched:
        if small:  # cuts that else only long sequences have
            patched.setattr(cutting, "TILE", 4)
            patched.setattr(cutting, "FEW", 6)
        parts = cut(pattern, length)
    count = np.zeros((length, length), int)
    opened = np.zeros(length, int)
    for part in parts:
        met = pairs_of(part, pattern, length)
        asked = part.queries.positions().ravel()
        assert len(asked) == len(set(asked))
        if part.opens:
            assert not opened[asked].any()
            # The first to meet a query must show it something.
            assert part.hidden is None or (~part.hidden).any(1).all()
        opened[asked] |= part.opens
        assert opened[asked].all()
        np.add.at(count, (met[:, 0], met[:, 1]), 1)
    assert np.array_equal(count, pattern.mask(length))
    assert opened.all()


@pytest.mark.parametrize("context", [None, 256])
@pytest.mark.parametrize("name", ALL)
def test_what_is_cut_grows_with_the_sequence_and_not_with_its_square(
    name: str, context: int | None
) -> None:
    def hidden(length: int) -> int:
        parts = cut(Pattern.parse(name, 32, 2, context), length)
        return sum(part.hidden.size for part in parts if part.hidden is not None)

    assert hidden(1 << 14) < 5 * hidden(1 << 12) + (1 << 18)


def test_heads_take_the_sub_blocks_that_the_release_gives_them() -> None:
    # Blocks of 128 tokens, 32 a sub-block, four of them, eight heads.
    options: dict[str, Any] = {"stride": 128, "summaries": 32, "subblocks": 4, "heads": 8}
    (layer,) = Sparse.make(vocab=4, pattern="fixed", **options).patterns
    i, j = np.arange(512)[:, None], np.arange(512)
    for head, pattern in enumerate(layer):
        sub_block = 3 - head % 4
        seen = (i // 128 == j // 128) | (j % 128 // 32 == sub_block)
        assert np.array_equal(pattern.mask(512), seen & (j <= i))
    assert len(layer) == 8
    assert len({pattern.name for pattern in layer}) == 4


def test_sub_blocks_are_those_of_summaries_only() -> None:
    (layer,) = Sparse.make(
        vocab=4, pattern="local|fixed", stride=4, summaries=1, subblocks=2, heads=4
    ).patterns
    assert [pattern.name for pattern in layer] == ["local", "local", "fixed", "fixed −1"]


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
    pattern=patterns(),
    length=st.integers(1, 70),
)
def test_pairs_and_what_is_kept_follow_from_the_mask(pattern: Pattern, length: int) -> None:
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


def test_a_sub_block_that_does_not_exist() -> None:
    with pytest.raises(UserError, match="4 tokens has no sub-block 2 of 2 summaries"):
        Pattern(("block", "summary"), 4, 2, None, 2)
