"""What holds the document for a pretrained model: the memory of a contestant, attached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.untrained import Untrained, untrained
from mnemoscope.studies.dialogue.by_name import Learned
from mnemoscope.studies.dialogue.contestants import BY_NAME
from mnemoscope.studies.dialogue.read_corpus import corpus_of
from mnemoscope.studies.pretrained import reader_of

if TYPE_CHECKING:
    from mnemoscope.studies.dialogue.study import DialogueStudy

KEPT: dict[str, Untrained] = {
    "window": "carried",
    "transformer_xl": "transformer_xl",
    "compressive": "compressive",
    "infinite": "even",
    "infinite_sticky": "sticky",
}


def attached_for(
    study: DialogueStudy, contestant: str, folder: Path
) -> InfiniteMemory | Learned | None:
    """The memory of a contestant, to be detached; None for floor and ceiling."""
    model, tokenizer = reader_of(study)
    if contestant in KEPT:
        return InfiniteMemory(model, untrained(KEPT[contestant], study.window, study.vectors))
    if contestant == BY_NAME:
        return Learned(corpus_of(study).written["own"], model, tokenizer, folder)
    return None
