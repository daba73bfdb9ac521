"""Options of the study `dialogue` that do not go together. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnemoscope.studies.dialogue.contestants import BY_NAME, UNTRAINED

if TYPE_CHECKING:
    from mnemoscope.studies.dialogue.study import DialogueStudy


def check_running_text(study: DialogueStudy) -> None:
    """Refuse running text where nothing would be read."""
    if study.texts is not None and not study.warm_steps:
        raise ValueError("texts are for the steps on running text: give warm_steps too")
    if study.warm_steps and study.source is None:
        raise ValueError(
            "steps on running text need a source, whose documents they read: name one, or set "
            "warm_steps to 0"
        )


def check_pretrained(study: DialogueStudy) -> None:
    """Refuse what a pretrained model cannot do, and what only it can."""
    if study.model is None:
        if BY_NAME in study.memories:
            raise ValueError(
                f"{BY_NAME} stands behind a block of a pretrained model: give model, or leave "
                "it out"
            )
        if study.rating is not None:
            raise ValueError("rating is for a pretrained model: give model, or leave it out")
        if study.dtype != "float32":
            raise ValueError("models that are trained here compute in float32: dtype needs model")
        return
    if study.source is None:
        raise ValueError("model and source go together: the model, and what it reads")
    if study.texts is not None:
        raise ValueError("texts are to train on, and a pretrained model is not: leave them out")
    if study.window % 2 or study.window < 4 or study.vectors < study.window // 2:
        raise ValueError(
            f"a pretrained model needs an even window from 4 on and at least half as many "
            f"vectors, not window={study.window} and vectors={study.vectors}"
        )
    able = (*UNTRAINED, BY_NAME)
    unknown = [name for name in study.memories if name not in able]
    if "memories" in study.model_fields_set and unknown:
        raise ValueError(
            f"{unknown[0]!r} must be trained, and a pretrained model is not: choose from "
            f"{', '.join(able)}"
        )
