from __future__ import annotations

import numpy as np
import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.plots.figure import heatmap
from mnemoscope.plots.images import slider, tiles


def test_tiles_put_pictures_side_by_side_with_gaps() -> None:
    pictures = np.arange(2 * 3 * 2 * 4, dtype=float).reshape(2, 3, 2, 4)
    figure = tiles(pictures, ["a", "b"], ["x", "y", "z"], "value", marked=(1, 2))
    canvas = np.asarray(figure.data[0].z)
    assert canvas.shape == (2 * 3 - 1, 3 * 5 - 1)
    np.testing.assert_array_equal(canvas[3:5, 5:9], pictures[1, 1])
    assert np.isnan(canvas[2]).all()
    assert np.isnan(canvas[:, 4]).all()
    assert list(figure.layout.xaxis.ticktext) == ["x", "y", "z"]
    assert list(figure.layout.yaxis.tickvals) == [0.5, 3.5]
    assert len(figure.layout.shapes) == 6


def test_tiles_need_a_name_for_every_row_and_column() -> None:
    with pytest.raises(UserError, match="1 rows and 2 columns of names"):
        tiles(np.zeros((1, 3, 2, 2)), ["a"], ["x", "y"], "value")


def test_a_slider_shows_one_figure_at_a_time() -> None:
    def one(value: float) -> object:
        return heatmap([[value]], ["x"], ["y"], "", "", "z")

    figure = slider({"first": one(1), "second": one(2)}, "layer")
    assert [trace.visible for trace in figure.data] == [True, False]
    steps = figure.layout.sliders[0].steps
    assert [step.label for step in steps] == ["first", "second"]
    assert steps[1].args[0]["visible"] == [False, True]
    with pytest.raises(UserError, match="at least one figure"):
        slider({}, "layer")
