from __future__ import annotations

import pytest

from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.studies.contenders import carrying, check_contenders, known_options
from mnemoscope.studies.dialogue.study import DialogueStudy
from mnemoscope.studies.trials import training_of
from mnemoscope.training.config import Training

GIVEN = {"chunk": 4, "rate": 2, "context": 33}
EXPECTED = {
    "transformer": {"context": 33},
    "sparse": {"context": 33},
    "transformer_xl": {"mem_len": 16},
    "compressive": {"mem_len": 6, "compressed_len": 10, "rate": 2},
    "infinite": {"mem_len": 6, "basis": 10, "chunk": 4},
}


@pytest.mark.parametrize("name", MEMORIES)
def test_what_a_memory_carries_is_set_by_the_options_it_has(name: str) -> None:
    kind = find("memory", name)
    options = carrying(kind, 16, 6, **GIVEN)
    assert options == EXPECTED.get(name, {})
    assert kind.make(vocab=5, **options)


def test_a_memory_of_somebody_else_is_given_what_its_options_ask_for() -> None:
    class Mine(Infinite):
        pass

    assert carrying(Mine, 16, 6, **GIVEN) == EXPECTED["infinite"]
    assert known_options(Mine, {"heads": 2, "cells": 3}) == {"heads": 2}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("luong", "'luong' cannot take part: it does not read a stream"),
        ("encoder", "'encoder' cannot take part"),
        ("stiky", "unknown memory 'stiky'; did you mean 'sticky'"),
        ("lstn", "unknown memory 'lstn'; did you mean 'lstm'"),
    ],
)
def test_who_cannot_take_part_is_told_why(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_contenders(("gru", name), ("sticky",))
    check_contenders(("gru", "sticky", "their.module:Memory"), ("sticky",))


@pytest.mark.parametrize("name", MEMORIES)
def test_any_memory_takes_part_in_dialogue_by_its_own_name(name: str) -> None:
    study = DialogueStudy.make(memories=name)
    config = study.configs((name,))[name]
    assert isinstance(config, find("memory", name))
    assert study.trial(name, config, 1e-3, 0).config.memory == name


def test_a_trial_is_evaluated_at_its_end_unless_it_is_told_otherwise() -> None:
    study = Training.make(steps=2000, batch=3, device="cpu", precision="bfloat16")
    found = training_of(study, lr=0.5, seed=7, batch=4)
    assert (found.steps, found.evaluate_every, found.checkpoint_every) == (2000, 2000, 400)
    assert (found.lr, found.seed, found.batch, found.keep) == (0.5, 7, 4, 1)
    assert found.precision == "bfloat16"
