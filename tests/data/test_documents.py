import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import Document, read_documents


def test_a_file_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_bytes("\ufeffzwei Wörter\r\n".encode())
    assert read_documents(path) == [Document("poem.txt", "zwei Wörter\r\n")]
    assert read_documents(str(path)) == read_documents(path)


@pytest.mark.parametrize("name", ["poem.txt.gz", "poem"])
def test_gzip_is_read_whatever_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"some words"))
    assert read_documents(tmp_path / name) == [Document(name, "some words")]


def test_a_folder_is_read_in_sorted_order_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "deep.md").write_text("two")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"three"))
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "code.py").write_text("not a text")
    (tmp_path / "folder.txt").mkdir()
    found = [(document.name, document.text) for document in read_documents(tmp_path)]
    assert found == [("a.txt", "one"), ("b/deep.md", "two"), ("c.gz", "three")]


def test_without_a_source_the_topics_of_cpython() -> None:
    documents = read_documents(None)
    names = [document.name for document in documents]
    assert "specialnames" in names
    assert names == sorted(names)
    assert all(document.text.strip() for document in documents)


def test_no_paragraph_of_the_topics_stands_in_two_of_them() -> None:
    topics = [{p.strip() for p in d.text.split("\n\n")} for d in read_documents(None)]
    assert sum(map(len, topics)) == len(set.union(*topics))
    # All that CPython brings is still there.
    from pydoc_data.topics import topics as source

    everything = {p.strip() for text in source.values() for p in text.split("\n\n")}
    assert set.union(*topics) == everything


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", b"", "is empty"),
        ("blank.txt", b" \n\t", "is empty"),
        ("nul.txt", b"ab\0c", "NUL at byte 2"),
        ("latin.txt", "caf\xe9!".encode("latin-1"), r"byte 3 \(0xe9\)"),
        ("fake.gz", b"plain text", "not a whole gzip file"),
        ("cut.gz", gzip.compress(b"some words " * 50, mtime=0)[:-9], "not a whole gzip file"),
        ("bad.gz", gzip.compress(b"words", mtime=0)[:10] + b"\xff" * 20, "not a whole gzip file"),
        ("binary.gz", gzip.compress(b"x\0", mtime=0), "NUL at byte 1"),
    ],
)
def test_what_is_no_text_is_refused(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    for source in (tmp_path / name, tmp_path):
        with pytest.raises(UserError, match=f"{name}.* {message}"):
            read_documents(source)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file or folder .*nowhere"):
        read_documents(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"holds no \.txt"):
        read_documents(tmp_path)
    with pytest.raises(UserError, match="the source is empty"):
        read_documents("")


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "locked.txt"
    path.write_text("words")

    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    # The permission itself would not stop a test that runs as root.
    monkeypatch.setattr("mnemoscope.core.bounded.os.open", refuse)
    with pytest.raises(UserError, match=r"cannot read .*locked\.txt: Permission denied"):
        read_documents(path)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put rows where the datasets library finds ``owner/name`` before it asks the hub."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "transformer_xl"))
    datasets.disable_progress_bars()

    def put(rows: list[dict[str, Any]]) -> None:
        home = tmp_path / "owner" / "name"
        home.mkdir(parents=True)
        (home / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    return put


def test_rows_of_a_hugging_face_dataset(shelf: Callable[..., None]) -> None:
    shelf([{"label": "x", "text": text} for text in ("one", "", None, " two")])
    expected = [Document("owner/name#0", "one"), Document("owner/name#3", " two")]
    assert read_documents("hf:owner/name") == expected
    assert read_documents("hf:owner/name/default") == expected


def test_a_single_column_of_strings_is_the_text(shelf: Callable[..., None]) -> None:
    shelf([{"page": 3, "story": "once"}])
    assert read_documents("hf:owner/name")[0].text == "once"


@pytest.mark.parametrize(
    ("rows", "source", "message"),
    [
        ([{"a": "x", "b": "y"}], "hf:owner/name", "no column 'text'.* its columns: a, b"),
        ([{"text": 1}], "hf:owner/name", "no column 'text'"),
        ([{"text": ""}, {"text": " "}], "hf:owner/name", "every row of column 'text' is empty"),
        ([{"text": "x"}], "hf:owner/other", "cannot load hf:owner/other"),
        ([{"text": "x"}], "hf:owner/name/odd", r"cannot load .*hf:OWNER/NAME.*'odd' not found"),
    ],
)
def test_hugging_face_mistakes_are_explained(
    rows: list[dict[str, Any]], source: str, message: str, shelf: Callable[..., None]
) -> None:
    shelf(rows)
    with pytest.raises(UserError, match=message):
        read_documents(source)


@pytest.mark.parametrize("source", ["hf:", "hf:a//b", "hf:a/b/c/d"])
def test_a_malformed_dataset_name_is_explained(source: str) -> None:
    with pytest.raises(UserError, match="is not of the form hf:OWNER/NAME"):
        read_documents(source)


def test_without_the_extra_the_message_says_how_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'mnemoscope\[data\]'"):
        read_documents("hf:owner/name")
