"""The config that weights were trained with, recorded beside them, against the one in config.yaml.

A run is its config: weights under another config would continue to what nobody asked for.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from mnemoscope.core.aliases import canonical, stored
from mnemoscope.training.config import RunConfig

# More differences than these are another config altogether.
_SHOWN = 8
_LONGEST = 60


def is_record(value: Any) -> bool:
    """Whether a value has the form of what `RunConfig.plain` gives."""
    return isinstance(value, dict) and all(isinstance(part, dict) for part in value.values())


def differences(
    recorded: dict[str, dict[str, Any]], now: RunConfig, when: str, free: Collection[str]
) -> list[str]:
    """What differs, one line each, such as ``training.lr: 0.001 at step 200, 0.01 now``.

    An option that the record does not know had no other value than its default: the version that
    wrote it did not have it yet. Names in ``free`` may differ.
    """
    kinds: dict[str, Any] = {"task": now.task, "model": now.model, "training": now.training}
    names = {"task": "task", "model": now.task.models}
    found = []
    for part, values in now.plain().items():
        known = stored(values, recorded.get(part, {}))
        if isinstance(known.get("name"), str):
            known["name"] = canonical(names[part], known["name"])
        usual = kinds[part].defaults()
        for name in dict.fromkeys([*values, *known]):
            was, here = known.get(name, usual.get(name)), values.get(name)
            if f"{part}.{name}" not in free and was != here:
                found.append(f"{part}.{name}: {_shown(was)} {when}, {_shown(here)} now")
    more = len(found) - _SHOWN
    return found if more <= 0 else [*found[:_SHOWN], f"and {more} more"]


def _shown(value: Any) -> str:
    said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
