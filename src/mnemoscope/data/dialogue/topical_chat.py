"""Read Topical-Chat: two people talk about three entities, with the text of each before them.

A folder of `PART.conversations.json[.gz]` and `PART.reading_sets.json[.gz]` for each part, and
`wiki.json[.gz]`. A section is the Wikipedia lead of an entity, the longer one where the two
speakers had different versions. Fun facts and newspaper articles are known by number only in what
is published, so they are no part of the document.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import Split
from mnemoscope.data.dialogue.conversation import Conversation, Document, Turn, read_json

_SPEAKERS = ("agent_1", "agent_2")
_FACTS = ("FS1", "FS2", "FS3")
_LEADS = ("shortened_wiki_lead_section", "summarized_wiki_lead_section")
_RATINGS = {"Poor": 1, "Not Good": 2, "Passable": 3, "Good": 4, "Excellent": 5}
_ENDINGS = (".conversations.json.gz", ".conversations.json")


def is_topical_chat(path: Path) -> bool:
    """Whether a folder holds conversations of Topical-Chat."""
    return bool(_parts(path))


def read_topical_chat(path: Path) -> list[Conversation]:
    """Return all conversations, part by part; their rating is the lower one of the two speakers."""
    wiki = read_json(_beside(path, "wiki"))
    try:
        leads = {kind: {number: text for text, number in wiki[kind].items()} for kind in _LEADS}
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{_beside(path, 'wiki')} has no table {error} of lead sections") from error
    found = []
    for name, file in _parts(path).items():
        conversations = read_json(file)
        sets = read_json(_beside(path, f"{name}.reading_sets"))
        for key, content in conversations.items():
            try:
                found.append(_conversation(f"{name}/{key}", content, sets[key], leads))
            # Anything may be missing, or of another kind, in a file that is not theirs.
            except (KeyError, TypeError, AttributeError) as error:
                raise UserError(f"{file}: {key} is not as in Topical-Chat ({error!r})") from error
    return found


def _parts(path: Path) -> dict[str, Path]:
    """Files of conversations by the name of their part, sorted."""
    files = sorted(file for ending in _ENDINGS for file in path.glob(f"*{ending}"))
    return {file.name.partition(".")[0]: file for file in files}


def _beside(path: Path, name: str) -> Path:
    packed = path / f"{name}.json.gz"
    return packed if packed.exists() else path / f"{name}.json"


def _conversation(
    name: str, content: Any, reading: Any, leads: dict[str, dict[int, str]]
) -> Conversation:
    entities = [reading["agent_1"][fact]["entity"] for fact in _FACTS]
    # The order differs between conversations about the same three.
    document = Document(
        ", ".join(sorted(entities)),
        tuple(_lead(entity, reading, leads) for entity in entities),
    )
    turns = tuple(
        Turn(turn["agent"], turn["message"].strip(), _section(turn, reading, entities))
        for turn in content["content"]
        if turn["message"].strip()
    )
    judged = [_RATINGS.get(one) for one in content["conversation_rating"].values()]
    return Conversation(
        name,
        document,
        turns,
        _SPEAKERS,
        rating=min((one for one in judged if one is not None), default=None),
        readers=_SPEAKERS,
        part=_part(name),
    )


def _part(name: str) -> Split | None:
    parts: tuple[Split, ...] = ("train", "valid", "test")
    return next((part for part in parts if name.startswith(part)), None)


def _lead(entity: str, reading: Any, leads: dict[str, dict[int, str]]) -> str:
    texts = [
        leads[kind][fact[kind]]
        for speaker in _SPEAKERS
        for name, fact in sorted(reading[speaker].items())
        if name in _FACTS and fact["entity"] == entity
        for kind in _LEADS
        if kind in fact
    ]
    if not texts:
        raise KeyError(f"lead section of {entity}")
    return f"{entity}: {max(texts, key=len)}"


def _section(turn: Any, reading: Any, entities: list[str]) -> int | None:
    """The section that the speaker says to have used, the first where there are several."""
    used = [name for name in turn["knowledge_source"] if name in _FACTS]
    return entities.index(reading[turn["agent"]][used[0]]["entity"]) if used else None
