"""A real pretrained model is asked in context, by the definition for those that were trained."""

from __future__ import annotations

from stories import load_model

from mnemoscope.lenses.retention.episodes import RetentionOptions
from mnemoscope.lenses.retention.lens import Retention
from mnemoscope.open import open_stream


def test_stories_are_asked_in_context() -> None:
    options = RetentionOptions.make(
        ages=(1, 4, 16, 64), items=(1, 2, 4), overwrites=(0, 2), rest=16, values=8, keys=8,
        episodes=96, batch=96, segment=64, resamples=100,
    )  # fmt: skip
    stream = open_stream(load_model())
    found = Retention(stream, None, options, avoid=[0, 1, 2]).ask()
    # Five layers, four heads of 8 for keys and as many for values, of every token read.
    assert found.by_age.narrowest[0] == 5 * 2 * 4 * 8 * 4 * 8
    for curve in found.curves:
        assert max(curve.blanked) < 0.3 * max(curve.most)
        assert all(0 <= bits <= most for bits, most in zip(curve.bits, curve.most, strict=True))
    assert 0 <= found.per_byte < 8
    # So small a model never learnt to look such things up in what it reads.
    assert found.capacity < 0.5
    assert str(found.horizon) == "nothing recalled"
