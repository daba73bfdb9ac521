"""Make different models the same size, so that a comparison compares memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find, model_kind
from mnemoscope.memories.config import ModelConfig
from mnemoscope.models.model import parameters
from mnemoscope.open import open_stream
from mnemoscope.studies.contenders import known_options


def sized(memory: str, budget: int, **options: Any) -> ModelConfig:
    """Return the config of the widest model that has at most ``budget`` parameters."""
    kind = find(model_kind(memory), memory)
    # Heads must divide the width, rotary positions turn pairs within a head, and a source that is
    # read both ways gives half of the width to each.
    fields = kind.model_fields
    step = 2 if "both_ways" in fields else 1
    if "heads" in fields:
        heads = int(options.get("heads", fields["heads"].default))
        step = heads if kind.reads_source else 2 * heads

    def at(steps: int) -> ModelConfig:
        config: ModelConfig = kind.make(width=steps * step, **options)
        return config

    least = count(at(1))
    if least > budget:
        raise UserError(
            f"{memory} needs at least {least} parameters with these options; {budget} are too few"
        )
    # Doubled until it is too wide, then halved in between: a large budget is found at once.
    fits, too_wide = 1, 2
    while count(at(too_wide)) <= budget:
        fits, too_wide = too_wide, 2 * too_wide
    while too_wide - fits > 1:
        middle = (fits + too_wide) // 2
        fits, too_wide = (middle, too_wide) if count(at(middle)) <= budget else (fits, middle)
    return at(fits)


def count(config: ModelConfig) -> int:
    """Parameters of a model, without giving it any memory."""
    with torch.device("meta"):
        return parameters(config.build())


def state_bytes(config: ModelConfig, tokens: int, segment: int | None = None) -> int:
    """Measured bytes that one stream carries after so many tokens, read ``segment`` at a time."""
    return open_stream(config.build()).bytes_after(tokens, segment)


def fitted(memory: str, budget: int, **options: Any) -> ModelConfig:
    """Return a model of the given width whose feed-forward layers use up the rest of ``budget``.

    So models of the same width, hence with states of the same size, get equal parameters although
    their memories bring different ones.
    """
    kind = find("memory", memory)
    width = int(options["width"])
    thin, thick = (kind.make(**options, mlp_ratio=units / width) for units in (1, 2))
    unit = count(thick) - count(thin)
    units = 1 + (budget - count(thin)) // unit
    if units < 1:
        raise UserError(
            f"{memory} has {count(thin)} parameters at width {width} with the thinnest "
            f"feed-forward layer; {budget} are too few"
        )
    fitting: ModelConfig = kind.make(**options, mlp_ratio=units / width)
    return fitting


def as_large_as(
    rival: tuple[str, Mapping[str, Any]],
    contenders: Mapping[str, tuple[str, Mapping[str, Any]]],
    shape: Mapping[str, Any],
) -> dict[str, ModelConfig]:
    """Return every contender, given as memory and options, with the rival's number of parameters.

    All have the ``shape``, as far as they know it. What has no feed-forward layer to grow is as
    wide as the budget allows.
    """
    budget = count(find("memory", rival[0]).make(**shape, **rival[1]))
    found = {}
    for name, (memory, options) in contenders.items():
        kind = find("memory", memory)
        given = known_options(kind, shape) | dict(options)
        if "mlp_ratio" in kind.model_fields:
            found[name] = fitted(memory, budget, **given)
        else:
            del given["width"]
            found[name] = sized(memory, budget, **given)
    return found
