"""What a study class gets from its docstring, and from the base class."""

from __future__ import annotations

import pytest
from tiny_study import Tiny, Waiting

from mnemoscope.core.errors import UserError
from mnemoscope.studies.study import Study


class Told(Study):
    """Who remembers?

    Some do,
    and some do not.
    """

    presets = {"paper": {"steps": 9}}  # noqa: RUF012
    steps: int = 3


def test_the_docstring_of_a_study_begins_its_page() -> None:
    assert Told.title == "Who remembers?"
    assert Told.question == "Some do, and some do not."


def test_a_title_that_is_said_is_kept_and_inherited() -> None:
    assert (Tiny.title, Waiting.title) == ("Tiny", "Tiny")
    assert Waiting.question == Tiny.question


def test_the_preset_quick_changes_nothing() -> None:
    assert list(Told.presets) == ["quick", "paper"]
    with pytest.raises(UserError, match="unknown preset 'papre'; did you mean 'paper'"):
        Told.preset("papre")
