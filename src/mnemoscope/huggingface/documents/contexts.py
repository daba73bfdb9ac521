"""What a document memory does: right against wrong document, words of entries, what gains.

Shapes: S segments, N documents, E entries, V words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
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
    losses   (S, N)  with every document
    none     (S,)    without memory
    random   (S,)    with representations drawn at random; NaN for masks that nobody learns
    """

    names: list[str]
    owner: NDArray[np.int64]
    losses: Floats
    none: Floats
    random: Floats

    @property
    def right(self) -> Floats:
        """With the right document, (S,)."""
        found: Floats = self.losses[np.arange(len(self.owner)), self.owner]
        return found

    @property
    def wrong(self) -> Floats:
        """Mean with all wrong documents, (S,); NaN when there is one document only."""
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
                means = {key: float(values[own].mean()) for key, values in columns.items()}
                rows.append({"document": name, **means})
        whole: dict[str, Any] = {"document": "all"}
        drawn = np.random.default_rng(0).integers(
            len(self.owner), size=(RESAMPLED, len(self.owner))
        )
        for key, values in columns.items():
            low, high = np.quantile(values[drawn].mean(1), (0.025, 0.975)).tolist()
            whole |= {key: float(values.mean()), f"{key} low": low, f"{key} high": high}
        return [*rows, whole]

    def __str__(self) -> str:
        titles = ("right", "wrong", "none", "random")
        lines = [f"{'document':<28} " + " ".join(f"{title:>7}" for title in titles) + "  lowest"]
        for row in self.table():
            numbers = " ".join(f"{row[title]:7.3f}" for title in titles)
            lines.append(f"{row['document'][:28]:<28} {numbers} {row['named']:7.0%}")
        chance = f"(by chance {1 / len(self.names):.1%})"
        lines.append(
            "loss in nats per token with the right document, a wrong one, none, a random one"
        )
        lines.append(f"lowest: how often the right document has the lowest loss {chance}")
        return "\n".join(lines)


def contexts(memory: DocumentMemory, given: Documents, most: int = 200, seed: int = 0) -> Contexts:
    """Read at most ``most`` segments, evenly taken, with every document of the memory."""
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
    """The words an entry raises most and lowers most when it is open.

    With the change of their logits against that of the average word.
    """

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
    """How log p of words changes with a document, in nats, mean over the tokens of its text.

    gain     of the words that stand there
    rival    of the words that the base likes best instead
    average  of all words of the vocabulary, in the mean

    A logit alone says nothing: a constant added to all of them changes no probability, so "raised"
    and "lowered" depend on how logits are centred. These three, and their differences, which are
    changes of log-odds, do not.
    """

    name: str
    gain: float
    rival: float
    average: float


def split(memory: DocumentMemory, name: str, given: Documents) -> Split:
    """Compare a document's text with it and without memory."""
    place = parts.known(name, memory.names, "document")
    if name not in given.ids:
        raise UserError(f"the text of {name!r} is not among the documents given")
    with parts.frozen(memory.model), torch.no_grad():
        reader = Reader(memory, given.pick([name]), keep=False)
        chosen = memory.store.selection()[place]
        found = []
        for rows in torch.split(torch.arange(len(reader.segments), device=reader.device), 16):
            without, targets = reader.logits(rows, None)
            under, _ = reader.logits(rows, chosen.expand(len(rows), -1))
            read = targets != -100
            found.append(changes(without[read], under[read], targets[read]))
    gain, rival, average = torch.cat(found).double().mean(0).tolist()
    return Split(name, gain, rival, average)


def changes(before: Tensor, after: Tensor, targets: Tensor) -> Tensor:
    """Change of log p of the target, of its likeliest rival before, and of all words: (tokens, 3).

    Logits (tokens, V) and targets (tokens,).
    """
    own = targets[:, None]
    rival = before.scatter(1, own, -torch.inf).argmax(1, keepdim=True)
    change = after.log_softmax(1) - before.log_softmax(1)
    return torch.cat((change.gather(1, own), change.gather(1, rival), change.mean(1)[:, None]), 1)
