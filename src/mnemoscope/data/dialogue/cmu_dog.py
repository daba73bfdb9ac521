"""Read CMU-DoG as its repository has it: two people talk about a film's Wikipedia article.

`Conversations/{train,valid,test}/*.json` hold the turns, `WikiData/*.json` the documents: section 0
is a table about the film, sections 1 to 3 tell its story.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import Split
from mnemoscope.data.dialogue.conversation import Conversation, Document, Turn, read_json

_SPEAKERS = ("user1", "user2")
# Of section 0, in reading order, and what stands before each.
_TABLE = {
    "movieName": "Film",
    "year": "Year",
    "director": "Director",
    "genre": "Genre",
    "cast": "Cast",
    "introduction": "Introduction",
    "rating": "Ratings",
    "critical_response": "Critics",
}


def is_cmu_dog(path: Path) -> bool:
    """Whether a folder has what the repository has."""
    return (path / "Conversations").is_dir() and (path / "WikiData").is_dir()


def read_cmu_dog(path: Path) -> list[Conversation]:
    """Return all conversations, part by part, sorted by file name."""
    documents = dict(_document(file) for file in sorted((path / "WikiData").glob("*.json")))
    if not documents:
        raise UserError(f"{path / 'WikiData'} holds no .json file: copy the documents there")
    parts: tuple[Split, ...] = get_args(Split)
    found = [
        _conversation(file, part, documents)
        for part in parts
        for file in sorted((path / "Conversations" / part).glob("*.json"))
    ]
    if not found:
        raise UserError(
            f"{path / 'Conversations'} holds no train, valid or test folder with .json files"
        )
    return found


def _document(file: Path) -> tuple[Any, Document]:
    content = read_json(file)
    try:
        table, number = content["0"], content["wikiDocumentIdx"]
        lines = [f"{label}: {_line(table[key])}" for key, label in _TABLE.items() if table.get(key)]
        story = [content[key] for key in ("1", "2", "3") if key in content]
        return number, Document(table.get("movieName", file.stem), ("\n".join(lines), *story))
    # Anything may be missing, or of another kind, in a file that is not theirs.
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is no document of CMU-DoG: {_missing(error)}") from error


def _line(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    return "; ".join(str(item).strip() for item in items)


def _conversation(file: Path, part: Split, documents: dict[Any, Document]) -> Conversation:
    content = read_json(file)
    try:
        number = content["wikiDocumentIdx"]
        if number not in documents:
            raise UserError(f"{file} is about document {number}, which WikiData does not have")
        turns = tuple(
            Turn(turn["uid"], turn["text"].strip(), turn["docIdx"])
            for turn in content["history"]
            if turn["text"].strip()  # some were sent empty
        )
        return Conversation(
            f"{part}/{file.stem}",
            documents[number],
            turns,
            _SPEAKERS,
            rating=content.get("rating"),
            readers=tuple(content.get("whoSawDoc", ())),
            part=part,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is no conversation of CMU-DoG: {_missing(error)}") from error


def _missing(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
