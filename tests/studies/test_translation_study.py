"""The study `translation`: from trainings to a page whose numbers are those of its result."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.data import grammar
from mnemoscope.report.document import Figure, Table
from mnemoscope.studies.study import Diverged, Sized
from mnemoscope.studies.translation.page import page
from mnemoscope.studies.translation.result import (
    CrossAttention,
    Dependence,
    Example,
    LengthGroup,
    Scored,
    Trained,
    TranslationResult,
)
from mnemoscope.studies.translation.sentences import fall, ranking, rates
from mnemoscope.studies.translation.study import TranslationStudy

SMALL: dict[str, Any] = {
    "parameters": 60_000,
    "steps": 6,
    "sentences": 400,
    "clauses": 2,
    "tested": 40,
}
SMALL |= {"vocabulary_size": 300, "ends": (6, 12), "device": "cpu"}


def scored(short: float, long: float, spread: float = 2.0, valid_loss: float = 1.0) -> Scored:
    """A translator with this BLEU on five words and on twenty."""
    lengths = (
        LengthGroup(5.0, 30, short, spread, 1.0, 640.0),
        LengthGroup(20.0, 10, long, spread, 3.0, 2560.4),
    )
    both = (short + long) / 2
    return Scored(both, spread, 50.0, 1.25, ("tok:13a",), lengths, valid_loss, 3.0)


def made(**changes: Any) -> TranslationResult:
    """Two models with three seeds, a third that diverged, and small maps."""
    model = {"parameters": 1000, "width": 8, "layers": 1}
    trials = [
        Trained("vector", 1e-3, 0, "vector-lr0.001-seed0", scored(1, 1, valid_loss=2.0)),
        Trained("vector", 2e-3, 0, "vector-lr0.002-seed0", scored(90, 10)),
        Trained("vector", 4e-3, 0, "vector-lr0.004-seed0", scored(1, 1, valid_loss=3.0)),
        Trained("bahdanau", 4e-3, 0, "bahdanau-lr0.004-seed0", scored(92, 91)),
        Trained("luong", 4e-3, 0, "luong-lr0.004-seed0", Diverged("the loss is nan")),
    ]
    for seed in (1, 2):
        trials += [
            Trained("vector", 2e-3, seed, f"vector-lr0.002-seed{seed}", scored(90 + seed, 10)),
            Trained("bahdanau", 4e-3, seed, f"bahdanau-lr0.004-seed{seed}", scored(92, 91 - seed)),
            Trained("luong", 4e-3, seed, f"luong-lr0.004-seed{seed}", Diverged("inf")),
        ]
    result = TranslationResult(
        corpus=None,
        pairs={"train": 300, "valid": 20, "test": 40},
        models={
            "vector": Sized(lr=2e-3, **model),
            "bahdanau": Sized(lr=4e-3, **model),
            "luong": Sized(lr=4e-3, **model),
        },
        trials=tuple(trials),
        examples=(Example("one", "eins"), Example("two", "zwei")),
        said={"vector": ("a", "b"), "bahdanau": ("c", "d")},
        cross_attention={
            "bahdanau": CrossAttention(
                ("▁two", "∎"), ("▁zwei", "∎"), ((0.75, 0.25), (0, 1)), 0.8, 0.5
            )
        },
        dependence=Dependence(
            ("▁one", "∎"), ("▷", "▁eins"), ("▁eins", "∎"), ((0.5, 0.2, 0.3, 0), (0, 0.1, 0.4, 0.5))
        ),
    )
    return replace(result, **changes)


def parts(result: TranslationResult, section: str) -> list[str | Figure | Table]:
    return next(list(one.parts) for one in page(result) if one.title == section)


def test_a_result_of_translation_goes_to_json_and_back():
    for result in (made(), made(dependence=None, corpus="pairs.tsv", cross_attention={})):
        again = from_plain(TranslationResult, json.loads(json.dumps(to_plain(result))))
        assert again == result
        assert [type(one.outcome) for one in again.trials] == [
            type(one.outcome) for one in result.trials
        ]


def test_a_page_is_drawn_from_the_result_alone():
    result = made()
    first, again = page(result), page(from_plain(TranslationResult, to_plain(result)))
    for one, two in zip(first, again, strict=True):
        assert one.title == two.title
        for left, right in zip(one.parts, two.parts, strict=True):
            if isinstance(left, Figure):
                assert isinstance(right, Figure)
                assert (left.name, left.caption, left.data) == (
                    right.name,
                    right.caption,
                    right.data,
                )
                assert left.figure.to_json() == right.figure.to_json()
            else:
                assert left == right


def test_bleu_and_bands_on_the_page_are_those_of_the_seeds():
    first, lost, carried, figure = parts(made(), "What was found")
    assert "20 words, Bahdanau attention scores highest, 90.0 BLEU, and one vector 10.0" in first
    assert "one vector loses 89% of its BLEU, Bahdanau attention loses 2% of its BLEU" in lost
    assert "one vector 640 to 2,560" in carried
    opening, table = parts(made(), "The whole test part")
    assert "learnt from 300 pairs of a made-up language pair" in opening
    gates, orders, falling = parts(made(), "Who before whom")
    # Seeds 92, 92, 92 and 90, 91, 92 meet; 89, 90, 91 and 10 do not.
    assert "(5 words): Bahdanau attention (92.0) ≈ one vector (91.0)." in orders
    assert "(20 words): Bahdanau attention (90.0) > one vector (10.0)." in orders
    assert "passed by one vector, Bahdanau attention." in str(gates)
    assert (
        "One vector goes from 91.0 at 5 words to 10.0 at 20 (11% of its best): it falls" in falling
    )
    assert "92.0 at 5 words to 90.0 at 20 (98% of its best): it falls" in falling
    assert isinstance(figure, Figure)
    assert "mean of 3 seeds" in figure.caption
    curves = {one.name: one for one in figure.figure.data if one.hoverinfo != "skip"}
    assert list(curves["one vector"].y) == [91, 10]
    assert list(curves["Bahdanau attention, wrong sentence"].y) == [1, 3]
    assert len(figure.data) == 2 * 3 * 2
    assert isinstance(table, Table)
    assert table.rows[0][:3] == ["one vector", 1000, "50.5 (50.0 to 51.0)"]
    assert "tok:13a" in table.caption


def test_one_training_has_the_bootstrapped_band():
    trials = tuple(one for one in made().trials if one.seed == 0)
    result = made(trials=trials)
    # 92 ± 2 and 90 ± 2 meet, 91 ± 2 and 10 ± 2 do not.
    both = ["Bahdanau attention", "one vector"]
    assert ranking(result, 0, both) == "Bahdanau attention (92.0) ≈ one vector (90.0)"
    assert ranking(result, 1, both) == "Bahdanau attention (91.0) > one vector (10.0)"
    assert "no fall outside the band" in fall(result, "bahdanau")
    assert fall(result, "vector").endswith("it falls")
    assert np.allclose(result.bleu("vector"), [[88, 8], [90, 10], [92, 12]])
    figure, table = (
        parts(result, "What was found")[-1],
        parts(result, "The whole test part")[-1],
    )
    assert isinstance(figure, Figure)
    assert "bootstrap" in figure.caption
    assert isinstance(table, Table)
    assert table.rows[0][2] == "50.0 ± 2.0"


def test_bytes_of_state_stand_beside_bleu():
    said, figure = parts(made(), "What lies between")
    assert "one vector 640 to 2,560 bytes" in said
    assert isinstance(figure, Figure)
    assert figure.data[1] == {"model": "one vector", "words": 20.0, "bytes": 2560, "bleu": 10.0}


def test_attention_and_dependence_are_drawn_from_their_numbers():
    _, said, figure = parts(made(), "Where it looks")
    assert said.startswith("Bahdanau attention: the source token with the highest weight gets 80%")
    assert "mean over 2 sentences; equal weights would give it 50%" in said
    assert isinstance(figure, Figure)
    assert figure.caption == "Source: two"
    assert figure.figure.data[0].z.tolist() == [[0.75, 0.25], [0, 1]]
    assert [row["weight"] for row in figure.data] == [0.75, 0.25, 0, 1]
    said, figure = parts(made(), "What each position can see")
    assert "Of the 1 tokens of the target" in said
    assert ", 0 have any influence on it; of the 4 of the source, 1 have none" in said
    assert isinstance(figure, Figure)
    shares = [float(str(row["share"])) for row in figure.data]
    assert sum(shares) == pytest.approx(2)
    assert "What each position can see" not in [one.title for one in page(made(dependence=None))]


def test_the_best_rate_is_said():
    result = made()
    assert "one vector 0.002, Bahdanau attention 0.004" in rates(result)
    assert "Of these, that of Bahdanau attention is the highest tried" in rates(result)
    assert "that of Luong attention is the highest tried" in rates(result)
    table = parts(result, "The learning rate")[1]
    assert isinstance(table, Table)
    assert table.rows[1] == ["one vector", "0.002", 1.0, ""]
    assert table.rows[-1] == ["Luong attention", "0.004", None, "the loss is nan"]
    translations = parts(result, "Read for yourself")[0]
    assert isinstance(translations, Table)
    assert translations.rows == [["one", "eins", "a", "c"], ["two", "zwei", "b", "d"]]


def test_the_translation_study_takes_validation_and_test_from_files(tmp_path: Path):
    pairs = [f"{one.source}\t{one.target}" for one in grammar.sentences(300, 1)]
    files = {"corpus": pairs[:250], "valid": pairs[250:280], "test": [*pairs[280:], pairs[0]]}
    for name, lines in files.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    paths = {name: str(tmp_path / f"{name}.tsv") for name in files}
    (tmp_path / "own.tsv").write_text("the dog sees\tla\n")
    paths["shown"] = str(tmp_path / "own.tsv")
    options = {**SMALL, "models": ("vector",), "seeds": 1, "learning_rates": (1e-3,), **paths}
    done = ms.study("translation", out=tmp_path / "s", jobs=1, **options)
    assert done.result.pairs == {"train": 249, "valid": 30, "test": 21}
    assert done.result.overlap == 1
    assert done.result.examples == (Example("the dog sees", "la"),)
    assert len(done.result.said["vector"]) == 1
    assert "was among them (1 pairs were left out for that)" in done.page.read_text()


def test_the_translation_study_from_end_to_end(tmp_path: Path):
    options: dict[str, Any] = {
        "models": ("vector", "luong", "encoder_decoder"),
        "seeds": 3,
        **SMALL,
    }
    options |= {"learning_rates": (1e-3, 3e-3)}
    done = ms.study("translation", out=tmp_path / "s", jobs=1, **options)
    text = done.page.read_text()
    for name in ("one vector", "Luong attention", "Transformer", "wrong sentence", "tok:13a"):
        assert name in text
    result = done.result
    assert len(result.trials) == 3 * (2 + 2)
    for row in result.trials:
        sizes = [group.bytes for group in row.outcome.lengths]
        if row.model == "vector":
            assert len(set(sizes)) == 1
        else:
            assert sizes == sorted(sizes)
            assert sizes[0] < sizes[-1]
        assert all(math.isfinite(group.bleu) for group in row.outcome.lengths)
    counts = [model.parameters for model in result.models.values()]
    assert max(counts) <= 60_000
    assert min(counts) > 0.85 * max(counts)
    files = {path.name for path in (tmp_path / "s" / "figures").iterdir()}
    assert {"bleu-against-source-length.csv", "bleu-against-bytes-of-state.csv"} <= files
    # One vector attends to nothing; no token said depends on a later one.
    assert list(result.cross_attention) == ["luong", "encoder_decoder"]
    for seen in result.cross_attention.values():
        assert np.sum(seen.weights, 1) == pytest.approx(1)
    share = np.array(result.dependence.share)[:, len(result.dependence.source) :]
    assert (np.triu(share, 1) == 0).all()
    # A second time nothing is trained, and the page is the same.
    again = ms.study("translation", out=tmp_path / "s", jobs=1, **options)
    assert again.page.read_text() == text


def test_a_translator_that_is_named_by_its_path_takes_part(tmp_path: Path):
    path = "mnemoscope.models.seq2seq.luong:Luong"
    options: dict[str, Any] = {"models": (path,), "seeds": 1, "learning_rates": (1e-3,), **SMALL}
    trust = "mnemoscope.models.seq2seq.luong"
    result = ms.study("translation", out=tmp_path / "s", jobs=1, trust=trust, **options).result
    assert list(result.cross_attention) == [path]
    assert result.dependence is None


def test_wrong_options_of_the_translation_study_are_explained(tmp_path: Path):
    with pytest.raises(UserError, match=r"ends: .*increasing numbers"):
        TranslationStudy.preset("quick", ends="9,6")
    with pytest.raises(UserError, match="unknown translator 'vectr'; did you mean 'vector'"):
        ms.study("translation", out=tmp_path / "s", jobs=1, models="vectr", **SMALL)
    with pytest.raises(UserError, match="lstm reads one stream and no source"):
        ms.study("translation", out=tmp_path / "s", jobs=1, models="lstm", **SMALL)
