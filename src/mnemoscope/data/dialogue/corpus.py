"""Which format a path has, and its conversations in parts to train on, to choose by, to report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import Split, part_sizes
from mnemoscope.data.dialogue.cmu_dog import is_cmu_dog, read_cmu_dog
from mnemoscope.data.dialogue.conversation import Conversation
from mnemoscope.data.dialogue.plain import is_plain, read_plain
from mnemoscope.data.dialogue.topical_chat import is_topical_chat, read_topical_chat
from mnemoscope.data.documents import existing

log = logging.getLogger(__name__)

Format = Literal["cmu_dog", "topical_chat", "plain"]
# In the order in which they are tried: a folder of Topical-Chat holds JSON files too.
_FORMATS: dict[Format, tuple[Callable[[Path], bool], Callable[[Path], list[Conversation]]]] = {
    "cmu_dog": (is_cmu_dog, read_cmu_dog),
    "topical_chat": (is_topical_chat, read_topical_chat),
    "plain": (is_plain, read_plain),
}


def recognise(source: str | Path) -> Format:
    """Say which format a file or folder has."""
    path = existing(source)
    for name, (matches, _) in _FORMATS.items():
        if matches(path):
            return name
    raise UserError(
        f"{path} holds no conversations: give the folder of CMU-DoG (Conversations, WikiData), of "
        "Topical-Chat (*.conversations.json.gz), or a JSON file as the page on dialogue describes"
    )


def read_conversations(source: str | Path) -> list[Conversation]:
    """Return the conversations of a file or folder of any known format."""
    return _FORMATS[recognise(source)][1](existing(source))


def divided(conversations: list[Conversation], held_out: float) -> dict[Split, list[Conversation]]:
    """Part conversations as their corpus does; what it leaves open, by document.

    Conversations without a part are to train on. Where there are none to train on, those to
    validate on are divided. A part that is missing is a share ``held_out`` of all documents to
    train on, one at least, with all that was said about them. Who said the same in a part held out
    is left out of the others: corpora hold conversations twice.
    """
    parts: dict[Split, list[Conversation]] = {"train": [], "valid": [], "test": []}
    for one in conversations:
        parts[one.part or "train"].append(one)
    if not parts["train"]:
        parts["train"], parts["valid"] = parts["valid"], []
    missing: list[Split] = [part for part in ("valid", "test") if not parts[part]]
    if missing:
        names = sorted({one.document.name for one in parts["train"]})
        if len(names) < 2:
            raise UserError(
                "all conversations are about one document, so none can be held out: give "
                "conversations about another, or write to which part each belongs"
            )
        share = held_out if "test" in missing else 0.0
        sizes = part_sizes(len(names), held_out, share)
        sizes = sizes if "valid" in missing else (0, sizes[1])
        # Drawn from a fixed seed: neighbours by name are alike, and no run may see them.
        order = np.random.default_rng(derive(0, "held out")).permutation(len(names))
        held: dict[str, Split] = {names[i]: "valid" for i in order[: sizes[0]]}
        held |= {names[i]: "test" for i in order[sizes[0] : sum(sizes)]}
        pool, parts["train"] = parts["train"], []
        for one in pool:
            parts[held.get(one.document.name, "train")].append(one)
    return _without_doubles(parts)


def _without_doubles(parts: dict[Split, list[Conversation]]) -> dict[Split, list[Conversation]]:
    """The test keeps all of its conversations, validation those that the test has not."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    order: tuple[Split, ...] = ("test", "valid", "train")
    for part in order:
        count = len(parts[part])
        parts[part] = [one for one in parts[part] if one.said not in seen]
        seen |= {one.said for one in parts[part]}
        if len(parts[part]) < count:
            log.warning(
                "%d conversations are left out of %s: a part held out has them too",
                count - len(parts[part]),
                part,
            )
    return parts
