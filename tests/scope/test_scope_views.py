"""What views say of a memory is what the model computes, however the text is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from reading_models import KINDS, LONG, build, read, tokens_of

from mnemoscope.activations.capture import capture
from mnemoscope.activations.streams.native_stream import NativePageStream
from mnemoscope.activations.streams.page_stream import Step
from mnemoscope.activations.streams.views.view import Part, packed, spread
from mnemoscope.memories.infinite.densities import gaussian_below


def whole(steps: list[Step], part: int) -> np.ndarray[Any, Any]:
    """Shares of all segments under each other, (tokens, tokens)."""
    rows = [np.pad(s.parts[part].shares, ((0, 0), (0, LONG - s.parts[part].shares.shape[1])))
            for s in steps]  # fmt: skip
    return np.concatenate(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_watching_changes_nothing(kind: str) -> None:
    _, steps = read(kind, [16, 16, 16])
    model, state = build(kind), None
    with torch.no_grad():
        for piece in tokens_of().split(16):
            out = model(piece[None], state)
            state = out.state
    assert state is not None
    for (name, seen), (_, plain) in zip(steps[-1].state.tensors(), state.tensors(), strict=True):
        torch.testing.assert_close(seen, plain, msg=name)
    assert steps[-1].nbytes == state.nbytes
    torch.testing.assert_close(steps[-1].logits, out.logits[0])


@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_shares_of_what_was_read(kind: str) -> None:
    _, steps = read(kind, [7, 20, 1, 20])
    read_so_far = 0
    for step in steps:
        new = len(step.logits)
        read_so_far += new
        assert step.parts
        for part in step.parts:
            assert part.shares.shape == (new, read_so_far)
            assert part.shares.min() >= 0
            future = np.triu(part.shares, read_so_far - new + 1)
            assert not future.any()
            total = part.shares.sum(1)
            if part.name.endswith("signal") and "gibbs" not in kind:
                assert total.max() <= 1 + 1e-9  # the rest lies beyond the ends of the signal
            elif read_so_far > 7 or kind not in ("rnn", "lstm", "gru"):
                np.testing.assert_allclose(total, 1, atol=1e-6)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru", "transformer", "sparse"])
def test_shares_do_not_depend_on_the_segments(kind: str) -> None:
    _, once = read(kind, [LONG])
    _, pieces = read(kind, [5, 16, 1, 26])
    for part in range(len(once[0].parts)):
        np.testing.assert_allclose(whole(pieces, part), whole(once, part), atol=1e-6)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_a_share_is_the_difference_a_skipped_token_makes(kind: str) -> None:
    model, tokens = build(kind), tokens_of(9)
    shares = NativePageStream(model).step(tokens, None, 0, []).parts[0].shares
    layer: Any = model.layers[0]
    with torch.no_grad():
        inputs = model.embedding(tokens)[None]
        for end in range(1, 10):
            apart = []
            for skipped in range(end):
                rest = [place for place in range(end) if place != skipped]
                states = []
                for places in (list(range(end)), rest):
                    drives = layer.cell.project(inputs[:, places], layer.weights)
                    state = layer.cell.start(torch.zeros(1, 8, dtype=torch.float64))
                    for drive in drives.unbind(1):
                        state, _ = layer.cell.step(drive, state, layer.weights)
                    states.append(torch.cat([tensor[0] for _, tensor in state.tensors()]))
                apart.append(float((states[0] - states[1]).abs().sum()))
            wanted = np.array(apart) / np.sum(apart)
            np.testing.assert_allclose(shares[end - 1, :end], wanted, atol=3e-5)


def test_sparse_shares_are_the_weights_that_the_lens_sees() -> None:
    model, tokens = build("sparse"), tokens_of()
    with torch.no_grad(), capture(model, "layers.1.attention.maps") as seen:
        model(tokens[None])
    looks = seen["layers.1.attention.maps"][0]  # (H, T, T)
    seen_by_page = NativePageStream(model).step(tokens, None, 0, [])
    parts = [part for part in seen_by_page.parts if part.layer == 1]
    for number, part in enumerate(parts):
        heads = looks[2 * number : 2 * number + 2].mean(0).numpy()
        np.testing.assert_allclose(part.shares, heads, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("rnn", "lstm", "gru")])
def test_every_place_of_a_memory_is_accounted_for(kind: str) -> None:
    stream, steps = read(kind, [7, 20, 1, 20])
    for panel in steps[-1].panels:
        assert panel.get("part", steps[-1].parts[0].name) in {part.name for part in steps[-1].parts}
        layer: Any = steps[-1].state.layers[panel["layer"]]
        if panel["kind"] == "signal":
            written = int(layer.signal.count[0]) * stream.views[0].signal.signal.chunk  # type: ignore[attr-defined]
            assert panel["after"] == written * stream.views[0].rate  # type: ignore[attr-defined]
        elif panel["title"] == "transformer_xl":
            assert panel["first"] == list(range(LONG - layer.cache.length, LONG))
        elif panel["title"].startswith("compressed"):
            ends = [first + panel["each"] for first in panel["first"]]
            assert ends == [*panel["first"][1:], LONG - layer.cache.length]
            assert len(ends) == layer.compressed.length
        elif kind == "transformer":
            assert panel["first"] == list(range(LONG - layer.length, LONG))
    assert sum(panel["bytes"] for panel in steps[-1].panels) <= steps[-1].nbytes


def test_kept_places_of_a_sparse_memory_are_those_of_its_pattern() -> None:
    stream, steps = read("sparse", [20, 28])
    patterns = [pattern for view in stream.views for pattern in view.attention.patterns]  # type: ignore[attr-defined]
    for panel, pattern in zip(steps[-1].panels, patterns, strict=True):
        wanted = [place for place in range(LONG) if bool(pattern.retains(place, LONG))]
        assert panel["first"] == wanted


def test_the_mass_of_a_signal_is_shared_out_whole() -> None:
    stream, steps = read("infinite", [16, 16, 16])
    view: Any = stream.views[0]
    part = next(part for part in steps[-1].parts if part.name.endswith("signal"))
    model = build("infinite")
    state = None
    with torch.no_grad():
        for piece in tokens_of().split(16):
            with capture(model, "layers.0.attention.signal.maps") as seen:
                out = model(piece[None], state)
            state = out.state
    # All mass of a density lies in [0, 1].
    np.testing.assert_allclose(part.shares.sum(1), 1, atol=1e-9)
    mean, variance = seen["layers.0.attention.signal.maps"][0].unbind(-1)
    ends = gaussian_below(mean, variance, torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert (ends.diff(dim=-1) < 1).all()
    # What the last segment wrote was not there to be looked at.
    written = int(out.state.layers[0].signal.count[0])
    assert len(view.signal.masses) == written
    before = steps[-1].panels[-1]["tokens"]
    assert before < steps[-1].panels[-1]["after"] == 4 * written
    assert not part.shares[:, before:].any()
    assert (part.shares[:, :before] > 0).all()


@pytest.mark.parametrize("kind", ["infinite", "infinite gibbs"])
def test_sticky_bins_are_those_of_the_state(kind: str) -> None:
    # One token at a time: between two writes the state counts, and the view must count the same.
    _, steps = read(kind, [1] * 42)
    layer: Any = steps[-1].state.layers[0]
    assert steps[-1].panels[-1]["tokens"] == steps[-1].panels[-1]["after"]
    masses = layer.signal.masses[0]
    assert float(masses.sum()) > 0
    shown = torch.tensor(steps[-1].panels[-1]["sticky"], dtype=torch.float64)
    torch.testing.assert_close(shown, masses / masses.sum(), atol=1e-3, rtol=1e-3)


def test_tokens_stand_in_an_even_signal_in_equal_stretches() -> None:
    stream, _ = read("infinite gibbs", [16, 16, 16])
    view: Any = stream.views[0]
    view.signal.masses = [torch.zeros(1, 0) for _ in view.signal.masses]
    steps = np.diff(view.signal._borders(len(view.signal.masses)))
    np.testing.assert_allclose(steps, 1 / len(steps), rtol=0.05)


def test_a_layer_of_another_kind_lists_its_tensors() -> None:
    from mnemoscope.activations.streams.views.plain import PlainView

    model = build("gru")
    with torch.no_grad():
        state = model(tokens_of()[None]).state
    (panel,) = PlainView(0).panels({}, None, state.layers[0], 0, LONG)
    assert panel["rows"] == [["hidden", "1 × 8", 64]]
    assert panel["bytes"] == state.nbytes


def test_spreading_and_packing_lose_nothing_that_can_be_seen() -> None:
    weights = np.array([[0.25, 0.75]])
    assert spread(weights, np.array([1, 4]), 3, 8).tolist() == [
        [0, *[0.25 / 3] * 3, *[0.25] * 3, 0]
    ]
    values = np.array([[-1.0, 0.0], [0.5, 3.0]])
    found = packed(values)
    assert (found["low"], found["high"], found["shape"]) == (-1, 3, [2, 2])
    assert packed(np.full(3, 2.0))["low"] == 2
    assert packed(np.array([np.nan, 1.0]))["low"] == 0
    assert Part(0, "a", weights).shares is weights
