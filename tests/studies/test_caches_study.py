"""The study `caches`: its episodes, a run of a small model, and its page from results by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.studies.caches.episodes import (
    ASKED,
    BLOCK,
    Episodes,
    Language,
    facts,
    named_pairs,
    pairs,
    repeats,
)
from mnemoscope.studies.caches.page import page
from mnemoscope.studies.caches.result import Asked, CachesResult, Model, Task, check_capacity
from mnemoscope.studies.caches.study import CachesStudy

LENGTH, AGES, ROWS = 160, (16, 48, 96, 136), 6


def spelled() -> Language:
    """Every word is one token; ends of lines and of sentences are too."""
    known: dict[str, int] = {}

    def encode(text: str) -> list[int]:
        parts = text.replace(".\n", " .\n").replace("\n", " \n ").replace(":", " : ").split(" ")
        return [known.setdefault(part, len(known)) for part in parts if part]

    return Language(encode, np.arange(1000, 1064), np.arange(2000, 3000))


def check(episodes: Episodes) -> None:
    """What is asked stood at its age, after the same tokens as in the question."""
    for question in episodes.questions:
        for row in range(ROWS):
            right = question.candidates[row, question.answers[row]]
            at = LENGTH - 1 - question.age
            assert episodes.context[row, at : at + len(right)].tolist() == right.tolist()
            cue = question.tokens[row]
            cue = cue[: len(cue) - len(right) + 1]
            # Questions of one length may begin with more ends of lines than the context has.
            cue = cue[np.flatnonzero(cue == cue[0])[-1] :] if len(right) == 1 else cue
            assert episodes.context[row, at - len(cue) : at].tolist() == cue.tolist()


def test_answers_stand_where_their_age_says():
    check(repeats(np.arange(64), LENGTH, AGES, ROWS, seed=1))
    check(pairs(np.arange(64), LENGTH, AGES, ROWS, seed=1))
    check(named_pairs(spelled(), LENGTH, AGES, ROWS, seed=1))
    check(facts(spelled(), LENGTH, AGES, ROWS, seed=1))


def test_no_key_and_no_kind_of_fact_is_told_twice():
    told = pairs(np.arange(64), LENGTH, AGES, ROWS, seed=2)
    for row, question in ((row, one) for row in range(ROWS) for one in told.questions):
        assert (told.context[row] == question.tokens[row, 0]).sum() == 1
    language = spelled()
    colon = language.encode(":")[0]
    lines = named_pairs(language, LENGTH, AGES, ROWS, seed=2).context
    assert bool(((lines == colon).sum(1) == BLOCK * len(AGES)).all())
    asked = facts(spelled(), LENGTH, AGES, ROWS, seed=2).questions
    for row in range(ROWS):
        assert len({tuple(one.candidates[row]) for one in asked}) == len(AGES)


def test_answers_are_uniform_over_the_candidates():
    """Nothing is known of them without the context: then bits are at most what the state tells."""
    told = facts(spelled(), LENGTH, AGES, 600, seed=3)
    counts = np.bincount(np.concatenate([one.answers.ravel() for one in told.questions]))
    assert len(counts) == 12
    assert np.abs(counts / counts.sum() - 1 / 12).max() < 5 * math.sqrt(1 / 12 / 2400)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("caches") / "study"
    small: dict[str, Any] = {
        "steps": 2, "seeds": 1, "episodes": 4, "batch": 4, "bits": (4,), "levels": (4,),
        "context": 80, "ages": (8, 56),
    }  # fmt: skip
    return folder, ms.study("caches", out=folder, jobs=1, **small).result


def test_evicting_caches_get_the_bytes_of_the_rounded_one_or_just_less(ran: tuple[Path, Any]):
    _, result = ran
    allowed = result.bytes("repeats", "4 bits")
    # Two layers and two heads of 32 numbers, keys and values; 64 of 80 tokens are packed.
    token = 2 * 2 * 32 * 2
    assert allowed == 64 * token // 2 + 64 * token // 32 * 4 + 16 * token * 4 + 8
    for kind, name in result.at(4).items():
        scores = 2 * 2 * 4 if kind == "h2o" else 0
        assert allowed - (4 * token + scores) < result.bytes("repeats", name) <= allowed
    assert result.bytes("repeats", "full") == 80 * token * 4 + 8


def test_a_result_goes_to_json_and_back_and_is_drawn_again(ran: tuple[Path, Any]):
    folder, result = ran
    assert from_plain(CachesResult, to_plain(result)) == result
    assert (folder / "report.html").is_file()
    assert ms.load(folder) == result


def made(bits: dict[str, list[float]], models: int = 2) -> CachesResult:
    """A result of one level: by kind, the bits recalled at every age."""
    study, rng = (
        CachesStudy.make(bits=(2,), levels=(2,), ages=(8, 40, 100)),
        np.random.default_rng(0),
    )
    task = Task(study.ages, 6.0, ASKED)

    def asked(kind: str) -> Asked:
        costs = 6.0 - np.array(bits[kind]) + rng.normal(0, 0.05, (16, 3))
        rows = tuple(map(tuple, costs.tolist()))
        whole = kind in ("full", "quantised")
        blank = ((6.0,) * 3,) * 16 if kind == "full" else ()
        return Asked(rows, 4000 if kind == "full" else 1000, 144 if whole else 36, blank)

    each = {name: asked(kind) for name, (kind, _) in study.caches.items()}
    there = tuple(Model(f"seed {n}", {"repeats": each}) for n in range(models))
    return CachesResult(144, 16, "float32", study.caches, {"repeats": task}, there)


KNOWN = {
    "full": [5.0, 5.0, 5.0],
    "quantised": [4.0, 4.0, 4.0],
    "window": [5.0, 0.0, 0.0],
    "random": [5.0, 1.0, 1.0],
    "h2o": [5.0, 1.0, 1.0],
    "snapkv": [5.0, 3.0, 1.0],
}


def told(result: CachesResult) -> list[str]:
    return [part for part in page(result)[0].parts if isinstance(part, str)]


def test_the_page_says_what_the_numbers_say():
    lost, rounded, chosen = told(made(KNOWN))
    assert "older than 36 tokens" in lost
    assert "5.0" in lost
    assert "which forgets them" in lost
    assert "recall more than a few unrounded tokens on repeats" in rounded
    assert "SnapKV beats both controls on repeats" in chosen
    worse = KNOWN | {"quantised": [1.0, 1.0, 1.0], "snapkv": [5.0, 0.0, 0.0]}
    _, rounded, chosen = told(made(worse))
    assert "do not surely recall more" in rounded
    assert "neither beats both controls on repeats" in chosen


def test_nothing_is_compared_where_nothing_is_recalled():
    (only,) = told(made(KNOWN | {"full": [0.1, 0.1, 0.1]}))
    assert "too little is recalled" in only


def test_more_than_eight_bits_a_byte_are_refused():
    asked = made(KNOWN).models[0].asked["repeats"]["full"]
    task = Task((8, 40, 100), 6.0, 4)
    check_capacity(asked, task, "full")
    with pytest.raises(AssertionError, match="holds 56 at most"):
        check_capacity(replace(asked, bytes=7), task, "full")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bits": "3"}, "each must be one of"),
        ({"ages": (8, 140)}, "within the context"),
        ({"levels": (4,), "bits": (2,)}, "must be among"),
        ({"tasks": ("facts",)}, "need a model with a tokenizer"),
        ({"dtype": "bfloat16"}, "for a model that is given"),
        ({"model": "there", "ages": (8, 20)}, "at least 28 apart"),
        ({"ages": tuple(range(8, 128, 8))}, "at most 8 ages"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str):
    with pytest.raises(UserError, match=said):
        CachesStudy.make(**options)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(UserError, match="there is no folder"):
        ms.study("caches", "model", tmp_path / "study", model=str(tmp_path / "none"))
