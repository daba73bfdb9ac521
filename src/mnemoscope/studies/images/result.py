"""The result of the study `images`."""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.studies.contest.result import ContestResult, Curve

Images = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Drawn(Curve):
    """A learning curve, images drawn freely and held-out images completed: brightness by pixel."""

    drawn: Images
    completed: Images


@dataclass(frozen=True)
class ImagesResult:
    """Maps are of the weights on the pixels before ``pixel``, rows of the image.

    shape      rows, columns and channels of an image
    counted    bits per dimension of a model that knows how often each pixel has each brightness
    real       the held-out images that were completed
    drawn, completed  by the first seed of each model
    """

    contest: ContestResult
    shape: tuple[int, ...]
    levels: int
    counted: float
    pixel: tuple[int, int]
    real: Images
    drawn: dict[str, Images]
    completed: dict[str, Images]
