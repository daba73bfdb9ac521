"""Scores of replies that models of `dialogue` give, and the published ones beside them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from brought import SENTENCES
from dialogue_results import made, own_corpus

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.report.document import Table
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.metrics import compare, f1, meteor, rouge
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import DialogueResult, Replies
from mnemoscope.studies.dialogue.spoken_page import spoken_section

SAID, MEANT = "the cat sat on a mat", "The cat is on the mat!"


def test_f1_is_that_of_its_definition() -> None:
    # Without articles: cat sat on mat, cat is on mat; three of four and three of four.
    assert f1(SAID, MEANT) == pytest.approx(3 / 4)
    assert f1("", "yes") == 0


def test_rouge_is_that_of_its_definition() -> None:
    pytest.importorskip("rouge_score")
    # the cat on mat in six and six words.
    assert rouge(SAID, MEANT) == pytest.approx((4 / 6, 4 / 6))
    assert rouge("mat the", "the mat") == pytest.approx((1, 1 / 2))
    assert rouge("no", "yes") == (0, 0)


def test_meteor_matches_words_and_stems_and_needs_no_download() -> None:
    pytest.importorskip("nltk")
    # 10PR / (R + 9P) · (1 − 0.5 (pieces / words)³): one piece of three words.
    assert meteor("same words here", "same words here") == pytest.approx(1 - 0.5 / 27)
    assert meteor("two dogs", "two dog") == pytest.approx(1 - 0.5 / 8)
    # Half of four words, in one piece.
    assert meteor("one two", "one two five six") == pytest.approx(
        10 * 0.5 / (0.5 + 9) * (1 - 0.5 / 8)
    )
    assert meteor("big", "large") == 0
    assert meteor("", "yes") == 0


def test_all_scores_of_replies() -> None:
    pytest.importorskip("rouge_score")
    pytest.importorskip("nltk")
    same = compare("greedy", ["one two three four five"], ["one two three four five"])
    assert same.bleu == pytest.approx(100)
    assert (same.f1, same.rouge_1, same.rouge_l, same.count) == (1, 1, 1, 1)
    assert same.meteor == pytest.approx(1 - 0.5 / 125)
    assert same.stems


@pytest.mark.parametrize("name", ["rouge_score", "nltk"])
def test_what_scores_replies_is_asked_for_before_anything_is_trained(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("rouge_score", "nltk"):
        monkeypatch.setitem(sys.modules, other, None if other == name else sys)
    with pytest.raises(UserError, match=rf"scored by {name}: pip install 'mnemoscope\[scores\]'"):
        ms.study("dialogue", out=tmp_path / "study", jobs=1, source=str(own_corpus(tmp_path)))
    assert not (tmp_path / "study").exists()


def spoken(corpus: str, **changes: Any) -> DialogueResult:
    result = made({FLOOR: [3.0], CEILING: [1.0], "infinite_sticky": [2.0]}, corpus=corpus)
    said = tuple(
        Replies(how, 20, 0.1, 0.2, 0.15, 0.12, 1.5, **changes) for how in ("greedy", "sampled")
    )
    trials: list[Any] = []
    for one in result.trials:
        outcome: Any = one.outcome
        trials.append(replace(one, outcome=replace(outcome, replies=said)))
    return replace(result, trials=tuple(trials))


def tables_of(result: DialogueResult) -> dict[str, Table]:
    (section,) = spoken_section(Recovered(result))
    return {one.name: one for one in section.parts if isinstance(one, Table)}


def test_published_scores_stand_beside_those_of_the_same_corpus() -> None:
    tables = tables_of(spoken("cmu_dog", stems=True))
    rows = tables["Beside the published scores"].rows
    assert rows[0] == ["∞-former (sticky), published", None, 9.01, 15.37, 12.56, 7.55]
    assert [row[0] for row in rows[1:]] == [
        "FLOOR, greedy", "CEILING, greedy", "INFINITE_STICKY, greedy",
    ]  # fmt: skip
    assert rows[1][2:] == pytest.approx([10, 20, 15, 12])
    assert set(tables_of(spoken("plain"))) == {"Replies"}


def test_older_results_say_what_their_meteor_matched() -> None:
    assert "METEOR (exact)" in tables_of(spoken("plain"))["Replies"].columns
    assert "METEOR (stems)" in tables_of(spoken("plain", stems=True))["Replies"].columns


def test_a_pretrained_model_says_what_it_would_with_all_in_its_context(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("rouge_score")
    pytest.importorskip("nltk")
    import torch
    from hf_families import save_whole

    from mnemoscope.huggingface.infinite.memory import InfiniteMemory
    from mnemoscope.huggingface.loading import load_model
    from mnemoscope.huggingface.stream import HuggingFaceStream
    from mnemoscope.huggingface.untrained import untrained
    from mnemoscope.studies.dialogue.pretrained_replies import Voice

    shape: dict[str, Any] = {"max_position_embeddings": 512, "initializer_range": 0.3}
    save_whole(tmp_path / "model", SENTENCES * 9, 300, **shape)
    model, tokenizer = load_model(str(tmp_path / "model"))
    prompt = tokenizer.encode(SENTENCES.strip() * 3)

    def said(call: Any, window: int) -> tuple[str, str]:
        sampler = torch.Generator().manual_seed(0)
        return Voice(call, window, "cpu").say(prompt, tokenizer.decode, sampler)

    greedy, sampled = said(HuggingFaceStream(model), 512)
    wanted = model.generate(
        torch.tensor([prompt]), max_new_tokens=60, do_sample=False, pad_token_id=0
    )
    text = tokenizer.decode(wanted[0, len(prompt) :])
    assert greedy == text.strip().partition("\n")[0]
    # Read in pieces, and with a memory that has room for all, it says the same.
    assert said(HuggingFaceStream(model), 7) == (greedy, sampled)
    memory = InfiniteMemory(model, untrained("transformer_xl", 16, 400))
    assert said(memory, memory.options.window) == (greedy, sampled)
    memory.detach()


def test_replies_of_a_pretrained_model_are_scored_where_that_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("rouge_score")
    pytest.importorskip("nltk")
    from hf_families import save_whole

    from mnemoscope.studies.dialogue.pretrained import measure_pretrained
    from mnemoscope.studies.dialogue.pretrained_replies import speaks
    from mnemoscope.studies.dialogue.study import DialogueStudy

    corpus = own_corpus(tmp_path)
    save_whole(tmp_path / "model", corpus.read_text() + SENTENCES, 300, max_position_embeddings=512)
    options: dict[str, Any] = {
        "model": str(tmp_path / "model"), "source": str(corpus), "window": 16, "vectors": 16,
        "memories": ("transformer_xl", "documents"), "document_epochs": 2, "document_entries": 8,
        "shown": 0,
    }  # fmt: skip
    assert not speaks(DialogueStudy.preset("corpus", **options))
    study = DialogueStudy.preset("quick", **options, spoken=1)
    result = measure_pretrained(study.model_copy(update={"least_gain": -10.0}), tmp_path)
    found = Recovered(result)
    for model in (FLOOR, CEILING, "transformer_xl", "documents"):
        replies = found.trials[model][0].replies
        assert [(one.how, one.count) for one in replies] == [("greedy", 1), ("sampled", 1)]
    assert "Replies" in tables_of(result)
    assert (tmp_path / "pretrained" / "ceiling-replies.json").is_file()
