from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dialogue_results import made, own_corpus
from torch import Tensor

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.data.dialogue.task import Dialogue as Task
from mnemoscope.report.document import Figure, Finding, Section, Table
from mnemoscope.studies.dialogue.claims import claims_of, findings, gate_of, stop_rule
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.groups import Groups
from mnemoscope.studies.dialogue.measure import follow, speak
from mnemoscope.studies.dialogue.page import page
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import (
    DialogueResult,
)
from mnemoscope.studies.dialogue.study import DialogueStudy
from mnemoscope.studies.study import Diverged

MEMORIES = (
    "window", "transformer_xl", "compressive", "infinite", "infinite_fixed", "infinite_sticky",
    "gru",
)  # fmt: skip
TINY: dict[str, Any] = {
    "joined": False,
    "width": 8,
    "heads": 2,
    "window": 8,
    "vectors": 8,
    "sections": 2,
    "asked": 3,
    "names": 6,
    "values": 4,
    "steps": 3,
    "warmup": 1,
    "batch": 4,
    "learning_rates": (1e-3, 3e-3),
    "seeds": 1,
    "conversations": 6,
    "shown": 2,
    "least_gain": 0.0,
}


class Uniform(torch.nn.Module):
    """Ignores all that it reads, and holds every token equally likely."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.readout = torch.nn.Linear(1, vocab)
        torch.nn.init.zeros_(self.readout.weight)
        torch.nn.init.zeros_(self.readout.bias)

    def forward(self, tokens: Tensor, state: object = None) -> Any:
        logits = torch.zeros(*tokens.shape, self.readout.out_features)
        return type("Out", (), {"logits": logits, "state": None})()

    def prefill(self, tokens: Tensor, state: object = None) -> None:
        return None


BETWEEN = {
    FLOOR: [3.0, 3.0, 3.0],
    CEILING: [1.0, 1.0, 1.0],
    "window": [3.0, 3.0, 3.0],
    "transformer_xl": [2.5, 2.5, 2.5],
    "infinite": [1.9, 2.0, 2.1],
}


def text_of(sections: list[Section]) -> str:
    return "\n".join(part for one in sections for part in one.parts if isinstance(part, str))


def test_the_share_is_what_a_memory_saves_of_what_the_ceiling_saves() -> None:
    found = Recovered(made(BETWEEN))
    assert found.share("transformer_xl").mean == pytest.approx(0.25)
    assert found.share("infinite", "document").mean == pytest.approx(0.5)
    assert found.share("window").mean == pytest.approx(0)
    assert found.shares("infinite") == pytest.approx([0.55, 0.5, 0.45])
    assert found.gain().mean == pytest.approx(2)
    # Conversations scale all losses alike, so only seeds spread a share.
    exact = found.share("transformer_xl")
    assert exact.low == pytest.approx(0.25)
    assert exact.high == pytest.approx(0.25)
    spread = found.share("infinite")
    assert 0.449 <= spread.low < 0.5 < spread.high <= 0.551


def test_a_share_where_nothing_can_be_recovered_is_no_number() -> None:
    found = Recovered(made({FLOOR: [1.0], CEILING: [1.0], "infinite": [0.5]}))
    assert np.isnan(found.share("infinite").mean)
    assert findings(found)


def test_conversations_of_one_rating_and_words() -> None:
    result = made(BETWEEN)
    best = Recovered(result, 3)
    assert best.loss(FLOOR) == pytest.approx([3.3] * 3)
    assert best.perplexity(CEILING) == pytest.approx([np.exp(1.1 * 4 / 2)] * 3)
    assert Recovered(result).loss(FLOOR) == pytest.approx([3.0] * 3)


def test_the_stop_rule_is_said_and_no_memory_is_shown() -> None:
    result = made({FLOOR: [3.0, 3.01], CEILING: [2.98, 2.99]}, stopped=True)
    found = Recovered(result)
    assert "fixed in advance" in stop_rule(found)
    assert "so the study stops here" in stop_rule(found)
    (sentence,) = findings(found)
    assert sentence.startswith("No memory can look good here")
    assert "0.020 nats" in sentence
    sections = page(result)
    assert isinstance(sections[0], Finding)
    assert "Who recovers how much" not in [one.title for one in sections]
    assert "so there is something to gain" in stop_rule(Recovered(made(BETWEEN)))


def test_claims_have_a_size_and_gates() -> None:
    claims = {one.text: one for one in claims_of(Recovered(made(BETWEEN)))}
    assert claims["INFINITE holds something of the document"].verdict == "seen"
    assert claims["INFINITE: it must be this document"].verdict == "seen"
    assert claims["WINDOW holds something of the document"].verdict == "not seen"
    assert claims["INFINITE recovers more than WINDOW"].verdict == "seen"
    worse = BETWEEN | {"infinite": [1.9, 2.0, 3.2]}
    found = Recovered(made(worse))
    assert not gate_of(found, "infinite").passed
    claims = {one.text: one for one in claims_of(found)}
    assert claims["INFINITE recovers more than WINDOW"].verdict == "not judged"
    assert "INFINITE is not compared" in findings(found)[-1]
    untaught = Recovered(made(BETWEEN, unigram=2.0))
    assert findings(untaught)[0].startswith("Nothing can be told of memories")
    known = Recovered(made(BETWEEN, chance=0.25))  # the ceiling is right in a quarter
    assert "the ceiling answers 95%" in findings(known)[0]


def test_of_one_training_conversations_must_show_what_is_claimed() -> None:
    clear = {FLOOR: [3.0], CEILING: [1.0], "window": [2.9], "infinite": [2.0]}
    verdicts = {one.text: one.verdict for one in claims_of(Recovered(made(clear)))}
    assert verdicts["INFINITE holds something of the document"] == "seen"
    assert verdicts["INFINITE recovers more than WINDOW"] == "seen"
    # The third conversation alone gains: a mean over three says nothing for others.
    result = made(clear)
    uneven: list[Any] = []
    for one in result.trials:
        outcome: Any = one.outcome
        if one.model == "infinite":
            rows = [[3.0 * 0.9 * n for n in (4, 3, 2, 1)], [3.0 * n for n in (4, 3, 2, 1)],
                    [0.5 * n for n in (4, 3, 2, 1)]]  # fmt: skip
            outcome = replace(outcome, nats=outcome.nats | {"own": tuple(map(tuple, rows))})
        uneven.append(replace(one, outcome=outcome))
    found = Recovered(replace(result, trials=tuple(uneven)))
    assert found.saved("infinite").mean > 0.5
    verdicts = {one.text: one.verdict for one in claims_of(found)}
    assert verdicts["INFINITE holds something of the document"] != "seen"
    assert verdicts["INFINITE recovers more than WINDOW"] != "seen"
    assert "in the place of seeds" in text_of(page(replace(result, trials=tuple(uneven))))
    assert "in the place of seeds" not in text_of(page(made(BETWEEN)))


def test_the_page_has_all_parts_and_escapes_what_was_said() -> None:
    result = made(BETWEEN, warnings=("One document is short",))
    sections = page(result)
    lead, *rest = sections
    assert isinstance(lead, Finding)
    assert [one.title for one in rest] == [
        "Floor and ceiling", "Who recovers how much", "Is it this document?",
        "Conversations to read", "How they were trained", "What each carries",
    ]  # fmt: skip
    assert all(len(one) < 260 for one in lead.parts if isinstance(one, str))
    assert "One document is short" in text_of(sections)
    tables = {part.name for one in sections for part in one.parts if isinstance(part, Table)}
    assert "Loss of the replies, rating 3" in tables
    coloured = next(
        part
        for one in sections
        for part in one.parts
        if isinstance(part, Figure) and part.name == "What was said in c0"
    )
    assert coloured.figure.data[0].text[0][1] == "&lt;b&gt;"
    assert [row["nats saved"] for row in coloured.data] == pytest.approx([1.0, None, 1.0])


def test_a_page_of_trainings_that_all_diverged() -> None:
    result = made(BETWEEN)
    lost = tuple(replace(one, outcome=Diverged("nan")) for one in result.trials)
    assert "diverged" in text_of(page(replace(result, trials=lost)))
    some = tuple(
        replace(one, outcome=Diverged("nan")) if one.model == CEILING else one
        for one in result.trials
    )
    assert "came to its end" in text_of(page(replace(result, trials=some)))


def test_groups_part_the_tokens_that_are_due() -> None:
    task = Task.make(sections=2, facts=2, asked=3, names=6, values=4)
    written = task.written(task.conversations("test", 5), "own")
    groups = Groups(written)
    counts = dict(zip(groups.names, groups.counts.T, strict=True))
    assert (counts["all"] == 3).all()
    assert (counts["document"] + counts["elsewhere"] == counts["all"]).all()
    assert (counts["section 1"] + counts["section 2"] == counts["document"]).all()
    assert (sum(one for name, one in counts.items() if name[:3] == "age") == 3).all()
    ones = [np.ones(int(turns.sum())) for turns in groups.turns]
    assert (groups.sums(ones) == groups.counts).all()


def test_a_model_that_ignores_the_document_loses_the_same_under_all_controls() -> None:
    task = Task.make(sections=2, facts=2, asked=3, names=6, values=4)
    held = task.conversations("test", 5)
    groups = Groups(task.written(held, "own"))
    model: Any = Uniform(task.vocab)
    sums = [
        groups.sums(follow(model, task.written(held, control), 8)[0])
        for control in ("own", "none", "another")
    ]
    assert sums[0] == pytest.approx(groups.counts * np.log(task.vocab), rel=1e-6)
    assert (sums[0] == sums[1]).all()
    assert (sums[0] == sums[2]).all()


def test_what_is_followed_in_pieces_is_the_loss_of_the_whole() -> None:
    task = Task.make(sections=2, facts=2, asked=3, names=6, values=4)
    written = task.written(task.conversations("test", 3), "own")
    torch.manual_seed(0)
    model = ms.build("transformer", vocab=task.vocab, width=16, layers=2, heads=2)
    pieces, _ = follow(model, written, 5)
    for one, found in zip(written, pieces, strict=True):
        ids = torch.from_numpy(one.ids)[None]
        with torch.no_grad():
            logs = model(ids[:, :-1]).logits.log_softmax(-1)[0]
        cost = -logs[torch.arange(len(logs)), ids[0, 1:]].numpy()
        due = np.flatnonzero(one.reply)
        turns = np.flatnonzero(one.part == 1)
        assert found[np.searchsorted(turns, due)] == pytest.approx(cost[due - 1], rel=1e-4)
        assert found.sum() == pytest.approx(cost[due - 1].sum(), rel=1e-4)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ms.api.Published]:
    folder = tmp_path_factory.mktemp("study") / "dialogue"
    return folder, ms.study("dialogue", out=folder, jobs=1, **TINY)


def test_a_small_study_runs_to_its_page(finished: tuple[Path, ms.api.Published]) -> None:
    folder, published = finished
    result = published.result
    assert set(result.models) == {FLOOR, CEILING, *MEMORIES}
    assert len(result.trials) == 9 * 2  # two rates each
    text = published.page.read_text()
    for facts in result.models.values():
        assert facts.label in text
    names = {path.stem for path in (folder / "figures").glob("*.csv")}
    assert {"share-of-the-recoverable-gain", "loss-by-what-was-read", "share-by-age"} <= names
    sizes = {name: facts.state_bytes for name, facts in result.models.items()}
    vectors = 2 * 8 * 8 * 4  # layers, vectors, width, bytes
    assert sizes["transformer_xl"] == sizes["compressive"] == vectors
    assert sizes["window"] < sizes["transformer_xl"]
    for name in ("infinite", "infinite_fixed"):
        assert sizes[name] == pytest.approx(vectors, rel=0.1)
    parameters = [facts.parameters for facts in result.models.values()]
    assert max(parameters) < 1.1 * min(parameters)


def test_a_result_of_dialogue_goes_to_json_and_back(
    finished: tuple[Path, ms.api.Published],
) -> None:
    result = finished[1].result
    plain = json.loads(json.dumps(to_plain(result)))
    assert from_plain(DialogueResult, plain) == result


def test_with_too_little_to_gain_no_memory_is_trained(tmp_path: Path) -> None:
    options = TINY | {"least_gain": 5.0, "learning_rates": (1e-3,), "seeds": 1}
    published = ms.study("dialogue", out=tmp_path / "study", jobs=1, **options)
    assert set(published.result.models) == {FLOOR, CEILING}
    assert published.result.stopped
    assert "No memory can look good here" in published.page.read_text()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return own_corpus(tmp_path)


def test_a_corpus_of_ones_own_is_read_and_spoken_about(tmp_path: Path, corpus: Path) -> None:
    pytest.importorskip("rouge_score")
    pytest.importorskip("nltk")
    options: dict[str, Any] = {
        "source": str(corpus), "memories": ("transformer_xl",), "width": 8, "heads": 2, "window": 8,
        "vectors": 8, "steps": 2, "warmup": 1, "batch": 2, "learning_rates": (1e-3,), "seeds": 1,
        "vocabulary_size": 300, "least_gain": 0.0, "spoken": 1, "shown": 1,
    }  # fmt: skip
    result = ms.study("dialogue", out=tmp_path / "study", jobs=1, **options).result
    (xl,) = [one.outcome for one in result.trials if one.model == "transformer_xl"]
    assert [one.how for one in xl.replies] == ["greedy", "sampled"]
    assert result.chance is None
    assert result.source == "own.json"
    assert "What they say" in [one.title for one in page(result)]


def test_a_short_document_and_a_long_reply_are_said_on_the_page(
    tmp_path: Path, corpus: Path
) -> None:
    content = json.loads(corpus.read_text())
    content["documents"]["crane"] = ["Cranes.", "Old."]
    content["conversations"][-1]["turns"][1]["text"] = "by the river, " * 40
    corpus.write_text(json.dumps(content))
    options: dict[str, Any] = {
        "source": str(corpus), "memories": ("gru",), "width": 8, "heads": 2, "window": 16,
        "vectors": 8, "steps": 2, "warmup": 1, "batch": 2, "learning_rates": (1e-3,), "seeds": 1,
        "vocabulary_size": 300, "least_gain": 50.0, "spoken": 0, "shown": 0,
    }  # fmt: skip
    result = ms.study("dialogue", out=tmp_path / "study", jobs=1, **options).result
    short, long = result.warnings
    assert short.startswith("1 of 2 documents are no longer than the window of 16 tokens")
    assert "conversations have a reply longer than the window of 16 tokens" in long
    words = text_of(page(result))
    assert short in words
    assert long in words
    assert "One may with a pretrained model" in words


def test_greedy_replies_do_not_depend_on_how_the_document_is_cut(corpus: Path) -> None:
    pytest.importorskip("rouge_score")
    pytest.importorskip("nltk")
    task = Task.make(source=str(corpus), vocabulary_size=300)
    held = task.conversations("test")
    torch.manual_seed(0)
    model = ms.build("gru", vocab=task.vocab, width=8)
    first, second = (speak(model, task, held, 1, segment)[0] for segment in (7, 100))
    assert first == second


def test_what_cannot_be_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    for options, words in (
        ({"vectors": 9}, "must be even"),
        ({"memories": ("nothing",)}, "unknown memory"),
    ):
        with pytest.raises(UserError, match=words):
            DialogueStudy.preset("quick", **options)
    with pytest.raises(UserError, match="no document is longer than the window"):
        ms.study("dialogue", out=tmp_path / "study", jobs=1, **TINY | {"window": 64})
