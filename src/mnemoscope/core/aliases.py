"""Names that were typed or stored once, and what they are called now. Nothing else knows them.

Old names work wherever new ones do: on the command line, in Python, in configs, states, saved
memories and results on disk.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

# By kind of thing: a word that may be typed or stored, and the name that is registered.
NAMES = {
    "memory": {
        "attention": "transformer",
        "cache": "transformer_xl",
        "xl": "transformer_xl",
        "infinite_former": "infinite",
        "∞_former": "infinite",
        "continuous": "infinite",
        "compressive_transformer": "compressive",
        "sparse_transformer": "sparse",
    },
    "translator": {"transformer": "encoder_decoder"},
    "encoder": {},
    "task": {"echo": "delayed_answer", "blanks": "masked_lm"},
    "lens": {"looks": "attention_maps"},
    "study": {"past": "infinite"},
    "attached": {
        "cache": "transformer_xl",
        "xl": "transformer_xl",
        "EndlessOptions": "infinite",
        "CacheOptions": "transformer_xl",
    },
}

# Options of configs. An old name counts only where the class has the new one and not the old.
OPTIONS = {
    "hidden": "mlp_ratio",
    "cached": "mem_len",
    "compressed": "compressed_len",
    "horizon": "tbptt",
    "kept": "mem_lens",
    "words": "vocab_size",
    "looks": "checkpoints",
}

# Options that came with another value than was meant before, and those by which it is known that a
# file names all that its version had, as those that are written here do: what it lacks is older.
BEFORE: dict[str, tuple[str, set[str]]] = {
    "fit": ("count", {"basis", "contraction", "sticky", "density", "gate"}),
    "domain": ("line", {"basis", "contraction", "sticky", "density", "gate"}),
    "reset": ("lane", {"source", "unit", "vocabulary_size", "held_out", "valid"}),
}


def canonical(kind: str, name: str) -> str:
    """The registered name that is meant; a name that is no alias comes back as it is."""
    table = NAMES.get(kind, {})
    plain = name.lower().replace("-", "_")
    return table.get(name) or table.get(plain) or (plain if plain in table.values() else name)


def formerly(name: str) -> list[str]:
    """What a folder was called that has a memory, and maybe an option, in its name.

    Such as ``gru-seed1`` or ``transformer_xl-mem_len8-seed1``.
    """
    olds = [(old, new) for kind in ("memory", "translator") for old, new in NAMES[kind].items()]
    found = [name]
    found += [name.replace(new, old, 1) for old, new in olds if re.match(rf"{new}(?![a-z_])", name)]
    for old, new in OPTIONS.items():
        found += [re.sub(rf"-{new}(?=\d)", f"-{old}", one) for one in found if f"-{new}" in one]
    return [one for one in dict.fromkeys(found) if one != name]


def now_called(fields: Container[str], option: str) -> str:
    """What an option of a config with these fields is called now."""
    new = OPTIONS.get(option, option)
    return new if option not in fields and new in fields else option


def renamed(fields: Container[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a config under the names that its fields have now."""
    return {now_called(fields, name): value for name, value in values.items()}


def stored(fields: Container[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a config on disk, under the names and with the meaning that they have today."""
    found = renamed(fields, values)
    older = {
        name: value
        for name, (value, complete) in BEFORE.items()
        if name in fields and found.keys() >= complete
    }
    return older | found
