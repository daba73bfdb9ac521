"""Read conversations that somebody wrote by hand: a JSON file, or a folder of them and of texts.

The format is described, with an example, in the guide's page on dialogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from mnemoscope.core.errors import UserError, shown, suggestion
from mnemoscope.data.batch import Split
from mnemoscope.data.dialogue.conversation import Conversation, Document, Turn, read_json
from mnemoscope.data.documents import read_text

BETWEEN_SECTIONS = "---"
_JSON = (".json", ".json.gz")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Turn(_Strict):
    speaker: str
    text: str
    section: int | None = None
    reply: bool = True


class _Conversation(_Strict):
    name: str | None = None
    document: str
    speakers: list[str]
    turns: list[_Turn]
    rating: int | None = None
    readers: list[str] = []
    part: Split | None = None


class _File(_Strict):
    documents: dict[str, list[str]] = {}
    conversations: list[_Conversation] = []


def is_plain(path: Path) -> bool:
    """Whether a path is a JSON file or a folder that holds one."""
    return bool(_json_files(path))


def read_plain(path: Path) -> list[Conversation]:
    """Return all conversations of a file, or of all files of a folder, sorted by name."""
    files = {file: _parsed(file) for file in _json_files(path)}
    documents: dict[str, Document] = {}
    for file in sorted(path.glob("*.txt")) if path.is_dir() else []:
        documents[file.stem] = Document(file.stem, _sections(read_text(file)))
    for file, content in files.items():
        for name, sections in content.documents.items():
            if name in documents:
                raise UserError(f"{file}: the document {shown(name)} is there twice: rename one")
            with _naming(file):
                documents[name] = Document(name, tuple(sections))
    found = [
        _conversation(file, number, one, documents)
        for file, content in files.items()
        for number, one in enumerate(content.conversations)
    ]
    if not found:
        raise UserError(f"{path} has documents but no conversations: write one about a document")
    return found


def _json_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for ending in _JSON for file in path.glob(f"*{ending}"))
    return [path] if path.name.endswith(_JSON) else []


def _parsed(file: Path) -> _File:
    try:
        return _File.model_validate(read_json(file))
    except ValidationError as error:
        # One mistake at a time: later ones are often the same again.
        raise UserError(f"{file}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    item = error.errors()[0]
    *place, last = item["loc"] or ("the file",)
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    where = where.removeprefix(".") or "the file"
    if item["type"] == "missing":
        return f"{where} has no {shown(last)}: write one"
    if item["type"] == "extra_forbidden":
        known = {*_File.model_fields, *_Conversation.model_fields, *_Turn.model_fields}
        return f"{where} has an unknown {shown(last)}; {suggestion(str(last), known)}"
    return f"{where}: {last}: {item['msg'].lower()} (got {shown(item['input'])})"


def _conversation(
    file: Path, number: int, one: _Conversation, documents: dict[str, Document]
) -> Conversation:
    if one.document not in documents:
        hint = suggestion(one.document, list(documents)[:50])
        raise UserError(
            f"{file}: conversations[{number}] is about an unknown document "
            f"{shown(one.document)}; {hint}"
        )
    turns = tuple(Turn(turn.speaker, turn.text, turn.section, turn.reply) for turn in one.turns)
    with _naming(file):
        return Conversation(
            f"{file.name.partition('.')[0]}/{number}" if one.name is None else one.name,
            documents[one.document],
            turns,
            tuple(one.speakers),
            one.rating,
            tuple(one.readers),
            one.part,
        )


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Let complaints name the file."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def _sections(text: str) -> tuple[str, ...]:
    """Parts of a text between lines of three dashes."""
    sections: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip() == BETWEEN_SECTIONS:
            sections.append([])
        else:
            sections[-1].append(line)
    return tuple("\n".join(lines).strip() for lines in sections)
