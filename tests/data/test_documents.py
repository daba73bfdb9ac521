import gzip
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mnemoscope.data.documents import Document, read_documents
from mnemoscope.errors import UserError


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
        ("cut.gz", gzip.compress(b"some words " * 50)[:-9], "not a whole gzip file"),
        ("bad.gz", gzip.compress(b"words")[:10] + b"\xff" * 20, "not a whole gzip file"),
        ("binary.gz", gzip.compress(b"x\0"), "NUL at byte 1"),
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

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    # The permission itself would not stop a test that runs as root.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UserError, match=r"cannot read .*locked\.txt: Permission denied"):
        read_documents(path)


class Rows(dict[str, list[Any]]):
    """As much of a Hugging Face dataset as is read."""

    def __init__(self, kind: str = "string", **columns: list[Any]) -> None:
        super().__init__(columns)
        self.features = {name: SimpleNamespace(dtype=kind) for name in columns}


def serve(monkeypatch: pytest.MonkeyPatch, answer: Rows | Exception) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def load_dataset(name: str, config: str | None, *, split: str) -> Rows:
        calls.append((name, config, split))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("hf:imdb", ("imdb", None, "train")),
        ("hf:owner/name", ("owner/name", None, "train")),
        ("hf:owner/name/config", ("owner/name", "config", "train")),
    ],
)
def test_rows_of_a_hugging_face_dataset(
    source: str, asked: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = serve(monkeypatch, Rows(label=["x"] * 4, text=["one", "", None, " two"]))
    documents = read_documents(source)
    assert calls == [asked]
    assert documents == [Document(f"{asked[0]}#0", "one"), Document(f"{asked[0]}#3", " two")]


def test_a_single_column_of_strings_is_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Rows(story=["once"]))
    assert read_documents("hf:o/n")[0].text == "once"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Rows(a=["x"], b=["y"]), "no column 'text'.* its columns: a, b"),
        (Rows(kind="int64", text=[1]), "no column 'text'"),
        (Rows(text=["", " "]), "every row of column 'text' is empty"),
        (FileNotFoundError("no such dataset"), "cannot load hf:o/n .*no such dataset"),
        (ValueError("Config name is missing"), "hf:OWNER/NAME.*Config name is missing"),
    ],
)
def test_hugging_face_mistakes_are_explained(
    answer: Rows | Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, answer)
    with pytest.raises(UserError, match=message):
        read_documents("hf:o/n")


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
