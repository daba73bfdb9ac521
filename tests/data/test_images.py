from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.data.images import Images

SHARED = Path(__file__).parents[3] / "shared" / "data" / "fashion-mnist"


def write_idx(path: Path, images: np.ndarray) -> Path:
    data = b"\x00\x00\x08\x03" + struct.pack(">III", *images.shape) + images.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(256, size=(20, 3, 5), dtype=np.uint8)


def test_the_drawn_example_of_images(tmp_path: Path, drawing, as_drawn) -> None:
    image = np.array([[0, 255], [100, 160]], dtype=np.uint8)
    path = write_idx(tmp_path / "a", np.stack([image] * 4))
    assert as_drawn(Images(source=str(path), levels=4).batch(0, 2, seed=0)) == drawing(Images)


def test_digits_come_with_scikit_learn() -> None:
    task = Images()
    assert task.shape == (8, 8)
    assert task.longest == 64
    assert len(task.images("train")) + len(task.images("valid")) == 1797
    assert task.images("train").min() == 0
    assert task.images("train").max() == 15


@pytest.mark.parametrize("name", ["a-idx3-ubyte", "a-idx3-ubyte.gz"])
def test_idx_files_are_read_alone_and_in_a_folder(
    tmp_path: Path, images: np.ndarray, name: str
) -> None:
    path = write_idx(tmp_path / name, images)
    for source in (path, tmp_path):
        task = Images(source=str(source), levels=256, held_out=0.25)
        both = np.concatenate([task.images("train"), task.images("valid")])
        assert task.images("valid").shape == (5, 3, 5)
        assert sorted(x.tobytes() for x in both) == sorted(x.tobytes() for x in images)


def test_validation_goes_through_all_held_out_images_for_every_seed(
    tmp_path: Path, images: np.ndarray
) -> None:
    task = Images(source=str(write_idx(tmp_path / "a", images)), held_out=0.3)
    seen = np.concatenate([task.batch(s, 2, seed=s, split="valid").targets for s in range(3)])
    assert np.array_equal(seen, task.images("valid").reshape(6, 15))


@pytest.mark.parametrize("colour", [False, True])
def test_a_folder_of_pictures_is_cut_square(tmp_path: Path, colour: bool) -> None:
    picture = pytest.importorskip("PIL.Image")
    (tmp_path / "deep").mkdir()
    wide = np.zeros((4, 12, 3), dtype=np.uint8)
    wide[:, 4:8] = (200, 100, 0)  # only the middle square is seen
    picture.fromarray(wide).save(tmp_path / "deep" / "wide.png")
    picture.fromarray(wide.transpose(1, 0, 2)).save(tmp_path / "tall.PNG")
    (tmp_path / "notes.txt").write_text("no picture")
    task = Images(source=str(tmp_path), side=4, colour=colour, levels=256)
    assert task.shape == ((4, 4, 3) if colour else (4, 4))
    for split in ("train", "valid"):
        pixels = task.images(split).reshape(-1, 3 if colour else 1)
        assert (pixels == ((200, 100, 0) if colour else 118)).all()


def test_mistakes_in_images_are_explained(tmp_path: Path, images: np.ndarray) -> None:
    def refuse(source: Path | str, message: str) -> None:
        with pytest.raises(UserError, match=message):
            _ = Images(source=str(source)).shape

    refuse(tmp_path / "none", "there is no file or folder")
    refuse(" ", "the source is empty")
    refuse(tmp_path, "holds no image")
    path = write_idx(tmp_path / "a", images)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    refuse(path, "20 images of 3 × 5 pixels, but holds 299 bytes")
    path.write_bytes(b"hello")
    refuse(path, "no idx file of images")
    path.write_bytes(gzip.compress(whole)[:-9])
    refuse(path, "not a whole gzip file")
    refuse(write_idx(tmp_path / "one", images[:1]), "at least 2")
    pytest.importorskip("PIL")
    (tmp_path / "bad.png").write_bytes(b"no picture at all")
    refuse(tmp_path, "cannot read the image .*bad.png")


def test_fashion_mnist_is_read() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"no Fashion-MNIST at {SHARED}")
    task = Images(source=str(SHARED))
    assert task.shape == (28, 28)
    assert len(task.images("train")) == 9000


def test_images_of_a_test_are_others(tmp_path: Path, images: np.ndarray) -> None:
    path = str(write_idx(tmp_path / "a", images))
    two, three = (Images(source=path, levels=256, held_out=0.25, test=test) for test in (0, 0.2))
    parts = [three.images(split) for split in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [11, 5, 4]
    assert sorted(x.tobytes() for part in parts for x in part) == sorted(map(bytes, images))
    assert np.array_equal(parts[1], two.images("valid"))
    with pytest.raises(UserError, match="set test to a share"):
        two.images("test")
    with pytest.raises(UserError, match="leave nothing to learn"):
        Images.make(held_out=0.5, test=0.5)
