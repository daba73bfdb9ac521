"""From text to text: a small model that has learnt a small language, in all ways to use it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
import torch.nn.functional as F

import mnemoscope as ms
from mnemoscope.cli import main
from mnemoscope.core.errors import UserError
from mnemoscope.core.trust import trusting
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.parallel import Pair
from mnemoscope.lenses.alignment.lens import Alignment
from mnemoscope.lenses.reach.lens import Reach
from mnemoscope.models.translator import Translator
from mnemoscope.training import scores
from mnemoscope.training.config import RunConfig
from mnemoscope.training.evaluate import encode
from mnemoscope.training.loop import resume, train
from mnemoscope.training.run import Run

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ZAHLEN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
ONE = ("one two three four", "vier drei zwei eins")
TINY: dict[str, Any] = {
    "vocabulary_size": 320,
    "held_out": 0.1,
    "device": "cpu",
    "evaluate_batches": 2,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Four digits in English, and backwards in German."""
    path = tmp_path_factory.mktemp("corpus") / "digits.tsv"
    lines = []
    for n in range(0, 10_000, 7):
        digits = [n // 1000, n // 100 % 10, n // 10 % 10, n % 10]
        source = " ".join(NUMBERS[d] for d in digits)
        lines.append(f"{source}\t{' '.join(ZAHLEN[d] for d in reversed(digits))}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "digits"
    options: dict[str, Any] = {
        "corpus": corpus,
        "width": 32,
        "heads": 2,
        "lr": 0.01,
        "steps": 250,
        "batch": 64,
    }
    return ms.train("translation", "encoder_decoder", folder, **TINY, **options)


@pytest.fixture(scope="module")
def translator(run) -> Translator:
    return ms.translator(run.folder)


def test_a_translator_has_learnt_what_it_was_taught(run, translator):
    assert run.metrics()[-1]["valid_accuracy"] > 0.98
    (best,), (empty,), (other,) = translator(["nine  eight one six ", " ", "two two seven three"])
    assert (best.text, empty.text, other.text) == (
        "sechs eins acht neun",
        "",
        "drei sieben zwei zwei",
    )
    assert empty.score == 0
    assert best.log_probability < 0


def test_several_and_together_or_alone(translator):
    lines = ["nine eight one", "four", "one two three", "one one one one one"]
    together = translator(lines, best=3, batch=2)
    for line, found in zip(lines, together, strict=True):
        (alone,) = translator([line], best=3)
        assert [one.text for one in alone] == [one.text for one in found]
        for one, same in zip(alone, found, strict=True):
            assert one.score == pytest.approx(same.score, abs=1e-4)
        assert [one.score for one in found] == sorted((o.score for o in found), reverse=True)


def test_unknown_characters_are_no_obstacle(translator):
    (found,) = translator(["zero 🦉 ü ñ \u200b"])
    assert isinstance(found[0].text, str)


def test_what_a_translator_refuses(translator):
    with pytest.raises(UserError, match=r"line 2 has \d+ tokens .* one sentence a line"):
        translator(["one", "word " * 10_000])
    with pytest.raises(UserError, match="best=5 translations a line need a beam of at least 5"):
        translator(["one"], best=5)
    with pytest.raises(UserError, match="batch must be at least 1"):
        translator(["one"], batch=0)
    other: Any = ms.build("vector", vocab=9, source_vocab=9)
    with pytest.raises(UserError, match="each needs one more for the end"):
        Translator(other, translator.source, translator.target)


def test_scores_of_sacrebleu(run, translator):
    task = run.config.task
    asked = scores.gather(task.pairs("test"))
    found = scores.score(translator, asked, ends=(3, 4), beam=1)
    assert found.sentences == len(asked) == len(found.texts)
    assert found.bleu.value > 90
    assert found.chrf > 90
    assert [count for _, count, _ in found.by_length] == [len(asked)]
    assert "tok:13a" in found.signatures[0]
    assert found.signatures[1].startswith("nrefs:1|case:mixed")
    with pytest.raises(UserError, match="unknown tokenizer '13b'; did you mean '13a'"):
        scores.bleu(["a"], asked[:1], "13b")
    with pytest.raises(UserError, match="nothing to translate"):
        scores.score(translator, [])


def test_bleu_knows_several_references_and_its_own_spread():
    asked = scores.gather(
        [
            Pair("a b c d", "w x y z"),
            Pair("a b c d", "one two three four five"),
            Pair("e f g h", "k l m n o"),
        ]
    )
    assert [one.references for one in asked] == [
        ("w x y z", "one two three four five"),
        ("k l m n o",),
    ]
    right, signature = scores.bleu(["one two three four five", "k l m n o"], asked)
    assert right.value == pytest.approx(100)
    assert right.spread == pytest.approx(0)
    assert "nrefs:var" in signature
    half, _ = scores.bleu(["one two three four five", "q q q q q"], asked)
    assert 0 < half.value < 100
    assert half.spread > 0
    many = scores.gather([Pair(f"s {n}", "t") for n in range(100)], most=10)
    assert [one.source for one in many] == [f"s {n}" for n in range(0, 100, 10)]


def test_the_loss_is_that_of_training_without_smoothing(run, translator):
    task = run.config.task
    pairs = task.pairs("valid")
    asked = [scores.Asked(pair.source, (pair.target,)) for pair in pairs]
    total, count = 0.0, 0
    step = 0
    while count < sum(len(row) for row in _targets(task)):
        batch = task.batch(step, 16, seed=0, split="valid")
        targets = torch.from_numpy(batch.targets)
        with torch.no_grad():
            state = encode(translator.model, batch.source)
            logits = translator.model(torch.from_numpy(batch.tokens), state).logits
        total += float(F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum"))
        count += int((targets != NO_QUESTION).sum())
        step += 1
    assert scores.loss(translator, asked) == pytest.approx(total / count, rel=1e-4)


def _targets(task):
    from mnemoscope.data.translation import _corpus

    return _corpus(task).parts["valid"].targets


def test_the_alignment_finds_the_words_it_translates(translator):
    lens = Alignment()
    for source, target in (ONE, ("nine six two six", "sechs zwei sechs neun")):
        lens.observe(translator, source, target)
    seen = lens.result()
    layers, said, words = seen.weights.shape
    assert layers == 2
    assert (said, words) == (len(seen.target), len(seen.source))
    assert seen.source[-1] == seen.target[-1] == "∎"
    assert "".join(seen.source).replace("▁", " ") == " nine six two six∎"
    torch.testing.assert_close(torch.tensor(seen.weights.sum(2)), torch.ones(2, said).double())
    assert (seen.sharpness > seen.even).all()
    assert len(seen.table()) == said * words
    assert seen.figure().data[0].z.shape == (said, words)
    with pytest.raises(UserError, match="nothing was observed"):
        Alignment().result()
    one_vector: Any = ms.build("vector", vocab=321, source_vocab=321)
    with pytest.raises(UserError, match="one vector has none"):
        Alignment().observe(
            Translator(one_vector, translator.source, translator.target), "one", "eins"
        )


def test_no_word_depends_on_later_ones(translator):
    seen = Reach().observe(translator, *ONE)
    words, said = len(seen.source), len(seen.said)
    assert seen.influence.shape == (said, words + said)
    own = torch.tensor(seen.influence[:, words:])
    assert (own.triu(1) == 0).all()
    assert (own.tril() != 0).sum() == said * (said + 1) // 2
    assert (seen.influence[:, :words] > 0).all()
    assert seen.influence.sum(1) == pytest.approx(1)
    assert len(seen.table()) == seen.influence.size
    assert seen.figure().data[0].z.shape == seen.influence.shape


def test_a_run_goes_on_bit_for_bit_in_parts_too(corpus, tmp_path):
    options: dict[str, Any] = {
        "corpus": corpus,
        "width": 8,
        "steps": 12,
        "batch": 6,
        "accumulate": 2,
    }
    config = RunConfig.of(
        "translation", "bahdanau", {**TINY, **options, "dropout": 0.2, "checkpoint_every": 5}
    )
    whole = train(config, tmp_path / "whole", silent=True)
    cut = train(config, tmp_path / "cut", silent=True)
    (cut.folder / "model.safetensors").unlink()
    resume(cut.folder, silent=True)
    final = "model.safetensors"
    assert (cut.folder / final).read_bytes() == (whole.folder / final).read_bytes()


def test_a_step_cut_into_parts_learns_the_same(corpus, tmp_path):
    weights = []
    for parts in (1, 3):
        options: dict[str, Any] = {
            "corpus": corpus,
            "width": 8,
            "steps": 4,
            "batch": 6,
            "accumulate": parts,
        }
        config = RunConfig.of("translation", "luong", {**TINY, **options})
        weights.append(train(config, tmp_path / str(parts), silent=True).model().state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], rtol=1e-4, atol=1e-5)


def test_models_and_tasks_of_another_kind(run, corpus, tmp_path):
    with pytest.raises(UserError, match="unknown translator 'lstm'; known: bahdanau"):
        RunConfig.of("translation", "lstm", {})
    with pytest.raises(UserError, match="unknown memory 'bahdanau'"):
        RunConfig.of("copy", "bahdanau", {})
    options: dict[str, Any] = {"corpus": corpus, **TINY}
    with trusting("mnemoscope.memories.gru"):
        wrong = RunConfig.of("translation", "mnemoscope.memories.gru:GRU", options)
    with pytest.raises(UserError, match="needs a model that reads a source"):
        wrong.check()
    with pytest.raises(UserError, match="leave segment unset"):
        RunConfig.of("translation", "luong", {**options, "segment": 8}).check()
    with pytest.raises(UserError, match="leave source_vocab unset or raise it"):
        RunConfig.of("translation", "luong", {**options, "source_vocab": 9}).check()
    copied = ms.train("copy", "gru", tmp_path / "copy", lag=2, steps=2, device="cpu")
    with pytest.raises(UserError, match="was trained on copy: it cannot translate"):
        ms.translator(copied.folder)
    with pytest.raises(UserError, match="was trained on translation, not on text"):
        _ = run.vocabulary


def test_a_corpus_that_changed_is_noticed(corpus, tmp_path):
    mine = tmp_path / "mine.tsv"
    mine.write_text(Path(corpus).read_text())
    options: dict[str, Any] = {
        "corpus": str(mine),
        "width": 8,
        "steps": 3,
        "checkpoint_every": 1,
        **TINY,
    }
    run = train(RunConfig.of("translation", "vector", options), tmp_path / "run", silent=True)
    (run.folder / "model.safetensors").unlink()
    mine.write_text(mine.read_text().replace("eins", "EINS"))
    code = f"import mnemoscope as ms; ms.resume({str(run.folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is not the one it began with" in done.stderr


@pytest.fixture
def said(capsys):
    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        return capsys.readouterr().out

    return run


def test_translate_lines_and_files(run, tmp_path, said, monkeypatch):
    folder = str(run.folder)
    assert said("translate", folder, ONE[0], "six").splitlines()[0] == ONE[1]
    path = tmp_path / "lines.txt"
    path.write_text(f"{ONE[0]}\n\nnine nine zero one\n")
    expected = f"{ONE[1]}\n\neins null neun neun\n"
    assert said("translate", folder, "--file", str(path)) == expected
    with open(path) as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert said("translate", folder, "--beam", "1") == expected
    best = said("translate", folder, ONE[0], "--best", "3").splitlines()
    assert len(best) == 3
    assert best[0].split("\t")[1] == ONE[1]
    assert float(best[0].split("\t")[0]) >= float(best[1].split("\t")[0])


def test_score_shows_bleu_and_its_signature(run, said):
    told = said("score", str(run.folder), "--sentences", "30", "--beam", "1")
    assert "BLEU" in told
    assert "chrF" in told
    assert "tok:13a" in told


def test_score_of_a_given_test_is_what_sacrebleu_says_by_hand(run, tmp_path, capsys):
    sources = [ONE[0], "nine nine zero one", "four two seven three eight"]
    references = [ONE[1], "eins null acht neun", "acht drei sieben zwei vier"]
    for name, lines in (("t.en", sources), ("t.de", references)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    test = f"{tmp_path / 't.en'},{tmp_path / 't.de'}"
    with pytest.raises(SystemExit) as ended:
        main(["score", str(run.folder), "--test", test, "--beam", "2"])
    assert ended.value.code == 0
    shown = capsys.readouterr()
    texts = [said[0].text for said in run.translator()(sources, beam=2)]
    by_hand = sacrebleu.corpus_bleu(texts, [references]).score
    assert f"BLEU  {by_hand:.2f} " in shown.out
    assert "3 sentences" in shown.out
    trained = {pair.source for pair in run.config.task.pairs("train")}
    seen = sum(source in trained for source in sources)
    assert f"{seen} of 3 pairs have a source seen in training" in shown.err
    with pytest.raises(SystemExit):
        main(["score", str(run.folder), "--columns", "1,2"])
    assert "give both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["RUN", "a", "--file", "b"], "give lines or a file, not both"),
        (["RUN", "--file", "nowhere.txt"], "there is no file nowhere.txt"),
        (["nowhere", "a"], "nowhere is not a run"),
        (["RUN", "a", "--best", "9"], "need a beam of at least 9"),
        (["RUN", "x " * 10_000], "one sentence a line"),
    ],
)
def test_mistakes_in_translating_are_explained(run, words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["translate", *(str(run.folder) if word == "RUN" else word for word in words)])
    assert ended.value.code == 2
    error = " ".join(capsys.readouterr().err.split())
    assert told in error
    assert "Traceback" not in error
