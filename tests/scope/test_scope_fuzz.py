"""Any request, over any folder: an answer below 500, of bounded size, from inside the folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_from_bytes

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from page_requests import application, ask

pytest.importorskip("fastapi")

SECRET = b"nobody may read this"
MOST_ANSWER = 4 << 20

FILES = (
    "config.yaml",
    "study.yaml",
    "metrics.jsonl",
    "model.safetensors",
    "documents.safetensors",
    "endless.safetensors",
    "config.json",
    "vocabulary.json",
    "report.html",
    "result.json",
    "figures/a.svg",
    "checkpoints/1/model.safetensors",
    "runs/a/config.yaml",
    "runs/a/metrics.jsonl",
)
# Beginnings that lead a reader further in than noise would.
PIECES = st.sampled_from(
    [
        b"task: {name: copy}\n",
        b"model: {name: lstm, vocab: 3}\n",
        b"model: {name: 'os:system'}\n",
        b"training: {steps: 3}\n",
        b"study: lag\n",
        b'{"step": 1, "loss": 2.0}\n',
        b'{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}',
        b'{"unit": "characters", "content": "ab"}',
        b"\x10\0\0\0\0\0\0\0{}              ",
        b"[" * 50,
        b"9" * 5000,
        b"\xff\xfe",
        b": ",
        b"\n",
    ]
)
CONTENT = st.lists(PIECES | st.binary(max_size=40), max_size=5).map(b"".join)
FOLDERS = st.dictionaries(
    st.sampled_from(["a", "b/c", "ü x"]),
    st.dictionaries(st.sampled_from(FILES), CONTENT, min_size=1, max_size=5),
    max_size=3,
)
INSIDE = ["a", "b/c", "ü x", ".", "a/report.html", "a/figures/a.svg"]
OUTSIDE = ["..", "../secret.html", "a/../../secret.html", "linked.html", "linked/secret.html"]
NAMES = st.sampled_from([*INSIDE, *OUTSIDE, "", "/etc/passwd", "x" * 300]) | st.text(max_size=20)
MODELS = st.builds(
    lambda kind, name: f"{kind}:{name}",
    st.sampled_from(["run", "untrained", "huggingface", "documents", "infinite", "given", "os"]),
    NAMES,
) | st.text(max_size=10)


POSTED = ("read", "step", "head", "blank")
KINDS = ("files", "web", "shipped", "item", "model", "text", *POSTED, "any")


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request that makes some sense, or none."""
    kind = draw(st.sampled_from(KINDS))
    name = draw(NAMES)
    said: dict[str, Any] = {"path": draw(st.text(max_size=30)), "query": b""}
    if kind in ("files", "web", "shipped"):
        said["path"] = f"/{kind}/{name}"
    elif kind in ("item", "model", "text"):
        said["path"] = (
            f"/api/{draw(st.sampled_from(['run', 'study', 'shipped', 'run_index', 'progress']))}"
        )
        query = {"id": name}
        if kind == "model":
            said["path"], query = "/api/model", {"id": draw(MODELS)}
        elif kind == "text":
            said["path"], query = "/api/text", {"name": name, "start": draw(st.text(max_size=4))}
        pairs = (f"{key}={quote(value, errors='replace')}" for key, value in query.items())
        said["query"] = "&".join(pairs).encode()
    elif kind in POSTED:
        said |= {"path": f"/api/{kind}", "method": "POST", "body": draw(_bodies())}
        said["headers"] = [(b"content-type", b"application/json")]
    if draw(st.booleans()) and kind == "any":
        said["query"] = quote_from_bytes(draw(st.binary(max_size=20))).encode()
        said["method"] = draw(st.sampled_from(["GET", "HEAD", "POST", "PUT", "TRACE", "x", ""]))
        said["body"] = draw(st.binary(max_size=50))
        names = st.sampled_from([b"origin", b"content-length", b"range", b"cookie", b"x"])
        pair = st.tuples(names, st.binary(max_size=20))
        said["headers"] = draw(st.lists(pair, max_size=3))
    return said


def _bodies() -> st.SearchStrategy[bytes]:
    values = st.none() | st.integers() | st.floats() | st.text(max_size=10) | MODELS
    keys = st.sampled_from(
        [
            "model",
            "text",
            "segment",
            "segments",
            "document",
            "reading",
            "part",
            "head",
            "token",
            "layer",
            "store",
            "low",
            "high",
            "unit",
        ]
    )
    likely = st.fixed_dictionaries({"model": MODELS, "text": st.text(max_size=20)})
    whole = likely | st.dictionaries(keys | st.text(max_size=3), values, max_size=4) | values
    return whole.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=30)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("fuzz")
    (home / "secret.html").write_bytes(SECRET)
    return home


NO_LENGTH = {"path": "/", "headers": [(b"content-length", b"9" * 5000)]}


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(folders=FOLDERS, asked=st.lists(requests(), min_size=1, max_size=5))
@example(folders={}, asked=[NO_LENGTH])
@example(folders={"a": {"config.yaml": b"9" * 5000}}, asked=[])
def test_any_request_over_any_folder(
    folders: dict[str, dict[str, bytes]], asked: list[dict[str, Any]], home: Path
) -> None:
    root = home / "runs"
    shutil.rmtree(root, ignore_errors=True)
    for folder, files in folders.items():
        for name, content in files.items():
            path = root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    root.mkdir(exist_ok=True)
    (root / "linked.html").symlink_to(home / "secret.html")
    (root / "linked").symlink_to(home)
    app = application(root, root)
    always = [{"path": "/api/run_index"}, {"path": "/api/progress"}, {"path": "/"}]
    for request in [*asked, *always]:
        answer = ask(app, **request)
        assert answer.status < 500, (request, answer.body[:500])
        assert len(answer.body) < MOST_ANSWER
        assert SECRET not in answer.body
    # Whatever lies in the folder is listed, and can be asked for.
    found = json.loads(ask(app, "/api/run_index").body)
    for run in found["runs"]:
        said = ask(app, "/api/run", f"id={quote(run['id'])}".encode())
        assert said.status == 200, said.body
