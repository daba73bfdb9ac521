"""Who may ask the page for what: names, hosts, origins, tokens, sizes and times."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from scope_world import Client, World

from mnemoscope.scope import guard

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
@pytest.mark.parametrize(
    "path", ["/api/run?id=", "/api/study?id=", "/api/model?id=run:", "/api/shipped?id="]
)
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


def test_the_run_index_shows_all_kinds(client: Client) -> None:
    status, found, _ = client.ask("/api/run_index")
    assert status == 200
    assert [study["id"] for study in found["studies"]] == ["lag"]
    assert found["studies"][0]["finished"]
    runs = {run["id"]: run for run in found["runs"]}
    assert {"lstm", "transformer", "infinite"} <= set(runs)
    assert runs["infinite"]["label"] == "∞-former"
    assert runs["lstm"]["kind"] == "memory"
    assert runs["lstm"]["tested"]
    assert 0 < runs["lstm"]["loss"] < 10
    assert (found["huggingface"], found["documents"]) == (["base", "bert"], ["notes"])
    assert found["infinite"] == ["endless"]
    assert "story.txt" in found["texts"]


@pytest.mark.parametrize("path", ["/files/lag/report.html", "/shipped/lag"])
def test_pages_and_pictures_come_in_a_sandbox(client: Client, path: str) -> None:
    status, content, headers = client.ask(path)
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
    assert client.ask("/api/run_index", headers={"host": host})[0] == 421


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
    assert client.ask("/api/run_index", headers=headers)[0] == 403


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


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nhost: loc"])
def test_a_connection_over_which_nobody_asks_is_closed(
    opened: Any, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    from mnemoscope.scope import connection

    monkeypatch.setattr(connection, "SLOWEST", 0.2)
    client = opened()
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as line:
        line.sendall(begun)
        assert line.recv(4096) == b""


def test_too_much_in_pieces_is_too_much(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as line:
        head = f"POST /api/read HTTP/1.1\r\nhost: localhost:{client.port}\r\n"
        line.sendall(f"{head}transfer-encoding: chunked\r\n".encode())
        line.sendall(b"content-type: application/json\r\n\r\n")
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        line.sendall(piece * (guard.MOST_BYTES // 0x10000 + 1))
        assert b" 413 " in line.recv(4096)


def test_opened_wider_a_token_is_needed(opened: Any) -> None:
    client = opened(host="0.0.0.0")
    token = client.page.address.partition("token=")[2]
    assert len(token) >= 32
    for path in ("/", "/api/run_index", "/web/main.js", "/files/lag/report.html", "/shipped/lag"):
        assert client.ask(path)[0] == 401
    assert client.ask("/?token=wrong")[0] == 401
    assert client.ask("/api/run_index", headers={"cookie": f"{guard.COOKIE}=wrong"})[0] == 401
    assert client.ask("/api/run_index", headers={"cookie": "a;;=\x01"})[0] == 401
    status, _, headers = client.ask(f"/?token={token}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    known = {"cookie": cookie.partition(";")[0]}
    assert client.ask("/api/run_index", headers=known)[0] == 200
    assert (
        client.ask("/api/run_index", headers={**known, "origin": "http://evil.example"})[0] == 403
    )
    # Anywhere else the token is no key: an address with it could be sent on.
    assert client.ask(f"/api/run_index?token={token}")[0] == 401
