"""A hub on this machine: as much of the protocol as uploading and downloading a folder takes.

What talks to it is `huggingface_hub` itself, over a real connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHA = "0123456789abcdef0123456789abcdef01234567"
Files = dict[str, bytes]


class LocalHub(BaseHTTPRequestHandler):
    """Keeps the files of repositories in ``server.repositories``."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    @property
    def files(self) -> dict[str, Files]:
        return self.server.repositories  # type: ignore[attr-defined, no-any-return]

    def answer(self, content: Any, status: int = 200) -> None:
        self.send(json.dumps(content).encode(), status)

    def send(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        home = f"http://{self.headers['Host']}"
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self.files.setdefault(name, {})
            self.answer({"url": f"{home}/{name}", "id": name})
        elif self.path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            paths = [one["path"] for one in json.loads(body)["files"]]
            plain = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer({"files": [{"path": path, **plain} for path in paths]})
        else:
            name = self.path.removeprefix("/api/models/").split("/commit/")[0]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.files[name][line["value"]["path"]] = content
            self.answer({"commitUrl": f"{home}/{name}/commit/{SHA}", "commitOid": SHA})

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        about = parts[:2] == ["api", "models"]
        owner, name, what, *rest = [*parts[2 if about else 0 :], "", "", ""]
        files = self.files.get(f"{owner}/{name}")
        path = "/".join(rest[1:]).strip("/")
        if files is None or (not about and path not in files):
            self.send(b"", 404, X_Error_Code="RepoNotFound")
        elif about and what == "tree":
            listed = [{"type": "file", "path": one, "size": len(files[one])} for one in files]
            self.answer([one | {"oid": oid(files[str(one["path"])])} for one in listed])
        elif about:
            listed = [{"rfilename": one} for one in files]
            self.answer({"id": f"{owner}/{name}", "sha": SHA, "siblings": listed})
        else:
            self.send(files[path], ETag=f'"{oid(files[path])}"', X_Repo_Commit=SHA)

    def do_HEAD(self) -> None:
        self.do_GET()


def oid(content: bytes) -> str:
    """What a file is known by."""
    return hashlib.sha1(content).hexdigest()


@contextmanager
def local_hub() -> Iterator[tuple[str, dict[str, Files]]]:
    """The address of a hub, and the files of its repositories."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), LocalHub)
    server.repositories = {}  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.repositories  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
