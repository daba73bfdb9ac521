"""Load models of `transformers` and their tokenizers: whole, from safetensors, running no code.

This is the one place that does. Whatever is wrong with a folder is a `UserError` that says which
file and what to do; weights that are missing are never made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os.path import expanduser
from typing import Any

import numpy as np

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.folder import (
    AGAIN,
    SAVE_ONE,
    Held,
    check_folder,
    check_tokenizer,
    find_folder,
    read_config,
)
from mnemoscope.huggingface.quiet import quiet, require_transformers

# A byte of quantised weights stands for at most so many numbers.
PACKED = 8
# Numbers that a model may have without their being in a file: what is computed, small norms.
UNSAVED = 1 << 20
# What encoders put on top and the models that wrote them may not have had.
OPTIONAL = "pooler"


def load_causal(name: str) -> Any:
    """A causal language model from a folder or by name; a folder asks nothing of a network."""
    return _load(name, "AutoModelForCausalLM")


def load_masked(name: str) -> Any:
    """A masked language model from a folder or by name."""
    return _load(name, "AutoModelForMaskedLM")


def load_bare(name: str) -> Any:
    """Any model without its head, as lenses read it."""
    return _load(name, "AutoModel")


def load_model(name: str) -> tuple[Any, Any]:
    """A causal language model with its tokenizer."""
    model = load_causal(name)
    return model, load_tokenizer(name, model)


def load_config(name: str) -> Any:
    """What a model says of itself, before any weight is read."""
    require_transformers()
    folder = find_folder(name)
    if folder is not None:
        read_config(folder)
    with explained(f"load {name!r}", folder is None):
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(expanduser(name), **_options(folder is not None))
    if "/" in str(getattr(config, "_attn_implementation", None)):
        raise UserError(f"{name} asks for code from a hub ({config._attn_implementation})")
    return config


def architecture(name: str) -> str:
    """What the config of a model says that its weights are, such as "LlamaForCausalLM"."""
    return " ".join(getattr(load_config(name), "architectures", None) or [])


def load_tokenizer(name: str, model: Any = None) -> Any:
    """The tokenizer of a model; it must know no more words than ``model`` does."""
    require_transformers()
    folder = find_folder(name)
    if folder is not None:
        check_tokenizer(folder)
    with explained(f"load the tokenizer of {name!r}", folder is None):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(expanduser(name), **_options(folder is not None))
        files = [*getattr(tokenizer, "vocab_files_names", {}).values()]
        files += ["tokenizer.json"] if files else []
        # Of a folder without a vocabulary, the library makes a tokenizer that knows no word.
        empty = folder is not None and files and not any((folder / f).is_file() for f in files)
        ids = [] if empty else [*tokenizer.get_vocab().values()]
        words = int(tokenizer.vocab_size)
    if not ids:
        raise UserError(
            f"{name} has no tokenizer (none of {', '.join(dict.fromkeys(files))}): {SAVE_ONE}"
        )
    known = None if model is None else rows_of(model)
    # Added tokens may lie outside, as long as no text holds one: see `check_ids`.
    if known is not None and words > known:
        raise UserError(
            f"the tokenizer of {name} has {words} words but the model only {known}: they do not "
            "belong together; put the model's own tokenizer there"
        )
    return tokenizer


def rows_of(model: Any) -> int:
    """How many words a model can read."""
    return int(model.get_input_embeddings().weight.shape[0])


def check_ids(name: str, ids: Any, known: int) -> None:
    """Refuse token ids, of any shape, that the model has no row for, before it runs."""
    held = np.asarray(ids)
    low, high = (int(held.min()), int(held.max())) if held.size else (0, 0)
    if low < 0 or high >= known:
        raise UserError(
            f"the text holds token id {low if low < 0 else high}, but {name} reads 0 to "
            f"{known - 1}: use the tokenizer that belongs to the model"
        )


def _load(name: str, auto: str) -> Any:
    require_transformers()
    folder = find_folder(name)
    held = None if folder is None else check_folder(folder)
    config = load_config(name)
    with explained(f"load {name!r}", folder is None):
        import transformers

        kind = getattr(transformers, auto)
        if held is not None:
            _check_size(name, kind, config, held)
        model, found = kind.from_pretrained(
            expanduser(name),
            config=config,
            use_safetensors=True,
            # Told apart below, with a message of our own.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **_options(folder is not None),
        )
    _check_weights(name, found, optional=auto == "AutoModel")
    _settle(model)
    return model.eval()


def _options(local: bool) -> dict[str, bool]:
    return {"local_files_only": local, "trust_remote_code": False}


def _check_size(name: str, kind: Any, config: Any, held: Held) -> None:
    """Refuse a config that describes far more than the weights hold, before room is made for it."""
    import torch

    with torch.device("meta"):
        model = kind.from_config(config, trust_remote_code=False)
    wanted = sum(weight.numel() for weight in model.parameters())
    computed = sum(part.numel() for part in model.buffers())
    if wanted > PACKED * held.nbytes + UNSAVED or computed > PACKED * held.nbytes + (1 << 30):
        raise UserError(
            f"config.json of {name} describes {wanted + computed:,} numbers, but its weights hold "
            f"{held.nbytes:,} bytes: {AGAIN}"
        )


def _check_weights(name: str, found: dict[str, Any], optional: bool) -> None:
    """Refuse what `transformers` would fill with random numbers and only warn of."""
    for key, there, wanted in sorted(found["mismatched_keys"], key=str):
        raise UserError(
            f"the weights of {name} do not fit its config.json: {key} is {tuple(there)}, wanted is "
            f"{tuple(wanted)}; {AGAIN}"
        )
    missing = sorted(
        key for key in found["missing_keys"] if not (optional and OPTIONAL in key.split("."))
    )
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"the weights of {name} lack {missing[0]}{more}, which its config.json asks for: "
            f"{AGAIN}, or save it as the kind of model it is to be"
        )
    if found["error_msgs"]:
        raise UserError(f"cannot load {name!r}: {_one_line(found['error_msgs'][0])}")


def _settle(model: Any) -> None:
    """Copy weights out of the file they are mapped from.

    Where they lie in it would else decide the last bits of what is computed, and a file that
    somebody cuts meanwhile would end the process.
    """
    for part in [*model.parameters(), *model.buffers()]:
        part.data = part.data.clone()


@contextmanager
def explained(doing: str, remote: bool) -> Iterator[None]:
    """Say in one line what the library made of a folder or a name, whatever it raises."""
    try:
        with quiet(downloads=remote):
            yield
    except (UserError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    # Any kind of exception comes out of a damaged folder, and panics of Rust are no `Exception`.
    except BaseException as error:
        raise UserError(f"cannot {doing}: {_one_line(error)}") from error


def _one_line(error: object) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 300 else f"{said[:300]}…"
