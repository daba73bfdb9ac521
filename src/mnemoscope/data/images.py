"""Predict an image pixel by pixel, row by row, as a Sparse Transformer draws it."""

from __future__ import annotations

import math
import struct
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data import documents
from mnemoscope.data.batch import Batch, Split, Task, part_sizes
from mnemoscope.data.packed import read_unpacked

Pixels = NDArray[np.uint8]

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm")
# The same to Pillow, which knows others that run programs of their own.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM")
_IDX_IMAGES = b"\x00\x00\x08\x03"  # bytes in three dimensions, as MNIST and its kin are stored


class ImageOptions(Config):
    """Which images, and how they are read."""

    source: str | None = Field(
        None, description="an idx file, a folder of images; none = the digits of scikit-learn"
    )
    levels: int = Field(16, ge=2, le=256, description="brightnesses a pixel can have")
    side: int = Field(32, ge=2, le=4096, description="pixels a side; only for a folder of images")
    colour: bool = Field(False, description="three channels a pixel; only for a folder of images")


class Images(ImageOptions, Task):
    """The next pixel of an image, read row by row, channel by channel, behind a start token.

    Ids below ``levels`` are brightnesses, the last id is the start. An image of 2 × 2 pixels with
    ``levels=4``, black and white above, grey below:

        tokens   4 0 3 1
        targets  0 3 1 2

    Held-out images are always the same ones and come in the same order, whatever the seed; those
    of the test are others, since who chooses by the held-out ones cannot report them. Ages are
    unknown, 0.
    """

    held_out: float = Field(0.1, gt=0, lt=1, description="share of the images kept for validation")
    test: float = Field(
        0.0, ge=0, lt=1, description="share kept for a test, on which none is chosen"
    )

    @model_validator(mode="after")
    def _leaves_some(self) -> Self:
        if self.held_out + self.test >= 1:
            raise ValueError(
                f"held_out={self.held_out} and test={self.test} leave nothing to learn"
            )
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns and, with colours, channels of every image."""
        return _collection(self)["train"].shape[1:]

    @property
    def vocab(self) -> int:
        """How many token ids exist: the levels and the start."""
        return self.levels + 1

    @property
    def longest(self) -> int:
        """Tokens in every episode: one a pixel and channel."""
        return math.prod(self.shape)

    def images(self, split: Split) -> Pixels:
        """Return all images of a split in levels, (count, *shape), read-only."""
        images = _collection(self)[split]
        if not len(images):
            raise UserError("no images are kept for a test; set test to a share of them")
        return images

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` images: drawn at random to train on, else in turn."""
        images = self.images(split)
        chosen = self.choose(len(images), step, size, seed, split)
        targets = images[chosen].reshape(size, -1).astype(np.int64)
        start = np.full((size, 1), self.levels, dtype=np.int64)
        tokens = np.concatenate([start, targets[:, :-1]], axis=1)
        return Batch.episodes(tokens, targets)


# A config is frozen, so it can stand for its images; a few suffice, as collections may be large.
@lru_cache(maxsize=4)
def _collection(task: Images) -> dict[Split, Pixels]:
    images, brightest = _read(task)
    parts = 3 if task.test else 2
    if len(images) < parts:
        raise UserError(
            f"{task.source} has {len(images)} image{'s' if len(images) > 1 else ''}; at least "
            f"{parts} are needed"
        )
    levels = (images.astype(np.int32) * task.levels // (brightest + 1)).astype(np.uint8)
    levels.flags.writeable = False
    held, tested = part_sizes(len(levels), task.held_out, task.test)
    # Drawn from a fixed seed: neighbours are often alike, and no run may see what is held out.
    order = np.random.default_rng(derive(0, "held out")).permutation(len(levels))
    valid, test, train = np.split(order, (held, held + tested))
    return {
        "train": levels[np.sort(train)],
        "valid": levels[np.sort(valid)],
        "test": levels[np.sort(test)],
    }


def _read(task: Images) -> tuple[Pixels, int]:
    """All images (count, rows, columns[, channels]) and the brightest value there can be."""
    if task.source is None:
        return _digits(), 16
    if not task.source.strip():
        raise UserError("the source is empty; name an idx file or a folder of images")
    path = documents.existing(task.source)
    if path.is_dir():
        return _folder(path, task.side, task.colour), 255
    return _idx(path), 255


def _digits() -> Pixels:
    """1797 handwritten digits of 8 × 8 pixels with values 0 to 16, which ship with scikit-learn."""
    from sklearn.datasets import load_digits

    images: Pixels = load_digits().images.astype(np.uint8)
    return images


def _idx(path: Path) -> Pixels:
    data = read_unpacked(path)
    if not data.startswith(_IDX_IMAGES) or len(data) < 16:
        raise UserError(
            f"{path} is no idx file of images (as train-images-idx3-ubyte of MNIST is); "
            "for other formats give a folder of images"
        )
    count, rows, columns = struct.unpack(">III", data[4:16])
    if len(data) != 16 + count * rows * columns or not count * rows * columns:
        raise UserError(
            f"{path} says it has {count} images of {rows} × {columns} pixels, but holds "
            f"{len(data) - 16} bytes of them"
        )
    return np.frombuffer(data, np.uint8, offset=16).reshape(count, rows, columns)


def _folder(path: Path, side: int, colour: bool) -> Pixels:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    indexed = [file for file in files if "idx3-ubyte" in file.name]
    if indexed:
        parts = [_idx(file) for file in indexed]
        if len({part.shape[1:] for part in parts}) > 1:
            raise UserError(f"the idx files in {path} hold images of different sizes; name one")
        return np.concatenate(parts)
    pictures = [file for file in files if file.suffix.lower() in _PICTURES]
    if not pictures:
        kinds = ", ".join(_PICTURES)
        raise UserError(f"the folder {path} holds no image ({kinds}) and no idx file")
    return np.stack([_picture(file, side, colour) for file in pictures])


def _picture(path: Path, side: int, colour: bool) -> Pixels:
    """The middle square of a picture, made ``side`` pixels wide."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise UserError("images need Pillow: pip install 'mnemoscope[images]'") from error
    try:
        with warnings.catch_warnings():
            # Pillow only warns of a small file that unpacks to a great deal.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=_FORMATS) as picture:
                square = ImageOps.fit(picture.convert("RGB" if colour else "L"), (side, side))
                return np.asarray(square, dtype=np.uint8)
    # Its decoders raise whatever they stumble over in a damaged file.
    except Exception as error:
        raise UserError(f"cannot read the image {path}: {error}") from error
