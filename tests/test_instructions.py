"""A limit on instructions that took no effect would let every exact test pass for nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from instructions import INSTRUCTIONS, LIMITS

# What torch, MKL and oneDNN call the instructions that each limit leaves.
SHOWN = {
    "avx2": ("torch AVX2", "(Intel(R) AVX2) enabled", "isa:Intel AVX2\n"),
    "plain": ("torch DEFAULT", "(Intel(R) SSE4.2) enabled", "isa:Intel SSE4.1\n"),
}
MULTIPLY = """
import torch
print("torch", torch.backends.cpu.get_cpu_capability())
wide = torch.ones(256, 256)
wide @ wide
torch.nn.functional.conv2d(torch.ones(8, 16, 32, 32), torch.ones(16, 16, 3, 3))
"""


def _intel_with_avx512() -> bool:
    known = Path("/proc/cpuinfo")
    about = known.read_text() if known.is_file() else ""
    return platform.machine() == "x86_64" and "GenuineIntel" in about and "avx512f" in about


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.skipif(
    not _intel_with_avx512(), reason="the libraries tell what they use on Intel processors"
)
def test_torch_mkl_and_onednn_obey_the_limit(limit: str) -> None:
    told = {**os.environ, "MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1", **LIMITS[limit]}
    done = subprocess.run(
        [sys.executable, "-c", MULTIPLY], capture_output=True, text=True, env=told, check=True
    )
    for line in SHOWN[limit]:
        assert line in done.stdout


@pytest.mark.exact
def test_this_process_is_under_the_limit_that_was_asked_for() -> None:
    kind = torch.backends.cpu.get_cpu_capability()
    assert INSTRUCTIONS in ("all", *LIMITS)
    for name, value in LIMITS.get(INSTRUCTIONS, {}).items():
        assert os.environ[name] == value
    if INSTRUCTIONS == "avx2":
        assert not kind.startswith("AVX512")
    if INSTRUCTIONS == "plain":
        assert kind in ("DEFAULT", "NO AVX")
    assert torch.get_num_threads() == int(os.environ.get("TEST_THREADS", "1"))
