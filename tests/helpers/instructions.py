"""How a process is kept from using all that its processor can do."""

from __future__ import annotations

import os

# Which limit this process is under: "all" is none.
INSTRUCTIONS = os.environ.get("TEST_INSTRUCTIONS", "all")
# Read once, at start, by torch, oneDNN and MKL.
LIMITS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "plain": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
}
