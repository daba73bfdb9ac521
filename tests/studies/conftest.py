"""A small study that the tests of its module share."""

from __future__ import annotations

import pytest

import mnemoscope as ms


@pytest.fixture(scope="module")
def published(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ms.Published:
    """The study that the module names, with the options it calls small."""
    name = request.module.STUDY
    return ms.study(
        name, out=tmp_path_factory.mktemp(name) / "study", jobs=1, **request.module.SMALL
    )
