"""Take a document out of a memory as if it had never been in it.

Documents share entries: what one has learnt lies in values that others open too, and a new
representation would find it there. Only learning the others anew, without it, takes it away, and
then for certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.config import Fitting, Guidance
from mnemoscope.huggingface.documents.fitting import fit
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.texts import Documents

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory

Ids = Mapping[str, list[int]]


@dataclass(frozen=True)
class Forgotten:
    """What forgetting changed; losses in nats per token.

    others            how many are left
    recited_before    of these, how many were said word for word, and how many are now
    right_before      their loss with their own document, before and now
    own_before        loss of the forgotten text with its document
    own_now           with a representation that was learnt for it afterwards
    none              without memory
    The last three are None where its text is not known.
    """

    name: str
    others: int
    recited_before: int = 0
    recited_now: int = 0
    right_before: float | None = None
    right_now: float | None = None
    own_before: float | None = None
    own_now: float | None = None
    none: float | None = None

    def __str__(self) -> str:
        said = f"forgot {self.name}; {self.others} documents are left"
        if self.right_before is not None:
            said += (
                f", {self.recited_now} recited word for word ({self.recited_before} before), loss "
                f"{self.right_before:.3f} → {self.right_now:.3f}"
            )
        if self.own_now is None:
            return said
        return (
            f"{said}; its text: loss {self.own_before:.3f} before, {self.own_now:.3f} with a new "
            f"representation, {self.none:.3f} without memory"
        )


def forget(memory: DocumentMemory, name: str, texts: Ids, options: Fitting) -> Forgotten:
    """Learn all other documents anew; ``texts`` are those of the others, and its own if known."""
    rest = [one for one in memory.names if one != name]
    missing = [one for one in rest if one not in texts]
    if missing:
        raise UserError(
            f"{name!r} shares entries with other documents, which have to be learnt anew without "
            f"it: give their texts as keep, or as --folder; that of {missing[0]!r} is missing"
        )
    own = Documents({name: texts[name]}, **memory.cutting) if name in texts else None
    own_before = _right(memory, own)[0] if own else None
    if not rest:
        memory.empty()
        return Forgotten(name, 0)
    others = Documents({one: texts[one] for one in rest}, **memory.cutting)
    right_before, recited_before = _right(memory, others)
    guidance = memory.guidance
    if len(rest) == 1 and guidance.negative in ("other", "hardest"):
        guidance = guidance.model_copy(update={"alpha": 0.0})  # there is no other left
    memory.start(others)
    run = fit(memory, others, guidance, options)
    memory.guidance, memory.fitting = guidance, options
    own_now, none = _brought_back(memory, own, options) if own else (None, None)
    return Forgotten(
        name=name,
        others=len(rest),
        recited_before=recited_before,
        recited_now=run.recited,
        right_before=right_before,
        right_now=run.right,
        own_before=own_before,
        own_now=own_now,
        none=none,
    )


def _right(memory: DocumentMemory, given: Documents) -> tuple[float, int]:
    """The loss of documents with their own entries, and how many are recited."""
    with parts.frozen(memory.model), torch.no_grad():
        reader = Reader(memory, given, keep=True)
        places = torch.tensor([memory.names.index(name) for name in given.names])
        owner = places.to(reader.device)[reader.segments.owner]
        chosen = memory.store.selection()[owner]
        return float(reader.all_losses(chosen).mean()), reader.recited(chosen)


def _brought_back(memory: DocumentMemory, own: Documents, options: Fitting) -> tuple[float, float]:
    """Loss of a text with a representation learnt for it, and with none; nothing is kept."""
    counted = memory.frequencies
    memory.extend(own)
    try:
        run = fit(memory, own, Guidance(alpha=0.0), options, only_keys=True)
        return run.right, run.none
    finally:
        store, memory.frequencies = memory.store, counted
        del memory.beginnings[memory.names.pop()]
        store.keys = nn.Parameter(store.keys.data[:-1], requires_grad=store.options.learned)
        store.masks = store.masks[:-1]
