"""What a run finds around it: processes, devices, precision, and people who press Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mnemoscope.core.errors import UserError


class LostProcessError(UserError):
    """Another process of a run on several has ended."""


def join(device: str) -> Any:
    """Return accelerate's view of the processes and the device this one works on.

    Under torchrun there must be as many processes as it started.
    """
    from accelerate import Accelerator

    here = {
        "auto": True,
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if device not in here:
        raise UserError(f"unknown device {device!r}; known: {', '.join(here)}")
    if not here[device]:
        raise UserError(f"this machine has no {device}; try --device cpu, or mnemoscope doctor")
    # Without cpu=True, torchrun on a machine with no GPU would train unconnected models.
    accelerator = Accelerator(cpu=device == "cpu" or not (here["cuda"] or here["mps"]))
    expected = int(os.environ.get("WORLD_SIZE", "1"))
    if accelerator.num_processes != expected:
        raise UserError(f"{expected} processes started, {accelerator.num_processes} joined")
    return accelerator


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Compute in bfloat16 when asked to, or by itself where the accelerator has it."""
    helps = precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.autocast(device.type, torch.bfloat16, enabled=helps or precision == "bfloat16")


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Yield a question to ask between steps: has somebody pressed Ctrl-C or sent SIGTERM?

    Asked a second time, it does not wait for the step to end: `KeyboardInterrupt`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked: list[int] = []

    # Of Ctrl-C in a terminal we hear twice under torchrun, which passes on what it has heard.
    patience = 2 if "TORCHELASTIC_RUN_ID" in os.environ else 1

    def note(received: int, frame: object) -> None:
        if len(asked) >= patience:
            raise KeyboardInterrupt
        asked.append(received)

    before: dict[int, Any] = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(asked)
    except LostProcessError:
        # torchrun ends those that are left by SIGTERM, which must not cut their last words short.
        before[signal.SIGTERM] = signal.SIG_IGN
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
