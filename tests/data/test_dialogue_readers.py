"""Readers of conversations: every format gives the same plain data, every mistake one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.data.dialogue.conversation import (
    Conversation,
    Document,
    Turn,
    another_document,
)
from mnemoscope.data.dialogue.corpus import divided, read_conversations, recognise

TOPICAL_CHAT = Path(__file__).parents[3] / "shared" / "data" / "topical-chat"

TEA = {
    "documents": {"tea": ["Tea is a drink.", "It grows on hills."]},
    "conversations": [
        {
            "document": "tea",
            "speakers": ["anna", "ben"],
            "turns": [
                {"speaker": "anna", "text": "What is tea?", "section": 0, "reply": False},
                {"speaker": "ben", "text": "A drink.", "section": 0},
            ],
        }
    ],
}


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_conversations(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def conversation(name: str, document: Document, said: str = "yes") -> Conversation:
    return Conversation(name, document, (Turn("a", said),), ("a", "b"))


# --- plain data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sections", [(), ("",), (" ", "\n")])
def test_a_conversation_about_an_empty_document_is_refused(sections: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="the document 'tea' is empty"):
        Document("tea", sections)


def test_an_empty_section_is_refused() -> None:
    with pytest.raises(UserError, match="section 1 of the document 'tea' is empty"):
        Document("tea", ("hot", " "))


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ((), "the conversation 'c' has no turns"),
        ((Turn("a", "x", reply=False),), "has no turn that is a reply"),
        ((Turn("z", "x"),), "has an unknown speaker 'z'; its speakers: a, b"),
        ((Turn("a", " "),), "turn 0 of the conversation 'c' is empty"),
        ((Turn("a", "x", section=1),), "about section 1, but the document 'tea' has sections 0 to"),
    ],
)
def test_what_is_no_conversation_is_refused(turns: tuple[Turn, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Conversation("c", Document("tea", ("hot",)), turns, ("a", "b"))


def test_another_document_shares_no_section_where_one_can_be_had() -> None:
    tea, rice = Document("tea", ("t", "x")), Document("rice", ("r", "x"))
    salt, again = Document("salt", ("s",)), Document("tea", ("x", "t"))
    given = [conversation(str(i), one) for i, one in enumerate((tea, rice, again, salt))]
    assert [one.name for one in another_document(given)] == ["salt", "salt", "salt", "tea"]
    assert [one.name for one in another_document(given[:3])] == ["rice", "tea", "rice"]
    with pytest.raises(UserError, match="all conversations are about 'tea'"):
        another_document([given[0], given[2]])


# --- plain ---------------------------------------------------------------------------------------


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = put(tmp_path / "talk.json", TEA)
    assert recognise(path) == "plain"
    (one,) = read_conversations(path)
    assert one.name == "talk/0"
    assert one.document == Document("tea", ("Tea is a drink.", "It grows on hills."))
    assert one.turns[0] == Turn("anna", "What is tea?", 0, reply=False)
    assert one.turns[1].reply
    assert read_conversations(put(tmp_path / "talk.json.gz", TEA)) == [one]


def test_a_folder_of_ones_own_has_texts_beside(tmp_path: Path) -> None:
    (tmp_path / "salt.txt").write_text("Salt is white.\n---\nIt is mined.\n\nOr dried.\n")
    about = {**TEA["conversations"][0], "document": "salt", "part": "test", "rating": 2}
    put(tmp_path / "b.json", {"conversations": [about]})
    put(tmp_path / "a.json", TEA)
    first, second = read_conversations(tmp_path)
    assert (first.name, second.name) == ("a/0", "b/0")
    assert second.document.sections == ("Salt is white.", "It is mined.\n\nOr dried.")
    assert (second.part, second.rating) == ("test", 2)


def changed(*path: str | int, to: Any) -> Any:
    content = json.loads(json.dumps(TEA))
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return content


TURN = ("conversations", 0, "turns", 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (changed(*TURN, "speaker", to="carl"), "unknown speaker 'carl'; its speakers: anna, ben"),
        (changed(*TURN, "speaker", to=None), "conversations[0].turns[1] has no 'speaker'"),
        (changed(*TURN, "txet", to="x"), "turns[1] has an unknown 'txet'; did you mean 'text'?"),
        (changed(*TURN, "text", to=""), "turn 1 of the conversation 'talk/0' is empty"),
        (changed(*TURN, "section", to=7), "is about section 7"),
        (changed(*TURN, "section", to="1"), "section: input should be a valid integer (got '1')"),
        (changed("conversations", 0, "turns", to=[]), "the conversation 'talk/0' has no turns"),
        (changed("conversations", 0, "document", to="te"), "unknown document 'te'; did you mean"),
        (changed("conversations", 0, "part", to="dev"), "part: input should be 'train'"),
        (changed("documents", "tea", to=[]), "the document 'tea' is empty"),
        (changed("conversations", to=[]), "has documents but no conversations"),
        ([], "the file"),
    ],
)
def test_mistakes_in_a_file_are_one_line(tmp_path: Path, content: Any, said: str) -> None:
    told = complaint(put(tmp_path / "talk.json", content))
    assert said in told
    assert str(tmp_path) in told


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000, b""])
def test_broken_json_is_one_line(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "talk.json").write_bytes(text)
    assert "talk.json is not JSON: " in complaint(tmp_path / "talk.json")


def test_a_document_may_not_be_there_twice(tmp_path: Path) -> None:
    put(tmp_path / "a.json", TEA)
    put(tmp_path / "b.json", TEA)
    assert "the document 'tea' is there twice" in complaint(tmp_path)


def test_what_holds_no_conversations(tmp_path: Path) -> None:
    assert "holds no conversations" in complaint(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    assert "holds no conversations" in complaint(tmp_path / "a.txt")
    assert "there is no file or folder" in complaint(tmp_path / "nowhere")


# --- CMU-DoG -------------------------------------------------------------------------------------

FILM = {
    "0": {"movieName": "A Film", "year": "1999", "cast": ["Ann as X", "Bo as Y"], "genre": ""},
    "1": "It begins.",
    "2": "It goes on.",
    "3": "It ends.",
    "wikiDocumentIdx": 7,
}
TALK = {
    "history": [
        {"text": "Hi ", "uid": "user1", "docIdx": 0, "utcTimestamp": "x"},
        {"text": " ", "uid": "user2", "docIdx": 0, "utcTimestamp": "x"},
        {"text": "How does it end?", "uid": "user2", "docIdx": 3, "utcTimestamp": "x"},
    ],
    "rating": 3,
    "wikiDocumentIdx": 7,
    "whoSawDoc": ["user1"],
}


@pytest.fixture
def dog(tmp_path: Path) -> Path:
    put(tmp_path / "WikiData" / "film.json", FILM)
    for part in ("train", "valid", "test"):
        put(tmp_path / "Conversations" / part / "one.json", TALK)
    return tmp_path


def test_cmu_dog_as_its_repository_has_it(dog: Path) -> None:
    assert recognise(dog) == "cmu_dog"
    train, valid, test = read_conversations(dog)
    assert (train.part, valid.part, test.part) == ("train", "valid", "test")
    assert (test.name, test.rating, test.readers) == ("test/one", 3, ("user1",))
    assert test.turns == (Turn("user1", "Hi", 0), Turn("user2", "How does it end?", 3))
    table, *story = test.document.sections
    assert table == "Film: A Film\nYear: 1999\nCast: Ann as X; Bo as Y"
    assert story == ["It begins.", "It goes on.", "It ends."]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("Conversations/valid/one.json", {**TALK, "history": []}, "has no turns"),
        ("Conversations/valid/one.json", {**TALK, "wikiDocumentIdx": 8}, "about document 8"),
        ("Conversations/valid/one.json", {"history": []}, "it has no 'wikiDocumentIdx'"),
        ("Conversations/valid/one.json", [], "is no conversation of CMU-DoG"),
        (
            "Conversations/valid/one.json",
            {**TALK, "history": [{"text": "x", "uid": "user3", "docIdx": 0}]},
            "unknown speaker 'user3'",
        ),
        ("WikiData/film.json", {**FILM, "2": " "}, "section 2 of the document 'A Film' is empty"),
        ("WikiData/film.json", {"0": {}}, "it has no 'wikiDocumentIdx'"),
    ],
)
def test_mistakes_in_cmu_dog_are_one_line(dog: Path, file: str, content: Any, said: str) -> None:
    put(dog / file, content)
    assert said in complaint(dog)


def test_cmu_dog_without_files(tmp_path: Path) -> None:
    (tmp_path / "WikiData").mkdir()
    (tmp_path / "Conversations").mkdir()
    assert "WikiData holds no .json file" in complaint(tmp_path)
    put(tmp_path / "WikiData" / "film.json", FILM)
    assert "Conversations holds no train, valid or test folder" in complaint(tmp_path)


# --- Topical-Chat --------------------------------------------------------------------------------

LEADS = {
    "shortened_wiki_lead_section": {"Tea is hot and green.": 1, "Salt.": 2, "Rice.": 3},
    "summarized_wiki_lead_section": {"Tea.": 4, "Salt is white.": 5, "Rice.": 6},
}
NAMES = {"FS1": "Tea", "FS2": "Salt", "FS3": "Rice"}
READING = {
    "agent_1": {
        fact: {"entity": name, "shortened_wiki_lead_section": i + 1, "fun_facts": ["t"]}
        for i, (fact, name) in enumerate(NAMES.items())
    },
    "agent_2": {
        fact: {"entity": name, "summarized_wiki_lead_section": i + 4, "fun_facts": ["t"]}
        for i, (fact, name) in enumerate(NAMES.items())
    },
}
CHAT = {
    "content": [
        {"message": "Hi", "agent": "agent_1", "knowledge_source": ["Personal Knowledge"]},
        {"message": "Salt?", "agent": "agent_2", "knowledge_source": ["AS1", "FS2"]},
    ],
    "conversation_rating": {"agent_1": "Good", "agent_2": "Excellent"},
}


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    put(tmp_path / "wiki.json.gz", LEADS)
    put(tmp_path / "valid_rare.conversations.json.gz", {"t_1": CHAT})
    put(tmp_path / "valid_rare.reading_sets.json.gz", {"t_1": READING})
    return tmp_path


def test_topical_chat_takes_the_longer_lead_of_each_entity(chats: Path) -> None:
    assert recognise(chats) == "topical_chat"
    (one,) = read_conversations(chats)
    sections = ("Tea: Tea is hot and green.", "Salt: Salt is white.", "Rice: Rice.")
    assert one.document == Document("Rice, Salt, Tea", sections)
    assert one.turns == (Turn("agent_1", "Hi"), Turn("agent_2", "Salt?", 1))
    assert (one.name, one.rating, one.part) == ("valid_rare/t_1", 4, "valid")


def test_mistakes_in_topical_chat_are_one_line(chats: Path) -> None:
    put(chats / "valid_rare.reading_sets.json.gz", {})
    assert "t_1 is not as in Topical-Chat" in complaint(chats)
    (chats / "valid_rare.reading_sets.json.gz").write_bytes(b"\x1f\x8b broken")
    assert "is not a whole gzip file" in complaint(chats)
    put(chats / "wiki.json.gz", {})
    assert "has no table 'shortened_wiki_lead_section'" in complaint(chats)


@pytest.mark.skipif(not TOPICAL_CHAT.is_dir(), reason="Topical-Chat is not on this machine")
def test_the_real_topical_chat() -> None:
    found = read_conversations(TOPICAL_CHAT)
    assert len(found) == 4 * 539
    assert {one.part for one in found} == {"valid", "test"}
    assert all(len(one.document.sections) == 3 for one in found)
    parts = divided(found, 0.1)
    assert len(parts["test"]) == 2 * 539
    held = {one.document.name for one in parts["valid"]}
    assert held
    assert not held & {one.document.name for one in parts["train"]}


# --- parts ---------------------------------------------------------------------------------------


def test_parts_that_a_source_lacks_are_whole_documents() -> None:
    documents = [Document(f"d{i}", (f"text {i}",)) for i in range(10)]
    given = [conversation(f"{i}", documents[i % 10], f"{i}") for i in range(30)]
    parts = divided(given, 0.2)
    assert {part: len(some) for part, some in parts.items()} == {"train": 18, "valid": 6, "test": 6}
    names = [{one.document.name for one in some} for some in parts.values()]
    assert len(set.union(*names)) == sum(map(len, names))
    assert divided(given, 0.2) == parts


def test_a_single_document_cannot_be_divided() -> None:
    with pytest.raises(UserError, match="all conversations are about one document"):
        divided([conversation("a", Document("tea", ("hot",)))], 0.1)


def test_what_is_held_out_is_not_trained_on(dog: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = {**TALK, "history": [{**TALK["history"][0], "text": "Hello"}]}
    put(dog / "Conversations" / "train" / "two.json", other)
    parts = divided(read_conversations(dog), 0.1)
    assert [one.name for one in parts["train"]] == ["train/two"]
    assert [one.name for one in parts["test"]] == ["test/one"]
    assert parts["valid"] == []
    assert "1 conversations are left out of train" in caplog.text


def test_the_example_of_the_guide_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "dialogue.md").read_text()
    text = page.partition("`talk.json`:\n\n```text\n")[2].partition("```")[0]
    (tmp_path / "talk.json").write_text(text)
    found = read_conversations(tmp_path / "talk.json")
    assert [one.document.name for one in found] == ["tea", "salt", "glass"]
    assert {part: len(some) for part, some in divided(found, 0.1).items()} == dict.fromkeys(
        ("train", "valid", "test"), 1
    )
