"""A connection that is closed when nobody asks anything over it."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

# Whoever has not finished the head of a request after so many seconds, or twice as many, is gone.
SLOWEST = 10.0


class Connection(H11Protocol):
    """Closes itself when no new request began between two looks at it, however slowly bytes drip.

    Without it, connections that never ask for anything would take the places of those that do.
    """

    _timer: asyncio.TimerHandle | None = None
    _seen: Any = None

    def connection_made(self, transport: Any) -> None:
        """Begin to look."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(SLOWEST, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self.cycle is self._seen:
            self.transport.close()
            return
        self._seen = self.cycle
        self._timer = self.loop.call_later(SLOWEST, self._look)
