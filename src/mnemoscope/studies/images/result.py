"""The result of the study `images`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mnemoscope.studies.contest.result import ContestResult

Images = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ImagesResult:
    """Maps are of the weights on the pixels before ``pixel``, rows of the image.

    shape      rows, columns and channels of an image
    counted    bits per dimension of a model that knows how often each pixel has each brightness
    neighbours the same of one that knows how often each follows the pixels to the left and above
    real       the images of the test that were completed; none where a result was shipped
    drawn, completed  by the first seed of each model; none completed without real ones
    """

    contest: ContestResult
    shape: tuple[int, ...]
    levels: int
    counted: float
    pixel: tuple[int, int]
    real: Images
    drawn: dict[str, Images]
    completed: dict[str, Images]
    neighbours: float | None = None

    def without_data(self) -> ImagesResult:
        """The same without images that are somebody else's: what may be shipped."""
        return replace(self, real=(), completed={})
