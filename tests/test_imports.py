import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "plotly", "accelerate", "sklearn"}


@pytest.mark.parametrize(
    "module",
    [
        "mnemoscope",
        "mnemoscope.core.registry",
        "mnemoscope.models.config",
        "mnemoscope.models.footprint",
        "mnemoscope.memories.infinite.config",
        "mnemoscope.memories.sparse.config",
        "mnemoscope.memories.transformer.config",
        "mnemoscope.models.encoder.config",
        "mnemoscope.data.copy",
        "mnemoscope.training.config",
    ],
)
def test_what_is_only_named_is_not_loaded(module: str) -> None:
    code = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    loaded = set(json.loads(done.stdout))
    assert module in loaded
    assert not loaded & HEAVY
