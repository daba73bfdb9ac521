"""Any bytes give texts, pairs, images and vocabularies, or a `UserError`; in bounds."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from complaints import complaint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemoscope.data import packed
from mnemoscope.data.documents import read_documents
from mnemoscope.data.images import Images
from mnemoscope.data.parallel import read_pairs
from mnemoscope.data.text import Text
from mnemoscope.data.translation import Translation
from mnemoscope.data.vocabulary import Vocabulary

READERS: dict[str, Callable[[Path], Any]] = {
    "documents": read_documents,
    "text": lambda path: Text(source=str(path), unit="bytes").batch(0, 1, seed=0, length=1),
    "pairs": lambda path: read_pairs(str(path)),
    "two files": lambda path: read_pairs(f"{path},{path}"),
    "translation": lambda path: Translation(corpus=str(path)).vocab,
    "images": lambda path: Images(source=str(path)).shape,
    "a folder of images": lambda path: Images(source=str(path.parent), side=4).shape,
    "a vocabulary": Vocabulary.load,
}

WHOLE = {
    "text": b"once upon a time\tes war einmal\nthe end\tdas Ende\n",
    "idx": b"\0\0\x08\x03" + struct.pack(">III", 2, 2, 2) + bytes(8),
    "vocabulary": b'{"unit": "characters", "content": "abc"}',
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytes")


def _damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    cut = st.integers(0, len(whole)).map(lambda end: whole[:end])
    flip = st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)).map(
        lambda change: whole[: change[0]] + bytes([change[1]]) + whole[change[0] + 1 :]
    )
    return cut | flip


CONTENT = st.one_of(st.binary(max_size=200), *map(_damaged, WHOLE.values()))
BYTES = CONTENT | CONTENT.map(lambda plain: gzip.compress(plain, mtime=0)).flatmap(_damaged)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(content=BYTES, name=st.sampled_from(["a", "a.txt", "a.gz", "a.tsv"]))
@pytest.mark.parametrize("reader", READERS)
def test_any_bytes_are_read_or_refused(reader: str, content: bytes, name: str, home: Path) -> None:
    path = home / reader / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    if reader == "a folder of images":
        path = path.rename(path.with_name("a-idx3-ubyte"))
    _cleared()
    said = complaint(lambda: READERS[reader](path))
    assert said is None or "\n" not in said


def _cleared() -> None:
    """What was read under the same name before is not remembered."""
    from mnemoscope.data import images, text, translation

    for module in (images, text, translation):
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


@given(sizes=st.tuples(*[st.integers(0, 2**32 - 1)] * 3), data=st.binary(max_size=64))
def test_sizes_of_images_are_believed_only_if_they_are_there(
    sizes: tuple[int, int, int], data: bytes, home: Path
) -> None:
    (home / "idx").write_bytes(b"\0\0\x08\x03" + struct.pack(">III", *sizes) + data)
    _cleared()
    said = complaint(lambda: Images(source=str(home / "idx")).shape)
    assert (said is None) == (np.prod(sizes, dtype=object) == len(data) > 0 and sizes[0] > 1)


@pytest.fixture(scope="module")
def pictures() -> dict[str, bytes]:
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(0).integers(256, size=(9, 9, 3), dtype=np.uint8)
    found = {}
    for kind in ("png", "jpeg", "bmp", "gif", "ppm", "webp"):
        file = io.BytesIO()
        image.fromarray(noise).save(file, kind)
        found[kind] = file.getvalue()
    return found


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_picture_is_read_or_refused(
    data: st.DataObject, pictures: dict[str, bytes], home: Path
) -> None:
    folder = home / "pictures"
    folder.mkdir(exist_ok=True)
    kind = data.draw(st.sampled_from(sorted(pictures)))
    for name in ("a.png", "b.jpg"):
        (folder / name).write_bytes(data.draw(_damaged(pictures[kind]) | st.binary(max_size=60)))
    _cleared()
    said = complaint(lambda: Images(source=str(folder), side=4).shape)
    assert said is None or "cannot read the image" in said


def test_a_picture_that_unpacks_to_a_great_deal_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    for side in (10_000, 60_000):
        head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
        png = b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
            for kind, body in chunks
        )
        (tmp_path / "bomb.png").write_bytes(png)
        _cleared()
        said = complaint(lambda: Images(source=str(tmp_path)).shape)
        assert said is not None
        assert "decompression bomb" in said


def test_no_other_program_is_asked_to_draw(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")
    said = complaint(lambda: Images(source=str(tmp_path)).shape)
    assert said is not None
    assert "cannot identify image file" in said


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_is_not_waited_for(reader: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    said = complaint(lambda: READERS[reader](tmp_path / "pipe.png"))
    assert said is not None
    assert "regular file" in said or "holds no image" in said


@pytest.mark.parametrize("reader", ["documents", "pairs", "images"])
def test_a_small_file_that_holds_a_great_deal_is_refused(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MOST_BYTES", 1 << 20)
    with gzip.open(tmp_path / "bomb.gz", "wb") as file:
        for _ in range(64):
            file.write(b"a" * (1 << 20))
    (tmp_path / "large").write_bytes(b"a" * ((1 << 20) + 1))
    for name in ("bomb.gz", "large"):
        tracemalloc.start()
        said = complaint(partial(READERS[reader], tmp_path / name))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert said is not None
        assert f"more than the {1 << 20} bytes allowed" in said
        assert most < 16 << 20


def test_a_text_of_four_gibibytes_is_not_even_begun(tmp_path: Path) -> None:
    with open(tmp_path / "large.txt", "wb") as file:
        file.truncate(4 << 30)
    said = complaint(lambda: read_documents(tmp_path / "large.txt"))
    assert said is not None
    assert f"more than the {packed.MOST_BYTES} bytes allowed" in said


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(
    unit=st.sampled_from(["bytes", "characters", "bpe"]) | PLAIN,
    content=PLAIN | st.just({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}),
)
def test_any_vocabulary_file_is_read_or_refused(unit: Any, content: Any, home: Path) -> None:
    (home / "words.json").write_text(json.dumps({"unit": unit, "content": content}))
    said = complaint(lambda: Vocabulary.load(home / "words.json"))
    assert said is None or "\n" not in said


@pytest.mark.parametrize("content", ["[" * 100_000, "9" * 10_000, "[]", "{}", '"unit content"', ""])
def test_a_file_without_a_vocabulary_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text(content)
    assert complaint(lambda: Vocabulary.load(tmp_path / "words.json")) is not None
