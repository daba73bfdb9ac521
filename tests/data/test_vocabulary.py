import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from complaints import complaint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mnemoscope.data.vocabulary as module
from mnemoscope.core.errors import UserError
from mnemoscope.data.vocabulary import Alphabet, Bytes, Merges, Vocabulary

SENTENCE = "the theme of the thesis: then, there, these.\nThe end\n"
# A surrogate half is no character and UTF-8 cannot hold it.
texts = st.text(st.characters(exclude_categories=["Cs"]))
merges = Merges.learn(SENTENCE * 3, 270)


@given(text=texts)
def test_bytes_go_round(text: str) -> None:
    ids = Bytes().encode(text)
    assert ids.tolist() == list(text.encode())
    assert Bytes().decode(ids) == text


@given(text=texts)
def test_characters_go_round(text: str) -> None:
    vocabulary = Alphabet(text)
    ids = vocabulary.encode(text)
    assert ids.dtype == np.int64
    assert vocabulary.size == len(set(text))
    assert ids.tolist() == [sorted(set(text)).index(character) for character in text]
    assert vocabulary.decode(ids) == text


@given(text=texts)
def test_bpe_goes_round(text: str) -> None:
    ids = merges.encode(text)
    assert ids.dtype == np.int64
    assert merges.decode(ids) == text


spaced = st.text(st.sampled_from("ab's!1 \n\t\x1c\u00a0é"), max_size=60)
# Merges within runs of spaces and of line breaks, which a careless cut would split.
spaces = Merges.learn("a    b\n\n\n\n's  a's!!\t\t a1 !\x1c", 300)


@given(text=spaced)
def test_bpe_in_parts_gives_the_same_tokens(text: str) -> None:
    whole = spaces.encode(text).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PART", 2)
        assert spaces.encode(text).tolist() == whole


def test_bpe_learns_what_comes_together_and_no_more_than_asked() -> None:
    assert merges.size == 270
    assert len(merges.encode("the the")) == 2
    short = Merges.learn("ab", 5000)
    assert short.size == 257
    assert len(short.encode("ab")) == 1


def test_bpe_is_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Merges.learn(SENTENCE * 3, 270).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("vocabulary", [Bytes(), Alphabet(SENTENCE + 'é𝄞\t\\"'), merges])
def test_saved_as_json_and_loaded_again(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    vocabulary.save(path)
    assert json.loads(path.read_text(encoding="utf-8"))["unit"] == vocabulary.unit
    loaded = Vocabulary.load(path)
    assert type(loaded) is type(vocabulary)
    assert loaded.size == vocabulary.size
    assert loaded.encode(SENTENCE).tolist() == vocabulary.encode(SENTENCE).tolist()
    assert loaded.decode(np.arange(loaded.size)) == vocabulary.decode(np.arange(loaded.size))


def test_an_unknown_character_is_named() -> None:
    with pytest.raises(UserError, match=r"'é' \(U\+00E9, position 2\)"):
        Alphabet("abc").encode("abéd")
    with pytest.raises(UserError, match="'z'"):
        Alphabet("").encode("z")


@pytest.mark.parametrize("vocabulary", [Bytes(), Alphabet("abc"), merges])
def test_half_a_surrogate_pair_is_named(vocabulary: Vocabulary) -> None:
    with pytest.raises(UserError, match=r"surrogate pair .* at position 1"):
        vocabulary.encode("a\ud800")


@pytest.mark.parametrize("vocabulary", [Bytes(), Alphabet("abc"), merges])
@pytest.mark.parametrize("wrong", [-100, 5000])
def test_a_token_outside_is_named(vocabulary: Vocabulary, wrong: int) -> None:
    with pytest.raises(UserError, match=f"token {wrong} is outside this vocabulary of"):
        vocabulary.decode(np.array([0, wrong]))


def test_bytes_that_are_no_character_are_marked() -> None:
    assert Bytes().decode(np.array([0x61, 0xC3])) == "a\ufffd"


def test_bpe_below_one_merge_is_refused() -> None:
    with pytest.raises(UserError, match="256 is too small"):
        Merges.learn("abc", 256)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not json", "is damaged"),
        (b"\xff", "is damaged"),
        (b"[1, 2]", "is not a vocabulary"),
        (b'{"unit": "bytes"}', "is not a vocabulary"),
        (b'{"unit": "byte", "content": null}', "did you mean 'bytes'"),
        (b'{"unit": "bpe", "content": {}}', "holds a broken bpe vocabulary"),
        (b'{"unit": "characters", "content": 3}', "holds a broken characters vocabulary"),
    ],
)
def test_broken_files_are_explained(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        Vocabulary.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.json"):
        Vocabulary.load(tmp_path / "nowhere.json")


SAVED = {
    "bytes": Bytes(),
    "characters": Alphabet("the cat sat"),
    "bpe": Merges.learn("the cat sat on the mat " * 9, 262),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(SAVED)), st.data())
def test_any_bytes_are_a_vocabulary_or_explained(
    tmp_path: Path, unit: str, data: st.DataObject
) -> None:
    path = tmp_path / "vocabulary.json"
    SAVED[unit].save(path)
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    more = data.draw(st.binary(max_size=9))
    rest = content[place + data.draw(st.integers(0, 9)) :]
    ways = [content[:place], content[:place] + more + rest, more]
    path.write_bytes(data.draw(st.sampled_from(ways)))
    told = complaint(lambda: Vocabulary.load(path, "do this"))
    assert told is None or (str(path) in told and told.endswith("do this"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_description_of_merges_is_not_trusted(tmp_path: Path, data: st.DataObject) -> None:
    """Without a digest, as older versions wrote them, anything may stand in the description."""
    content = SAVED["bpe"]._content()
    part = data.draw(st.sampled_from(sorted(content)))
    plain = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
    other = plain | st.lists(plain, max_size=2) | st.dictionaries(st.text(max_size=5), plain)
    if isinstance(content[part], dict) and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(content[part])))
        content[part] = {**content[part], name: data.draw(other)}
    else:
        content[part] = data.draw(other)
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps({"unit": "bpe", "content": content}))
    told = complaint(lambda: Vocabulary.load(path).decode(Vocabulary.load(path).encode("a cat")))
    assert told is None or str(path) in told


def test_merges_with_a_prefix_are_refused(tmp_path: Path) -> None:
    content = SAVED["bpe"]._content()
    content["model"]["continuing_subword_prefix"] = "abc"
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps({"unit": "bpe", "content": content}))
    assert "have a prefix" in str(complaint(lambda: Vocabulary.load(path)))


@pytest.mark.parametrize(
    "part",
    [
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed"}},
        {"normalizer": {"type": "NFKC"}},
        {"added_tokens": [{"id": 0, "content": "x"}]},
        {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}},
        {"model": {"type": "BPE", "vocab": {"a": 7}, "merges": []}},
    ],
)
def test_machinery_that_we_never_write_is_refused(part: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    content = {**SAVED["bpe"]._content(), **part}
    path.write_text(json.dumps({"unit": "bpe", "content": content}))
    assert "holds a broken bpe vocabulary" in str(complaint(lambda: Vocabulary.load(path)))


@pytest.mark.parametrize("unit", sorted(SAVED))
def test_a_vocabulary_of_an_older_version_opens(unit: str, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    content = SAVED[unit]._content()
    path.write_text(json.dumps({"unit": unit, "content": content}, ensure_ascii=False))
    assert (
        Vocabulary.load(path).encode("the cat").tolist() == SAVED[unit].encode("the cat").tolist()
    )
