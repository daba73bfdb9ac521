"""What a document memory does: right against wrong document, words of entries, where gain is from.

Shapes: S segments, N documents, E entries, V words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.texts import Documents

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory

Floats = NDArray[np.float64]
RESAMPLED = 1000
RANDOM_DRAWS = 4


@dataclass(frozen=True, eq=False)
class Contexts:
    """Losses of segments, and what they say.

    owner    (S,)    document of each segment
    losses   (S, N)  under every document
    none     (S,)    without memory
    random   (S,)    under representations drawn at random; NaN for masks that nobody learns
    """

    names: list[str]
    owner: NDArray[np.int64]
    losses: Floats
    none: Floats
    random: Floats

    @property
    def right(self) -> Floats:
        """Under the right document, (S,)."""
        found: Floats = self.losses[np.arange(len(self.owner)), self.owner]
        return found

    @property
    def wrong(self) -> Floats:
        """Mean under all wrong documents, (S,); NaN when there is one document only."""
        others = self.losses.shape[1] - 1
        if others == 0:
            return np.full(len(self.owner), np.nan)
        found: Floats = (self.losses.sum(1) - self.right) / others
        return found

    @property
    def named(self) -> NDArray[np.bool_]:
        """Whether the right document gives the lowest loss, (S,)."""
        found: NDArray[np.bool_] = self.losses.argmin(1) == self.owner
        return found

    @property
    def accuracy(self) -> float:
        """Share of segments whose document is named; chance is 1 / N."""
        return float(self.named.mean())

    def table(self) -> list[dict[str, Any]]:
        """One row for each document, then one for all with a 95 % bootstrap interval."""
        columns = {
            "right": self.right,
            "wrong": self.wrong,
            "none": self.none,
            "random": self.random,
            "named": self.named.astype(float),
        }
        rows: list[dict[str, Any]] = []
        for index, name in enumerate(self.names):
            own = self.owner == index
            if own.any():
                rows.append(
                    {"document": name, **{k: float(v[own].mean()) for k, v in columns.items()}}
                )
        rng = np.random.default_rng(0)
        drawn = rng.integers(len(self.owner), size=(RESAMPLED, len(self.owner)))
        whole: dict[str, Any] = {"document": "all"}
        for key, values in columns.items():
            low, high = np.quantile(values[drawn].mean(1), (0.025, 0.975))
            whole |= {
                key: float(values.mean()),
                f"{key} low": float(low),
                f"{key} high": float(high),
            }
        return [*rows, whole]

    def __str__(self) -> str:
        lines = [
            f"{'document':<28} {'right':>7} {'wrong':>7} {'none':>7} {'random':>7} {'named':>6}"
        ]
        for row in self.table():
            numbers = " ".join(f"{row[k]:7.3f}" for k in ("right", "wrong", "none", "random"))
            lines.append(f"{row['document'][:28]:<28} {numbers} {row['named']:6.0%}")
        return "\n".join([*lines, f"chance of naming: {1 / len(self.names):.1%}"])


def contexts(memory: DocumentMemory, given: Documents, most: int = 200, seed: int = 0) -> Contexts:
    """Read at most ``most`` segments, evenly taken, under every document of the memory."""
    if not memory.names:
        raise UserError("this memory has no documents yet: fit some first")
    unknown = [name for name in given.names if name not in memory.names]
    if unknown:
        parts.known(unknown[0], memory.names, "document")
    store = memory.store
    generator = torch.Generator().manual_seed(derive(seed, "random documents"))
    with parts.frozen(memory.model), torch.no_grad():
        reader = Reader(memory, given, keep=True)
        count = len(reader.segments)
        rows = torch.arange(count)
        if count > most:
            rows = torch.linspace(0, count - 1, most).round().long()
        rows = rows.to(reader.device)
        selection = store.selection()
        losses = torch.stack([reader.all_losses(one, rows) for one in selection], 1)
        none = reader.all_losses(None, rows)
        random = torch.full_like(none, torch.nan)
        if memory.options.control == "none":
            size = store.keys.square().mean().sqrt()
            shape = RANDOM_DRAWS, memory.options.key_dim
            drawn = torch.randn(shape, generator=generator).to(store.keys) * size
            chosen = store.chosen(drawn)
            random = torch.stack([reader.all_losses(one, rows) for one in chosen]).mean(0)
        numbers = torch.tensor([memory.names.index(name) for name in given.names])
        owner = numbers[reader.segments.owner[rows].cpu()]
    return Contexts(
        list(memory.names),
        owner.numpy(),
        losses.double().cpu().numpy(),
        none.double().cpu().numpy(),
        random.double().cpu().numpy(),
    )


@dataclass(frozen=True)
class Words:
    """The words an entry raises most and lowers most when it is open, with the change of logits."""

    entry: int
    raised: list[tuple[str, float]]
    lowered: list[tuple[str, float]]


def words(memory: DocumentMemory, entry: int, top: int) -> Words:
    """Read the value of an entry through the last norm's gain and the unembedding.

    This is the direct path: blocks above the memory can change what arrives.
    """
    if not 0 <= entry < memory.options.entries:
        raise UserError(
            f"entry {entry} does not exist: there are 0 to {memory.options.entries - 1}"
        )
    change = direct_logits(memory)[:, entry]
    best = change.topk(min(top, len(change)))
    worst = (-change).topk(min(top, len(change)))

    def spell(tokens: Tensor) -> list[tuple[str, float]]:
        return [(_word(memory, int(token)), float(change[token])) for token in tokens]

    return Words(entry, spell(best.indices), spell(worst.indices))


def direct_logits(memory: DocumentMemory) -> Tensor:
    """What each entry adds to the logits on the direct path, centred over words: (V, E)."""
    with torch.no_grad():
        values = memory.store.values.float()
        norm = parts.last_norm(memory.model, memory.blocks)
        if isinstance(norm, nn.LayerNorm):
            values = values - values.mean(0)
        gain = getattr(norm, "weight", None)
        if gain is not None:
            values = values * gain.float()[:, None]
        unembedding = memory.model.get_output_embeddings().weight
        if not unembedding.is_floating_point() or unembedding.shape[1] != len(values):
            raise UserError(
                "the unembedding is quantised or not as wide as the blocks: words cannot be read"
            )
        logits: Tensor = unembedding.float() @ values
        return logits - logits.mean(0)


def _word(memory: DocumentMemory, token: int) -> str:
    if memory.tokenizer is None:
        return str(token)
    return str(memory.tokenizer.decode([token]))


@dataclass(frozen=True)
class Split:
    """Why a text is likelier under its document, in nats per token: gain = raised + lowered.

    raised   the logits of its own words went up
    lowered  log Z of all words went down, which lowers the others
    """

    name: str
    gain: float
    raised: float
    lowered: float


def split(memory: DocumentMemory, name: str, given: Documents) -> Split:
    """Take the gain of a document apart, exactly: log p = logit − log Z, logits centred."""
    place = parts.known(name, memory.names, "document")
    if name not in given.ids:
        raise UserError(f"the text of {name!r} is not among the documents given")
    with parts.frozen(memory.model), torch.no_grad():
        reader = Reader(memory, given.pick([name]), keep=False)
        chosen = memory.store.selection()[place]
        totals = torch.zeros(2, dtype=torch.float64)
        count = 0
        for rows in torch.split(torch.arange(len(reader.segments), device=reader.device), 16):
            with_it = _own_and_all(*reader.logits(rows, chosen.expand(len(rows), -1)))
            without = _own_and_all(*reader.logits(rows, None))
            totals += (with_it - without).double().sum(0).cpu()
            count += len(with_it)
    raised, lowered = totals[0] / count, -totals[1] / count
    return Split(name, float(raised + lowered), float(raised), float(lowered))


def _own_and_all(logits: Tensor, targets: Tensor) -> Tensor:
    """Centred logit of the right word and log Z, at every target: (tokens, 2)."""
    predicted = targets != -100
    logits = logits[predicted]
    logits = logits - logits.mean(1, keepdim=True)
    own = logits.gather(1, targets[predicted][:, None])[:, 0]
    return torch.stack(
        (own, F.cross_entropy(logits, targets[predicted], reduction="none") + own), 1
    )
