"""The base of a saved memory: what is said of it, and where it is found again.

It is known by a fingerprint of its weights, so a memory and a model that were moved, together or
into another folder, still belong together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.blocks import fingerprint, width_of
from mnemoscope.huggingface.folder import CONFIG
from mnemoscope.huggingface.loading import load_causal, load_config

# A base that was saved with its memory lies in a folder of this name inside the memory's.
BESIDE = "model"


def facts_of(base: Any) -> dict[str, Any]:
    """What is saved of the model that a memory is attached to."""
    name = getattr(base.config, "_name_or_path", "")
    # Wherever the memory is opened from; and it cannot be taken for a name on the hub.
    local = bool(name) and os.path.isdir(os.path.expanduser(name))
    return {
        "base_model_name_or_path": os.path.abspath(os.path.expanduser(name)) if local else name,
        "base_fingerprint": fingerprint(base),
        "architecture": type(base).__name__,
        "width": width_of(base),
    }


def check(folder: str | Path, about: Mapping[str, Any], base: Any) -> None:
    """Refuse a model that a saved memory was not attached to."""
    if about["base"] != fingerprint(base):
        raise UserError(
            f"the memory in {folder} was attached to another base model "
            f"({about['model'] or 'without a name'}): load that one"
        )


def find(folder: Path, about: Mapping[str, Any]) -> str:
    """Where the base of the memory in ``folder`` is: a folder, or a name on the hub.

    Inside the memory's own folder, where it was, or nearby and known by its fingerprint.
    """
    name: str = about["model"]
    for known in (str(folder / BESIDE), name):
        if known and _is_model(Path(known)):
            return known
    for near in dict.fromkeys(_nearby(folder, name)):
        if _fits(near, about):
            return str(near)
    if not name:
        raise UserError(
            f"the memory in {folder} does not say which model it is for: give that as base=, or "
            "as --model"
        )
    if os.path.isabs(name):
        raise UserError(
            f"the base of the memory in {folder} is no longer in {name}, nor beside the memory: "
            "give its folder as base=, or as --model"
        )
    return name


def _nearby(folder: Path, name: str) -> Iterator[Path]:
    """Folders of models that a memory's base may have been moved to, the likeliest first."""
    home = folder.resolve()
    roots = [home, *home.parents[:2], Path.cwd()]
    parts = Path(name).parts
    named = [root.joinpath(*parts[-count:]) for root in roots for count in (2, 1) if parts]
    beside = [*sorted(home.glob("*")), *sorted(home.parent.glob("*"))]
    yield from filter(_is_model, [*named, *beside])


def _is_model(folder: Path) -> bool:
    return os.path.isfile(folder / CONFIG)


def _fits(folder: Path, about: Mapping[str, Any]) -> bool:
    """Whether a folder holds the base; weights are read only where the config fits."""
    try:
        config = load_config(str(folder))
        width = getattr(config.get_text_config(decoder=True), "hidden_size", None)
        architecture = about["architecture"] or None
        if about["width"] not in (None, width):
            return False
        if architecture not in (None, *(getattr(config, "architectures", None) or [])):
            return False
        return bool(fingerprint(load_causal(str(folder))) == about["base"])
    except UserError:  # a damaged model, or one of another kind
        return False
