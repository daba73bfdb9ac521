"""Where attention fell on the document: masses that can be known, and the part of the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from dialogue_results import made

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.data.dialogue.task import Dialogue
from mnemoscope.report.document import Figure
from mnemoscope.studies.dialogue.attention_page import attention_section
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.measure import _attended as attended
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import Attended, DialogueResult

TASK = Dialogue(sections=3, facts=2, asked=3, names=6, values=4)


def built(memory: str, **options: Any) -> Any:
    torch.manual_seed(0)
    shape: dict[str, Any] = {"width": 16, "layers": 2, "vocab": TASK.vocab}
    return ms.build(memory, **shape, **options).eval()


def test_attention_that_is_the_same_everywhere_leaves_what_chance_would() -> None:
    model = built("transformer", heads=2, context=200)
    for layer in model.layers:
        layer.attention.qkv.weight.data[:16] = 0  # queries
        layer.attention.qkv.bias.data[:16] = 0
    found = attended(model, TASK.written(TASK.conversations("test", 3)), 200)
    assert found is not None
    np.testing.assert_allclose(np.sum(found.positions, 1), found.uniform, atol=1e-4)
    np.testing.assert_allclose(np.sum(found.sections, 1), found.uniform, atol=1e-4)
    np.testing.assert_allclose(found.about, found.by_chance, atol=1e-5)


@pytest.mark.parametrize(
    ("memory", "options"),
    [
        ("transformer_xl", {"mem_len": 12}),
        ("compressive", {"mem_len": 8, "compressed_len": 8, "rate": 4}),
        ("infinite", {"mem_len": 8, "chunk": 8, "basis": 8, "sticky": True}),
    ],
)
def test_memories_that_attend_are_watched_window_by_window(
    memory: str, options: dict[str, Any]
) -> None:
    written = TASK.written(TASK.conversations("test", 2))
    found = attended(built(memory, heads=2, **options), written, 8)
    assert found is not None
    totals = np.sum(found.positions, 1)
    np.testing.assert_allclose(np.sum(found.sections, 1), totals, atol=1e-4)
    assert (totals > 0).all()
    assert (totals < 1).all()
    assert (np.array(found.about) <= totals + 1e-4).all()  # both are rounded
    assert from_plain(Attended, to_plain(found)) == found


def test_a_state_without_tokens_has_no_attention() -> None:
    assert attended(built("gru"), TASK.written(TASK.conversations("test", 1)), 8) is None


def _result(masses: dict[str, list[float]]) -> DialogueResult:
    result = made({FLOOR: [3.0] * 2, CEILING: [1.0] * 2, **{name: [2.0] * 2 for name in masses}})
    trials = []
    for one in result.trials:
        outcome: Any = one.outcome
        if one.model in masses:
            mass = masses[one.model][one.seed]
            seen = Attended(((mass, 0.1),) * 3, ((mass, 0.1),) * 3, (mass,) * 3, (0.5,) * 3,
                            (0.2,) * 3)  # fmt: skip
            outcome = replace(outcome, attended=seen)
        trials.append(replace(one, outcome=outcome))
    return replace(result, trials=tuple(trials))


def test_the_page_says_what_sticky_changes_only_where_every_seed_shows_it() -> None:
    both = {"infinite_fixed": [0.1, 0.12], "infinite_sticky": [0.3, 0.32]}
    (section,) = attention_section(Recovered(_result(both)))
    words = [part for part in section.parts if isinstance(part, str)]
    assert "INFINITE_STICKY has 0.410 of its attention on the document" in words[1]
    assert ": more (" in words[1]
    names = [part.name for part in section.parts if isinstance(part, Figure)]
    assert names == [
        "Attention over the document",
        "Attention by section",
        "Attention on the section that is spoken of",
    ]
    mixed = {"infinite_fixed": [0.1, 0.31], "infinite_sticky": [0.3, 0.32]}
    (section,) = attention_section(Recovered(_result(mixed)))
    assert "no clear difference" in str(section.parts[1])
    assert attention_section(Recovered(_result({}))) == []
