"""No engine at all: the same command on several machines that share a folder."""

from __future__ import annotations

from typing import ClassVar

from mnemoscope.studies.engines.local import Local


class Shared(Local):
    """Processes on every machine where the same command was started on the same folder.

    They divide the trials by claim files, and each ends when all trials are done, whoever did them.
    """

    name: ClassVar[str] = "shared"
    shares: ClassVar[bool] = True
