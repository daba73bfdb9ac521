"""Read documents: files, folders, gzip, Hugging Face datasets, or what CPython brings along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.data.packed import read_unpacked

_SUFFIXES = (".txt", ".md", ".gz")


@dataclass(frozen=True)
class Document:
    """A text and where it came from."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """The name without what only tells how the file is written: ``emma`` of emma.txt.gz."""
        title = self.name
        for suffix in (".gz", ".txt", ".md"):
            title = title.removesuffix(suffix)
        return title or self.name


def choose(documents: list[Document], names: Sequence[str]) -> list[Document]:
    """Return the documents of these names or titles, in the order of ``documents``."""
    known = {key for document in documents for key in (document.name, document.title)}
    for name in names:
        if name not in known:
            hint = suggestion(name, [document.title for document in documents[:50]])
            raise UserError(f"there is no document {name!r}; {hint}")
    return [one for one in documents if one.name in names or one.title in names]


def read_documents(source: str | Path | None) -> list[Document]:
    """Return the documents of a source, in an order that does not depend on the machine.

    A file is one document; a folder gives one for each ``.txt``, ``.md`` or ``.gz`` file in it,
    at any depth, sorted; ``hf:OWNER/NAME[/CONFIG][:SPLIT]`` one per row of a Hugging Face dataset,
    of its train split by default; None one per topic of CPython's own English help, paragraphs told
    twice left out.
    """
    if source is None:
        return _python_topics()
    if str(source).startswith("hf:"):
        return _hugging_face(str(source))
    if not str(source).strip():
        raise UserError("the source is empty; name a file, a folder or hf:OWNER/NAME")
    path = existing(source)
    if path.is_dir():
        return _folder(path)
    return [Document(path.name, read_text(path))]


def existing(source: str | Path) -> Path:
    """Return the path of a file or folder that is there."""
    try:
        path = Path(source).expanduser()
        if path.exists():
            return path
    # A name longer than any can be, a folder nobody may enter, a home nobody has.
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {str(source)[:80]!r}: {reason}") from error
    raise UserError(f"there is no file or folder {path}")


def _python_topics() -> list[Document]:
    from pydoc_data.topics import topics

    # Many topics repeat parts of longer ones; held out, they would be no test of what was learnt.
    seen: set[str] = set()
    kept = {}
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        fresh = [part for part in topics[name].split("\n\n") if part.strip() not in seen]
        seen.update(part.strip() for part in fresh)
        if fresh:
            kept[name] = "\n\n".join(fresh)
    return [Document(name, kept[name]) for name in sorted(kept)]


def _folder(path: Path) -> list[Document]:
    files = {
        file.relative_to(path).as_posix(): file
        for file in path.rglob("*")
        if file.suffix in _SUFFIXES and file.is_file()
    }
    if not files:
        raise UserError(f"the folder {path} holds no {', '.join(_SUFFIXES)} file")
    return [Document(name, read_text(files[name])) for name in sorted(files)]


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, gzip or not; what is no text is an error.

    One file may hold 2 GiB of text, unpacked (`packed.MOST_BYTES`).
    """
    data = read_unpacked(path)
    nul = data.find(b"\0")
    if nul >= 0:
        raise UserError(f"{path} is not text: NUL at byte {nul}; give UTF-8 text")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text: byte {error.start} (0x{data[error.start]:02x}) does not "
            f"decode; convert the file to UTF-8"
        ) from error
    if not text.strip():
        raise UserError(f"{path} is empty; put text in it or leave it out")
    return text


def load_dataset(source: str) -> tuple[str, Any]:
    """Return name and rows of ``hf:OWNER/NAME[/CONFIG][:SPLIT]``, by default of the train split."""
    name, config, split = _dataset_name(source)
    try:
        import datasets
    except ImportError as error:
        raise UserError(
            f"{source} needs the datasets package: pip install 'mnemoscope[data]'"
        ) from error
    try:
        return name, datasets.load_dataset(name, config, split=split)
    # Not found, no network and a missing or wrong configuration are of these two kinds.
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot load {source} (the form is hf:OWNER/NAME[/CONFIG][:SPLIT]): {error}"
        ) from error


def _hugging_face(source: str) -> list[Document]:
    name, rows = load_dataset(source)
    column = _text_column(source, rows)
    # Some datasets use empty rows as paragraph breaks; they are no documents.
    texts = [(i, text) for i, text in enumerate(rows[column]) if text and text.strip()]
    if not texts:
        raise UserError(f"{source}: every row of column {column!r} is empty")
    return [Document(f"{name}#{i}", text) for i, text in texts]


def _dataset_name(source: str) -> tuple[str, str | None, str]:
    name, colon, split = source.removeprefix("hf:").partition(":")
    parts = name.split("/")
    if len(parts) > 3 or not all(parts) or (colon and not split):
        raise UserError(
            f"{source!r} is not of the form hf:OWNER/NAME, hf:OWNER/NAME/CONFIG, either :SPLIT"
        )
    return "/".join(parts[:2]), parts[2] if len(parts) == 3 else None, split or "train"


def _text_column(source: str, rows: Any) -> str:
    kinds: dict[str, Any] = {
        name: getattr(kind, "dtype", None) for name, kind in rows.features.items()
    }
    strings = [name for name, kind in kinds.items() if kind in ("string", "large_string")]
    if "text" in strings:
        return "text"
    if len(strings) == 1:
        return strings[0]
    raise UserError(
        f"{source} has no column 'text', nor a single other column of strings; "
        f"its columns: {', '.join(kinds)}"
    )
