"""The page over a socket: models that read, mistakes that are explained, many readers at once."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from scope_world import EVIL, STORY, Client, World

from mnemoscope.memories.state import read_tensors, write_tensors
from mnemoscope.scope import session, sessions
from mnemoscope.scope.session import Session


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ({"model": "run:lstm", "text": ""}, "the text is empty"),
        ({"model": "run:lstm", "text": "Ω"}, "Ω"),
        ({"model": "run:nothing", "text": "a"}, "there is no"),
        ({"model": "nonsense", "text": "a"}, "there is no model"),
        ({"model": "given:0", "text": "a"}, "there is no model"),
        ({"model": "given:²", "text": "a"}, "there is no model"),
        ({"model": "run:lag", "text": "a"}, "is no run"),
        ({"model": "run:lag/runs/lstm-lr0.01-seed0", "text": "s0 b"}, "write s0 s1"),
        ({"model": "run:lag/runs/lstm-lr0.01-seed0", "text": "1 999"}, "numbers from 0"),
        ({"model": "huggingface:base", "text": "The kettle sang " * 100}, "positions end at 256"),
        ({"model": "run:lstm", "text": "The cat. " * 300}, "at most 2048"),
        ({"model": "run:lstm", "text": "The cat. " * 50, "segment": 1}, "at most 256 of them"),
        ({"model": "documents:notes", "text": "The", "document": "none"}, "no document"),
    ],
)
def test_what_cannot_be_read_is_explained(client: Client, ask: Any, words: str) -> None:
    if "lag/runs" in ask["model"]:
        runs = client.ask("/api/study?id=lag")[1]["runs"]
        ask = {**ask, "model": f"run:{next(run['id'] for run in runs if run['memory'] == 'lstm')}"}
    status, content, _ = client.ask("/api/read", ask)
    assert status == 400
    assert words in content["error"]


def test_damaged_models_are_explained_and_the_server_lives_on(
    opened: Any, world: World, tmp_path: Path
) -> None:
    for name in ("cut", "mixed", "notes", "base"):
        shutil.copytree(
            world.runs / (name if name in ("notes", "base") else "lstm"), tmp_path / name
        )
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    config = tmp_path / "mixed" / "config.yaml"
    config.write_text(config.read_text().replace("width: 12", "width: 13"))
    (tmp_path / "base" / "model.safetensors").write_bytes(b"nothing")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "config.yaml").write_text("{unreadable")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "foreign" / "model.safetensors").write_bytes(b"")
    client = opened(tmp_path)
    assert client.ask("/api/run_index")[0] == 200
    for model in ("run:cut", "run:mixed", "run:odd", "documents:notes", "huggingface:base"):
        status, content, _ = client.ask("/api/read", {"model": model, "text": "The cat"})
        assert (status, bool(content["error"])) in ((400, True), (500, True)), model
    said = client.ask("/api/model?id=huggingface:foreign")[1]["error"]
    assert "neither a causal language model nor an encoder" in said
    # The memory names a base that nobody put here.
    assert "--model" in client.ask("/api/model?id=documents:notes")[1]["error"]
    assert client.ask("/api/run_index")[0] == 200


def test_a_model_that_diverged_is_explained(opened: Any, world: World, tmp_path: Path) -> None:
    for name in ("lstm", "infinite"):
        shutil.copytree(world.runs / name, tmp_path / name)
        path = tmp_path / name / "model.safetensors"
        weights, _ = read_tensors(path)
        write_tensors(path, {key: tensor * torch.nan for key, tensor in weights.items()}, {})
    client = opened(tmp_path)
    for name in ("lstm", "infinite"):
        status, content, _ = client.ask("/api/read", {"model": f"run:{name}", "text": "The cat"})
        assert status == 400
        assert "not finite" in content["error"]


def test_a_reading_is_stepped_through_and_back(client: Client) -> None:
    _, begun, _ = client.ask("/api/read", {"model": "run:infinite", "text": STORY, "segment": 16})
    assert "".join(begun["tokens"]) == STORY
    last = begun["segments"] - 1
    turn = {"reading": begun["reading"], "segment": last}
    status, frame, _ = client.ask("/api/step", turn)
    assert status == 200
    assert frame["first"] + frame["new"] == len(begun["tokens"])
    _, early, _ = client.ask("/api/step", {**turn, "segment": 0})
    assert early["first"] == 0
    assert client.ask("/api/step", turn)[1] == frame
    assert client.ask("/api/step", {**turn, "segment": last + 1})[0] == 400
    assert client.ask("/api/step", {**turn, "reading": "gone"})[0] == 400


def test_two_models_read_a_text_in_as_many_segments(client: Client) -> None:
    text = "The kettle sang on the stove while rain ran down the window."
    _, one, _ = client.ask("/api/read", {"model": "huggingface:base", "text": text, "segment": 4})
    ask = {"model": "run:lstm", "text": "The cat sat on the mat. " * 3, "segments": one["segments"]}
    _, two, _ = client.ask("/api/read", ask)
    assert abs(two["segments"] - one["segments"]) <= 1
    assert len(two["tokens"]) != len(one["tokens"])


def test_fifty_at_a_time_are_all_served(client: Client) -> None:
    ask = {"model": "run:transformer", "text": "The cat sat on the mat.", "segment": 8}

    def one(number: int) -> tuple[int, Any]:
        if number % 5:
            return client.ask(
                ["/api/run_index", "/", "/web/main.js", "/api/run?id=lstm"][number % 4]
            )[:2]
        return client.ask("/api/read", ask)[:2]

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(one, range(50)))
    assert [status for status, _ in answers] == [200] * 50
    readings = [content["reading"] for number, (_, content) in enumerate(answers) if not number % 5]
    assert len(set(readings)) == 10
    frames = [client.ask("/api/step", {"reading": key, "segment": 1})[1] for key in readings]
    assert all(frame == frames[0] for frame in frames)


def test_who_waits_too_long_is_told_so(
    opened: Any, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    client = opened()
    monkeypatch.setattr(sessions, "PATIENCE", 0.05)
    turns = []
    advance = Session.advance

    def slow(self: Session) -> None:
        turns.append(client.ask("/api/model?id=run:lstm")[:2])
        advance(self)

    monkeypatch.setattr(Session, "advance", slow)
    assert client.ask("/api/read", {"model": "run:lstm", "text": "The cat"})[0] == 200
    assert turns[0][0] == 503
    assert "try again" in turns[0][1]["error"]


def test_old_sessions_make_room(opened: Any) -> None:
    client = opened()
    ask = {"model": "run:lstm", "text": "The cat", "segment": 4}
    first = client.ask("/api/read", ask)[1]["reading"]
    for _ in range(sessions.MOST_SESSIONS):
        client.ask("/api/read", ask)
    status, content, _ = client.ask("/api/step", {"reading": first, "segment": 1})
    assert status == 400
    assert "read the text again" in content["error"]


def test_models_named_at_the_start_are_opened(opened: Any, world: World, tmp_path: Path) -> None:
    runs = world.runs
    given = [str(runs / name) for name in ("lstm", "base", "notes")] + ["nobody/nothing"]
    client = opened(tmp_path, given)
    assert client.ask("/api/run_index")[1]["given"] == given
    labels = [client.ask(f"/api/model?id=given:{place}")[1].get("label") for place in range(3)]
    assert labels == ["LSTM", "LlamaForCausalLM", "Document memory on base"]
    assert "cannot load" in client.ask("/api/model?id=given:3")[1]["error"]


def test_the_untrained_twin_is_the_model_before_its_first_step(client: Client) -> None:
    text = "The cat sat on the mat."
    seen = []
    for kind in ("run", "untrained"):
        begun = client.ask("/api/read", {"model": f"{kind}:lstm", "text": text})[1]
        assert begun["about"]["trained"] is (kind == "run")
        seen.append(client.ask("/api/step", {"reading": begun["reading"], "segment": 0})[1]["bits"])
    assert seen[0] != seen[1]


def begun(client: Client, model: str = "run:infinite", segment: int = 16) -> dict[str, Any]:
    found: dict[str, Any] = client.ask(
        "/api/read", {"model": model, "text": STORY, "segment": segment}
    )[1]
    return found


def test_one_head_of_a_segment_is_shown(client: Client) -> None:
    ask = {"reading": begun(client)["reading"], "segment": 2}
    status, found, _ = client.ask("/api/head", {**ask, "part": "layer 1", "head": 1})
    assert (status, found["shape"]) == (200, [16, 48])
    assert client.ask("/api/head", {**ask, "part": "layer 1"})[0] == 200
    for part, head, words in (("layer 1", 2, "no head 3"), ("layer 9", 0, "has no heads here")):
        status, content, _ = client.ask("/api/head", {**ask, "part": part, "head": head})
        assert status == 400
        assert words in content["error"]
    assert client.ask("/api/head", {**ask, "part": "layer 1", "head": -1})[0] == 422


def test_a_blank_is_compared_with_the_whole_state(client: Client) -> None:
    key = begun(client, "run:transformer")["reading"]
    ask = {"reading": key, "segment": 2, "token": 40}
    status, found, _ = client.ask("/api/blank", ask)
    assert status == 200
    assert (found["first"], [len(one) for one in found["bits"]]) == (40, [8, 8])
    assert found["bits"][0] != found["bits"][1]
    whole = client.ask("/api/step", {"reading": key, "segment": 2})[1]
    # Read in two parts or in one, a Transformer says the same.
    assert found["bits"][0] == pytest.approx(whole["bits"][8:], abs=2e-3)
    assert whole["answers"][8] in [name for name, _, _ in found["answers"]]
    for _, before, after in found["answers"]:
        assert 0 <= before <= 1
        assert 0 <= after <= 1
    assert client.ask("/api/step", {"reading": key, "segment": 2})[1] == whole
    for wrong, words in (
        ({"token": 50}, "token 51 is not in segment 3"),
        ({"segment": 0, "token": 0}, "nothing was read before the first token"),
    ):
        status, content, _ = client.ask("/api/blank", {**ask, **wrong})
        assert status == 400
        assert words in content["error"]
    assert client.ask("/api/blank", {**ask, "low": -1})[0] == 422


def test_states_for_which_there_is_no_room_are_read_again(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = opened()
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/api/head", {"segment": 2, "part": "layer 1", "head": 0}),
        ("/api/head", {"segment": 3, "part": "layer 1 · signal", "head": 1}),
        ("/api/blank", {"segment": 3, "token": 55, "low": 20, "high": 40}),
    ]

    def answers() -> list[Any]:
        key = begun(client)["reading"]
        client.ask("/api/step", {"reading": key, "segment": 5})
        return [client.ask(path, {"reading": key, **ask})[1] for path, ask in asked]

    kept = answers()
    monkeypatch.setattr(session, "MOST_STATE", 0)
    assert answers() == kept


def test_documents_are_read_by_name(client: Client) -> None:
    ask = {"model": "documents:notes", "text": "Boats came", "document": EVIL}
    begun = client.ask("/api/read", ask)[1]
    assert begun["about"]["documents"] == ["kettle", EVIL]
    frame = client.ask("/api/step", {"reading": begun["reading"], "segment": 0})[1]
    assert frame["panels"][0]["document"] == EVIL
