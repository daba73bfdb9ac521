"""Make different models the same size, so that a comparison compares memories."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.errors import UserError
from mnemoscope.lenses.streams import open_stream
from mnemoscope.models.config import ModelConfig
from mnemoscope.models.model import parameters
from mnemoscope.registry import find, model_kind


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
    best: ModelConfig | None = None
    width = step
    while True:
        config: ModelConfig = kind.make(width=width, **options)
        if count(config) > budget:
            break
        best, width = config, width + step
    if best is None:
        raise UserError(
            f"{memory} needs at least {count(config)} parameters with these options; "
            f"{budget} are too few"
        )
    return best


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
    thin, thick = (kind.make(**options, hidden=units / width) for units in (1, 2))
    unit = count(thick) - count(thin)
    units = 1 + (budget - count(thin)) // unit
    if units < 1:
        raise UserError(
            f"{memory} has {count(thin)} parameters at width {width} with the thinnest "
            f"feed-forward layer; {budget} are too few"
        )
    fitting: ModelConfig = kind.make(**options, hidden=units / width)
    return fitting
