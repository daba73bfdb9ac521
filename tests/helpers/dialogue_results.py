"""Results of the study `dialogue` with known numbers, and conversations written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mnemoscope.studies.dialogue.contestants import FLOOR
from mnemoscope.studies.dialogue.groups import KINDS
from mnemoscope.studies.dialogue.result import (
    DialogueModel,
    DialogueResult,
    DialogueTrial,
    Examined,
    Grid,
    ReadConversation,
    ShownConversation,
)


def made(nats: dict[str, list[float]], **changes: Any) -> DialogueResult:
    """A result of three conversations of four tokens, three of them words of the document.

    ``nats`` are losses per token of every seed; with another document, or none, they are 1 more.
    """
    counts = (4.0, 3.0, 2.0, 1.0)
    easy = (0.9, 1.0, 1.1)  # conversations differ, alike for all

    def grid(loss: float) -> Grid:
        return tuple(tuple(loss * much * count for count in counts) for much in easy)

    trials = []
    for name, losses in nats.items():
        for seed, loss in enumerate(losses):
            own = {"none": grid(loss)} if name == FLOOR else {
                "own": grid(loss), "none": grid(loss + 1), "another": grid(loss + 1),
            }  # fmt: skip
            right = {control: grid(0.25) for control in own}
            seen = Examined(own, right, loss, 1.0, ((loss, 0.0, loss),))
            trials.append(DialogueTrial(name, 1e-3, seed, f"{name}-seed{seed}", seen))
    fields: dict[str, Any] = {
        "source": "made", "window": 8, "vectors": 8, "chance": None, "unigram": 9.0,
        "least_gain": 0.05, "stopped": False, "seeds": 3, "groups": tuple(KINDS),
        "conversations": tuple(
            ReadConversation(f"c{n}", 30, 12, 2, n + 1, counts) for n in range(3)
        ),
        "warnings": (),
        "models": {name: DialogueModel(name.upper(), 10, 8, 100, 1e-3) for name in nats},
        "trials": tuple(trials),
        "shown": (
            ShownConversation("c0", ("a text",), ("a",), ("one", "<b>", "two"), (0, 0, 0),
                              (True, False, True)),
        ),
    }  # fmt: skip
    return DialogueResult(**fields | changes)


def own_corpus(folder: Path) -> Path:
    """Conversations as somebody writes them by hand."""
    subjects = ("otter", "heron", "badger", "lynx", "crane", "viper")
    parts = ("train", "train", "train", "valid", "test", "test")
    documents = {
        name: [
            f"The {name} lives by the river and hunts at night in winter.",
            f"Nobody knows how old a {name} gets, but many were counted.",
        ]
        for name in subjects
    }
    told = [
        {
            "name": f"about the {name}",
            "document": name,
            "part": part,
            "speakers": ["ann", "bob"],
            "turns": [
                {"speaker": "ann", "text": f"where does the {name} live?", "section": 0},
                {"speaker": "bob", "text": "by the river, it hunts at night", "section": 0},
                {"speaker": "ann", "text": f"how old is a {name}?", "section": 1},
                {"speaker": "bob", "text": "nobody knows that", "section": 1},
            ],
        }
        for name, part in zip(subjects, parts, strict=True)
    ]
    path = folder / "own.json"
    path.write_text(json.dumps({"documents": documents, "conversations": told}))
    return path
