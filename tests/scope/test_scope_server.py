"""The page over a socket: what it gives, what it refuses, and that it lives on."""

from __future__ import annotations

import json
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from scope_world import EVIL, STORY, Client, World

from mnemoscope.memory.state import read_tensors, write_tensors
from mnemoscope.scope import desk, guard

OUT = [
    "../secret.txt",
    "..%2fsecret.txt",
    "%2e%2e/%2e%2e/etc/passwd",
    "lag/../../secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "lag/%00report.html",
    ".hidden.html",
    "linked.html",
    "linked-folder/secret.html",
    "circle/report.html",
    "lag/result.json",
    "lstm/model.safetensors",
    "lag",
    "x" * 3000,
]


@pytest.fixture(scope="module")
def traps(world: World) -> None:
    """Ways out of the folder of runs."""
    (world.runs.parent / "secret.html").write_text("nobody may read this")
    (world.runs / ".hidden.html").write_text("a draft")
    (world.runs / "linked.html").symlink_to(world.runs.parent / "secret.html")
    (world.runs / "linked-folder").symlink_to(world.runs.parent)
    (world.runs / "circle").symlink_to(world.runs / "circle")
    stolen = world.runs / "stolen"
    stolen.mkdir()
    (stolen / "config.yaml").symlink_to(world.runs.parent / "secret.txt")


@pytest.mark.usefixtures("traps")
@pytest.mark.parametrize("name", OUT)
def test_no_name_leads_out_of_the_folder_of_runs(client: Client, name: str) -> None:
    status, content, _ = client.ask(f"/files/{name}")
    assert status in (400, 404), content
    assert "nobody" not in str(content)


@pytest.mark.usefixtures("traps")
@pytest.mark.parametrize("path", ["/api/run?id=", "/api/study?id=", "/api/model?id=run:"])
@pytest.mark.parametrize("name", ["../runs/lstm", "/etc", "stolen", "linked-folder", "circle", ""])
def test_no_item_lies_outside_either(client: Client, path: str, name: str) -> None:
    status, content, _ = client.ask(path + name)
    assert status == 400
    assert "error" in content
    assert "nobody" not in content["error"]


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "story.txt/..", "none.txt"])
def test_texts_stay_in_their_folder(client: Client, name: str) -> None:
    assert client.ask(f"/api/text?name={name}")[0] == 400
    assert client.ask("/api/text?name=story.txt&start=7")[0] == 422


def test_the_shelf_shows_all_kinds(client: Client) -> None:
    status, found, _ = client.ask("/api/shelf")
    assert status == 200
    assert [study["id"] for study in found["studies"]] == ["lag"]
    assert found["studies"][0]["finished"]
    runs = {run["id"]: run for run in found["runs"]}
    assert {"lstm", "attention", "infinite"} <= set(runs)
    assert runs["infinite"]["label"] == "∞-former"
    assert runs["lstm"]["text"]
    assert (found["huggingface"], found["documents"]) == (["base"], ["notes"])
    assert "story.txt" in found["texts"]


def test_pages_and_pictures_come_in_a_sandbox(client: Client) -> None:
    status, content, headers = client.ask("/files/lag/report.html")
    assert status == 200
    assert b"</html>" in content
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    for name in ("recall-against-wait.csv",):
        _, _, headers = client.ask(f"/files/lag/figures/{name}")
        assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")


def test_the_page_itself_allows_no_inline_script(client: Client) -> None:
    _, content, headers = client.ask("/")
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    for name in ("main.js", "style.css", "colours.css", "icon.svg"):
        assert f"/web/{name}".encode() in content
        assert client.ask(f"/web/{name}")[0] == 200
    for name in ("../server.py", "nothing.js", "..%2fserver.py"):
        assert client.ask(f"/web/{name}")[0] in (400, 404)
    assert client.ask("/docs")[0] == 404
    assert client.ask("/openapi.json")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_only_names_of_this_machine_are_answered(client: Client, host: str) -> None:
    assert client.ask("/api/shelf", headers={"host": host})[0] == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ],
)
def test_other_pages_get_nothing(client: Client, headers: dict[str, str]) -> None:
    ask = {"model": "run:lstm", "text": "The cat"}
    assert client.ask("/api/read", ask, headers=headers)[0] == 403
    assert client.ask("/api/shelf", headers=headers)[0] == 403


def test_a_link_from_elsewhere_may_open_the_page(client: Client) -> None:
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.ask("/", headers=visit)[0] == 200
    assert client.ask("/files/lag/report.html", headers=visit)[0] == 403


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{", {}, 422),
        (b"[1]", {}, 422),
        (b"x" * (guard.MOST_BYTES + 1), {}, 413),
        (json.dumps({"model": "run:lstm", "text": "a" * 20_002}).encode(), {}, 422),
        (json.dumps({"model": "run:lstm", "text": "a", "segment": 0}).encode(), {}, 422),
        (json.dumps({"model": "run:lstm", "text": "a", "more": 1}).encode(), {}, 422),
        (json.dumps({"model": 3, "text": "a"}).encode(), {}, 422),
        (("[" * 50_000).encode(), {}, 400),
    ],
)
def test_requests_are_checked(
    client: Client, body: bytes, headers: dict[str, str], status: int
) -> None:
    found, content, _ = client.ask("/api/read", body, headers=headers)
    assert found == status
    assert content["error"]
    assert client.ask("/api/read", method="DELETE")[0] == 405


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("length", ["content-length: 40", "transfer-encoding: chunked"])
def test_a_request_that_does_not_arrive_is_given_up(client: Client, length: str) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as line:
        head = f"POST /api/read HTTP/1.1\r\nhost: localhost:{client.port}\r\n{length}\r\n"
        line.sendall(f"{head}content-type: application/json\r\n\r\n".encode())
        assert b" 408 " in line.recv(4096)


def test_too_much_in_pieces_is_too_much(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as line:
        head = f"POST /api/read HTTP/1.1\r\nhost: localhost:{client.port}\r\n"
        line.sendall(f"{head}transfer-encoding: chunked\r\n".encode())
        line.sendall(b"content-type: application/json\r\n\r\n")
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        line.sendall(piece * (guard.MOST_BYTES // 0x10000 + 1))
        assert b" 413 " in line.recv(4096)


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
        ({"model": "run:lag/runs/lstm-lr0.01-seed0", "text": "a b"}, "numbers from 0"),
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
    assert client.ask("/api/shelf")[0] == 200
    for model in ("run:cut", "run:mixed", "run:odd", "documents:notes", "huggingface:base"):
        status, content, _ = client.ask("/api/read", {"model": model, "text": "The cat"})
        assert (status, bool(content["error"])) in ((400, True), (500, True)), model
    said = client.ask("/api/model?id=huggingface:foreign")[1]["error"]
    assert "no causal language model" in said
    # The memory names a base that nobody put here.
    assert "--model" in client.ask("/api/model?id=documents:notes")[1]["error"]
    assert client.ask("/api/shelf")[0] == 200


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
    ask = {"model": "run:attention", "text": "The cat sat on the mat.", "segment": 8}

    def one(number: int) -> tuple[int, Any]:
        if number % 5:
            return client.ask(["/api/shelf", "/", "/web/main.js", "/api/run?id=lstm"][number % 4])[
                :2
            ]
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
    monkeypatch.setattr(desk, "PATIENCE", 0.05)
    turns = []
    advance = desk.Reading.advance

    def slow(self: desk.Reading) -> None:
        turns.append(client.ask("/api/model?id=run:lstm")[:2])
        advance(self)

    monkeypatch.setattr(desk.Reading, "advance", slow)
    assert client.ask("/api/read", {"model": "run:lstm", "text": "The cat"})[0] == 200
    assert turns[0][0] == 503
    assert "try again" in turns[0][1]["error"]


def test_old_readings_make_room(opened: Any) -> None:
    client = opened()
    ask = {"model": "run:lstm", "text": "The cat", "segment": 4}
    first = client.ask("/api/read", ask)[1]["reading"]
    for _ in range(desk.MOST_READINGS):
        client.ask("/api/read", ask)
    status, content, _ = client.ask("/api/step", {"reading": first, "segment": 1})
    assert status == 400
    assert "read the text again" in content["error"]


def test_opened_wider_a_token_is_needed(opened: Any) -> None:
    client = opened(host="0.0.0.0")
    token = client.page.address.partition("token=")[2]
    assert len(token) >= 32
    for path in ("/", "/api/shelf", "/web/main.js", "/files/lag/report.html", "/?token=wrong"):
        assert client.ask(path)[0] == 401
    assert client.ask("/api/shelf", headers={"cookie": f"{guard.COOKIE}=wrong"})[0] == 401
    assert client.ask("/api/shelf", headers={"cookie": "a;;=\x01"})[0] == 401
    status, _, headers = client.ask(f"/?token={token}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    known = {"cookie": cookie.partition(";")[0]}
    assert client.ask("/api/shelf", headers=known)[0] == 200
    assert client.ask("/api/shelf", headers={**known, "origin": "http://evil.example"})[0] == 403
    # Anywhere else the token is no key: an address with it could be sent on.
    assert client.ask(f"/api/shelf?token={token}")[0] == 401


def test_models_named_at_the_start_are_opened(opened: Any, world: World, tmp_path: Path) -> None:
    runs = world.runs
    given = [str(runs / name) for name in ("lstm", "base", "notes")] + ["nobody/nothing"]
    client = opened(tmp_path, given)
    assert client.ask("/api/shelf")[1]["given"] == given
    labels = [client.ask(f"/api/model?id=given:{place}")[1].get("label") for place in range(3)]
    assert labels == ["LSTM", "LlamaForCausalLM", "Document memory"]
    assert "cannot load" in client.ask("/api/model?id=given:3")[1]["error"]


def test_the_untrained_twin_is_the_model_before_its_first_step(client: Client) -> None:
    text = "The cat sat on the mat."
    seen = []
    for kind in ("run", "untrained"):
        begun = client.ask("/api/read", {"model": f"{kind}:lstm", "text": text})[1]
        assert begun["about"]["trained"] is (kind == "run")
        seen.append(client.ask("/api/step", {"reading": begun["reading"], "segment": 0})[1]["bits"])
    assert seen[0] != seen[1]


def test_documents_are_read_by_name(client: Client) -> None:
    ask = {"model": "documents:notes", "text": "Boats came", "document": EVIL}
    begun = client.ask("/api/read", ask)[1]
    assert begun["about"]["documents"] == ["kettle", EVIL]
    frame = client.ask("/api/step", {"reading": begun["reading"], "segment": 0})[1]
    assert frame["panels"][0]["document"] == EVIL
