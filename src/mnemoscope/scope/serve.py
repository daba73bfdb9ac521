"""Open the page: bind an address, print where it is, answer until stopped."""

from __future__ import annotations

import re
import secrets
import socket
import webbrowser
from pathlib import Path

import uvicorn

from mnemoscope.core.errors import UserError
from mnemoscope.scope.connection import Connection
from mnemoscope.scope.guard import Guard, is_local
from mnemoscope.scope.library import Library
from mnemoscope.scope.server import build
from mnemoscope.scope.sessions import Sessions

# Connections at a time; those of a browser stay open for a while.
MOST_CONNECTIONS = 256
LAST_PORT = 65535


class Page:
    """A server that is bound but does not answer yet: ``address`` is where it will."""

    def __init__(
        self, root: Path, given: list[str], texts: Path | None, host: str, port: int
    ) -> None:
        if not 0 <= port <= LAST_PORT:
            raise UserError(f"there is no port {port}: choose another --port, or 0 for any")
        # An empty one would mean every address of this machine.
        if not re.fullmatch(r"[\w.:%-]+", host):
            raise UserError(
                f"{host!r} is no address: give --host a name or a number, such as 127.0.0.1 for "
                "this machine only or 0.0.0.0 for all who can reach it"
            )
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            # Looked up first: what is no name at all must not leave a socket behind.
            where = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
            self.socket = socket.create_server(where, family=family, backlog=128)
        # UnicodeError and the others: what is no name of a machine at all.
        except (OSError, UnicodeError, ValueError, TypeError) as error:
            raise UserError(
                f"cannot open {host}:{port} ({error}); choose another --port, or 0 for any"
            ) from error
        local = is_local(host) and is_local(str(where[0]))
        token = None if local else secrets.token_urlsafe(24)
        app = Guard(build(Library(root), Sessions(root, given), texts), host, token)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.socket.getsockname()[1]}/"
        if token is not None:
            self.address += f"?token={token}"
        self.server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="error",
                lifespan="off",
                ws="none",
                http=Connection,
                loop="asyncio",
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
                server_header=False,
                proxy_headers=False,
            )
        )

    def answer(self, show: bool) -> None:
        """Serve until somebody stops the process; ``show`` opens a browser."""
        if show:
            webbrowser.open(self.address)
        self.server.run(sockets=[self.socket])
