"""Sentence pairs: read, refused, split by source, batched by length."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.data import grammar
from mnemoscope.data.batch import NO_QUESTION, NO_WORD
from mnemoscope.data.parallel import Pair, read_pairs
from mnemoscope.data.sentences import Sentences
from mnemoscope.data.translation import Translation, decode, encode, split_pairs

SMALL = {"sentences": 600, "clauses": 2, "vocabulary_size": 300}


@pytest.fixture(scope="module")
def task() -> Translation:
    return Translation.make(**SMALL)


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_table_two_files_and_gzip_give_the_same(tmp_path):
    table = write(tmp_path / "a.tsv", "I see.\tIch sehe.", "", "Go!\tGeh!")
    expected = [Pair("I see.", "Ich sehe."), Pair("Go!", "Geh!")]
    assert read_pairs(table) == expected
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress((tmp_path / "a.tsv").read_bytes()))
    assert read_pairs(str(tmp_path / "b.tsv.gz")) == expected
    assert read_pairs(table, ("2", "1")) == [Pair(one.target, one.source) for one in expected]
    one = write(tmp_path / "a.en", "I see.", "Go!")
    other = write(tmp_path / "a.de", "Ich sehe.", "Geh!")
    assert read_pairs(f"{one},{other}") == expected


def test_a_third_column_is_an_attribution_or_refused(tmp_path, caplog):
    said = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (A) & #2 (B)"
    pairs = [Pair("I see.", "Ich sehe."), Pair("Go!", "Geh!")]
    lines = [f"{one.source}\t{one.target}" for one in pairs]
    with_names = write(tmp_path / "a.tsv", *(f"{line}\t{said}" for line in lines))
    assert read_pairs(with_names) == pairs
    assert "the third column of 2 lines is an attribution and left out" in caplog.text
    caplog.clear()
    assert read_pairs(with_names, ("1", "2")) == pairs
    assert read_pairs(write(tmp_path / "b.tsv", *(f"{line}\t" for line in lines))) == pairs
    assert not caplog.text
    refused = {
        "c.tsv": [*lines, "So what?\tUnd?\tDann"],  # a tab in a sentence, or a third language
        "d.tsv": [f"{n}\t{line}" for n, line in enumerate(lines)],
        "e.tsv": [f"{line}\t{said}\tmore" for line in lines],
    }
    for name, content in refused.items():
        table = write(tmp_path / name, *content)
        with pytest.raises(UserError, match=r"line \d of .* columns.*columns=1,2"):
            read_pairs(table)
    assert read_pairs(str(tmp_path / "d.tsv"), ("2", "3")) == pairs


def test_hugging_face_columns_and_dicts(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "transformer_xl"))
    datasets.disable_progress_bars()
    (tmp_path / "owner" / "pairs").mkdir(parents=True)
    row = {"id": 3, "translation": {"en": "I see.", "de": "Ich sehe."}}
    (tmp_path / "owner" / "pairs" / "train.jsonl").write_text(json.dumps(row) + "\n")
    assert read_pairs("hf:owner/pairs") == [Pair("I see.", "Ich sehe.")]
    assert read_pairs("hf:owner/pairs", ("de", "en")) == [Pair("Ich sehe.", "I see.")]
    row["translation"]["en"] = "You see."
    (tmp_path / "owner" / "pairs" / "test.jsonl").write_text(json.dumps(row) + "\n")
    assert read_pairs("hf:owner/pairs:test") == [Pair("You see.", "Ich sehe.")]
    with pytest.raises(UserError, match="not of the form"):
        read_pairs("hf:owner/pairs:")
    with pytest.raises(UserError, match="no column of sentences 'fr'; it has: en, de"):
        read_pairs("hf:owner/pairs", ("en", "fr"))


def test_a_corpus_that_cannot_be_read_is_refused(tmp_path, caplog):
    with pytest.raises(UserError, match="there is no file"):
        read_pairs(str(tmp_path / "nothing.tsv"))
    with pytest.raises(UserError, match=r"line 2 of .* has 1 column"):
        read_pairs(write(tmp_path / "a.tsv", "a\tb", "c"))
    with pytest.raises(UserError, match="numbers from 1, not 'en'"):
        read_pairs(str(tmp_path / "a.tsv"), ("en", "de"))
    one, other = write(tmp_path / "x", "a", "b"), write(tmp_path / "y", "a")
    with pytest.raises(UserError, match=r"x has 2 lines but .*y has 1"):
        read_pairs(f"{one},{other}")
    with pytest.raises(UserError, match="holds no pair"):
        read_pairs(write(tmp_path / "b.tsv", "a\t", "\tb"))
    assert read_pairs(write(tmp_path / "c.tsv", "a\tb", "c\t", "\td")) == [Pair("a", "b")]
    assert "2 pairs with an empty side left out, the first at line 2" in caplog.text
    with pytest.raises(UserError, match="must be two"):
        Translation.make(corpus="x", columns=("1",))
    with pytest.raises(UserError, match="no pair is left for the part"):
        _ = Translation.make(corpus=write(tmp_path / "d.tsv", "a\tb")).vocab


@given(st.lists(st.text(max_size=12), min_size=1, max_size=40))
def test_a_source_is_on_one_side_only_whatever_its_dress(sources):
    dressed = [text for one in sources for text in (one, one.upper() + "!", f" {one}.")]
    parts = split_pairs([Pair(text, "x") for text in dressed], 0.3)
    assert sum(map(len, parts.values())) == len(dressed)
    bare = [
        {"".join(c for c in pair.source.casefold() if c.isalnum()) for pair in part} - {""}
        for part in parts.values()
    ]
    assert not bare[0] & bare[1]
    assert not bare[0] & bare[2]
    assert not bare[1] & bare[2]


def test_shares_are_as_asked_and_do_not_depend_on_the_order():
    pairs = [Pair(f"sentence {n}", "x") for n in range(4000)]
    parts = split_pairs(pairs, 0.1)
    assert len(parts["valid"]) == pytest.approx(400, abs=80)
    assert len(parts["test"]) == pytest.approx(400, abs=80)
    again = split_pairs(pairs[::-1], 0.1)
    assert set(again["test"]) == set(parts["test"])


def numbered(first, last):
    return [f"the dog number {n} sees\tder Hund Nummer {n} sieht" for n in range(first, last)]


def test_files_for_validation_and_test_are_the_parts(tmp_path, caplog):
    corpus = write(tmp_path / "train.tsv", *numbered(0, 300), "A twin!\tx", "Go.\tGeh.")
    long = "long " * 80
    valid = write(tmp_path / "valid.tsv", *numbered(300, 320), "go\tgeh", "a twin\ty")
    test = write(tmp_path / "test.tsv", *numbered(320, 350), "A TWIN\tz", f"{long}\tlang")
    options = {"corpus": corpus, "vocabulary_size": 280, "most_tokens": 60}
    task = Translation.make(valid=valid, test=test, **options)
    found = {
        part: [pair.source for pair in task.pairs(part)] for part in ("train", "valid", "test")
    }
    # Every part is its file, less what a part after it holds too, whatever its dress.
    assert found["train"] == [line.split("\t")[0] for line in numbered(0, 300)]
    assert found["valid"] == [line.split("\t")[0] for line in numbered(300, 320)] + ["go"]
    # A test that is given is asked whole, or its score could not be compared with others'.
    assert found["test"][-2:] == ["A TWIN", long.strip()]
    assert task.overlap == 3  # two of the corpus, one of the validation
    assert "3 pairs are left out: their source is in" in caplog.text
    assert task.seen([Pair("THE DOG number 7 sees?", ""), Pair("a twin", "")]) == 1
    assert task.digest != Translation.make(valid=valid, **options).digest

    one = Translation.make(test=test, held_out=0.2, **options)
    assert [pair.source for pair in one.pairs("test")] == found["test"]
    assert 20 < len(one.pairs("valid")) < 100
    assert len(one.pairs("valid")) + len(one.pairs("train")) == 301
    sentences = Sentences.make(valid=valid, test=test, **options)
    assert len(sentences.encoded("valid")) == 21


def test_files_for_validation_and_test_need_a_corpus():
    for part in ("valid", "test"):
        with pytest.raises(UserError, match="valid and test belong to a corpus"):
            Translation.make(**{part: "a.tsv"})


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_survives_its_tokens(text):
    task = Translation.make(**SMALL)
    for vocabulary in task.vocabularies.values():
        (ids,) = encode(vocabulary, [text])
        assert ids[-1] == vocabulary.size
        assert decode(vocabulary, ids[:-1].tolist()) == text.strip()


def test_a_batch_says_what_its_pairs_say(task):
    batch = task.batch(2, 16, seed=0)
    vocabulary, end = task.vocabularies["vocabulary.json"], task.vocab - 1
    known = {pair.source: pair.target for pair in task.pairs("train")}
    for source, tokens, targets in zip(batch.source, batch.tokens, batch.targets, strict=True):
        words = source[source != NO_WORD].tolist()
        said = targets[targets != NO_QUESTION].tolist()
        assert words[-1] == said[-1] == tokens[0] == end
        assert known[decode(vocabulary, words[:-1])] == decode(vocabulary, said[:-1])
        assert tokens[1 : len(said)].tolist() == said[:-1]
        assert (np.diff((source != NO_WORD).astype(int)) <= 0).all()


def test_an_epoch_shows_every_pair_once_and_the_next_in_another_company(task):
    def rows(steps):
        for step in steps:
            batch = task.batch(step, 16, seed=0)
            yield [tuple(row[row != NO_WORD].tolist()) for row in batch.source]

    count = 0
    seen: Counter[tuple[int, ...]] = Counter()
    while sum(seen.values()) < len(task.pairs("train")):
        seen.update(next(rows([count])))
        count += 1
    assert set(seen.values()) == {1}
    first, second = list(rows(range(count))), list(rows(range(count, 2 * count)))
    assert Counter(map(tuple, first)) != Counter(map(tuple, second))
    assert Counter(row for batch in second for row in batch) == seen
    assert list(rows([3])) == list(rows([3]))


def test_batches_hold_like_numbers_of_tokens_and_little_padding(task):
    batches = [task.batch(step, 16, seed=0) for step in range(30)]
    taken = [batch.source.size + batch.tokens.size for batch in batches]
    mean = np.mean([len(one.source.split()) for one in task.pairs("train")])
    assert max(taken) <= 1.3 * np.mean(taken)
    assert mean > 5
    real = sum((batch.targets != NO_QUESTION).sum() for batch in batches)
    assert real / sum(batch.targets.size for batch in batches) > 0.9
    unequal = {len(batch.tokens) for batch in batches}
    assert max(unequal) > 2 * min(unequal)


def test_separate_vocabularies_and_too_long_sentences(tmp_path):
    lines = numbered(0, 300)
    lines.append("long " * 80 + "\tlang")
    corpus = write(tmp_path / "a.tsv", *lines)
    task = Translation.make(
        corpus=corpus, vocabulary="separate", vocabulary_size=280, most_tokens=40
    )
    files = task.vocabularies
    assert files["vocabulary.json"] is not files["source-vocabulary.json"]
    everything = [pair for part in ("train", "valid", "test") for pair in task.pairs(part)]
    assert len(everything) == 300
    assert not any(pair.source.startswith("long") for pair in everything)


def test_the_grammar_agrees_and_turns_around():
    made = grammar.sentences(300, 3)
    assert made == grammar.sentences(300, 3)
    assert len({one.source for one in made}) == 300
    words = grammar._Words()
    for one in made:
        source, target = one.source.split(), one.target.split()
        links = [grammar.LINKS.index(word) for word in source if word in grammar.LINKS]
        # What comes last in one language comes first in the other.
        assert [words.links.index(w) for w in target if w in words.links] == links[::-1]
    plain = {one.source: one.target for one in grammar.sentences(4000, 1)}
    pairs = [
        (plain[source].split(), plain[other].split())
        for source in plain
        if (other := source.replace(" sleeps", " waits")) in plain and other != source
    ]
    assert pairs
    for verb, waiting in pairs:
        # Only the verb differs, and its ending stays.
        assert [a == b for a, b in zip(verb, waiting, strict=True)].count(False) <= 2
