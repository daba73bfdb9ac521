"""Models of the study `dialogue` read running text before they learn from conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from dialogue_results import own_corpus

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.page import page
from mnemoscope.studies.dialogue.study import DialogueStudy
from mnemoscope.studies.dialogue.warm_up import warm_trial
from mnemoscope.training.run import Run

TINY: dict[str, Any] = {
    "memories": ("transformer_xl",), "width": 8, "heads": 2, "window": 8, "vectors": 8, "steps": 2,
    "warmup": 1, "batch": 2, "learning_rates": (1e-3,), "seeds": 1, "vocabulary_size": 300,
    "least_gain": 0.0, "spoken": 0, "shown": 1, "warm_steps": 3, "piece": 8,
}  # fmt: skip


def test_trainings_begin_with_what_running_text_taught(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("A walrus sings where nobody hears it. " * 20)
    options = TINY | {"source": str(own_corpus(tmp_path)), "texts": str(tmp_path / "more.txt")}
    folder = tmp_path / "study"
    study = DialogueStudy.preset("quick", **options)
    # So that a memory takes part, whatever a tiny ceiling saves after two steps.
    result = study.model_copy(update={"least_gain": -10.0}).run(folder, 1)
    runs = {path.name: path for path in (folder / "runs").iterdir() if path.name != "put-aside"}
    warm = {name for name in runs if name.startswith("warm-")}
    assert {"warm-full-seed0", "warm-transformer_xl-seed0"} <= warm
    assert set(result.warmed) == warm
    for model, begun in ((FLOOR, "full"), (CEILING, "full"), ("transformer_xl", "transformer_xl")):
        first = Run.open(runs[f"{model}-lr0.001-seed0"]).untrained().state_dict()
        taught = Run.open(runs[f"warm-{begun}-seed0"]).model().state_dict()
        assert all(torch.equal(first[key], taught[key]) for key in taught)
    words = "\n".join(one for part in page(result) for one in part.parts if isinstance(one, str))
    assert "read running text for 3 steps, the documents to train on and more.txt" in words


def test_running_text_is_read_as_conversations_are(tmp_path: Path) -> None:
    study = DialogueStudy.preset("quick", **TINY | {"source": str(own_corpus(tmp_path))})
    configs = study.configs((FLOOR, CEILING, "transformer_xl"))
    floor, ceiling, memory = (warm_trial(study, one, configs[one], 0) for one in configs)
    assert floor == ceiling
    assert floor.config.training.segment is None
    assert memory.config.training.segment == 8
    assert memory.config.task.longest == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"warm_steps": 3}, "steps on running text need a source"),
        ({"source": "talk.json", "texts": "more.txt"}, "texts are for the steps on running text"),
        (
            {"source": "talk.json", "texts": "x", "warm_steps": 1, "model": "small", "window": 8},
            "texts are to train on, and a pretrained model is not",
        ),
    ],
)
def test_running_text_that_cannot_be_read_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        DialogueStudy.preset("quick", **options)


def test_a_warm_up_that_diverges_is_told(tmp_path: Path) -> None:
    options = TINY | {"source": str(own_corpus(tmp_path)), "warm_rate": 1e18, "warmup": 0}
    with pytest.raises(UserError, match=r"came to nothing .* lower warm_rate"):
        ms.study("dialogue", out=tmp_path / "study", jobs=1, **options)
