"""Learn documents: CE(right document) + α · |τ − CE(wrong document)|, the base left as it is.

Shapes: R rows, N documents, E entries, K size of a representation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.core.seeds import derive
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.config import Fitting, Guidance
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.texts import Documents
from mnemoscope.memories.documents.guidance import guided_losses

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory

# Gradients and selections are recorded about this often when nobody says how often.
RECORDED = 20
# Where nobody says another; relative to hidden states for what is added to them.
LR = 1e-2
# The hardest negative is the worst of this many other documents.
CANDIDATES = 4
NO_EFFECT = (
    "the memory changes no logit: the model does not use what its block returns, no gradient comes "
    "back through what is above it (some quantised layers), or nothing could be learnt (learning "
    "rate, epochs)"
)


@dataclass(frozen=True)
class Moment:
    """What was measured at one step: selection (N, E), representations (N, K), gradients."""

    step: int
    right: float
    wrong: float
    gradient_right: float
    gradient_wrong: float
    keys_gradient_right: float
    keys_gradient_wrong: float
    selection: Tensor = field(repr=False)
    keys: Tensor = field(repr=False)


@dataclass(frozen=True)
class Fitted:
    """How a fit went.

    none     loss of the documents without memory
    right    loss with the right document, after
    tau      the loss that was wanted with the wrong one
    recited  documents that are said word for word with their own entries, after
    changed  largest change of a logit that the memory makes
    moved    how far representations went, relative to their length
    flipped  share of their numbers that changed sign
    """

    names: list[str]
    segments: int
    steps: int
    none: float
    right: float
    tau: float
    recited: int
    changed: float
    moved: float
    flipped: float
    kept: bool
    seconds: float
    losses: list[float] = field(repr=False)
    moments: list[Moment] = field(repr=False)


def fit(
    memory: DocumentMemory,
    given: Documents,
    guidance: Guidance,
    options: Fitting,
    only_keys: bool = False,
) -> Fitted:
    """Train the memory on documents it has representations for."""
    began = time.process_time()
    if guidance.alpha and len(memory.names) < 2 and guidance.negative in ("other", "hardest"):
        raise UserError(
            "there is one document only, so no other to be the wrong one: set negative to random, "
            "or alpha to 0"
        )
    if memory.options.control != "none" and guidance.negative not in ("other", "hardest"):
        raise UserError(f"masks that nobody learns have no {guidance.negative} representation")
    with parts.frozen(memory.model):
        reader = Reader(memory, given, keep=False)
        size = Reader.bytes_of(memory, reader.segments)
        if options.cache == "on" or (options.cache == "auto" and size <= options.cache_bytes):
            reader.keep_hidden()
        none = float(reader.all_losses(None).mean())
        words = parts.words_of(memory.model)
        guidance.warn(none, words)
        course = Course(memory, reader, given, guidance, guidance.target(none, words), options)
        before = memory.store.keys.detach().clone()
        course.run(only_keys)
        after = memory.store.keys.detach()
        own = memory.store.selection().detach()[course.owner]
        right = float(reader.all_losses(own).mean())
        recited = reader.recited(own)
        changed = _changed(reader, own)
    return Fitted(
        names=given.names,
        segments=len(reader.segments),
        steps=len(course.losses),
        none=none,
        right=right,
        tau=course.tau,
        recited=recited,
        changed=changed,
        moved=float((after - before).norm() / before.norm().clamp(min=1e-12)),
        flipped=float((after.sign() != before.sign()).float().mean()),
        kept=reader.hidden is not None,
        seconds=time.process_time() - began,
        losses=course.losses,
        moments=course.moments,
    )


def _changed(reader: Reader, own: Tensor) -> float:
    """A memory that changes nothing is an error, however it came about."""
    first = torch.zeros(1, dtype=torch.long, device=own.device)
    with torch.no_grad():
        difference = reader.logits(first, own[:1])[0] - reader.logits(first, None)[0]
    changed = float(difference.abs().max())
    if not changed > 0:
        raise UserError(NO_EFFECT)
    return changed


class Course:
    """One training."""

    def __init__(
        self,
        memory: DocumentMemory,
        reader: Reader,
        given: Documents,
        guidance: Guidance,
        tau: float,
        options: Fitting,
    ) -> None:
        self.memory, self.reader, self.guidance = memory, reader, guidance
        self.store, self.tau, self.options = memory.store, tau, options
        numbers = torch.tensor([memory.names.index(name) for name in given.names])
        self.owner = numbers.to(reader.device)[reader.segments.owner]  # (S,) rows of the store
        self.generator = torch.Generator().manual_seed(derive(options.seed, "fit"))
        self.most = options.epochs * math.ceil(len(reader.segments) / options.batch)
        # Segments (S,) whose tokens all were safely the likeliest ones, when they were last read.
        self.recited = torch.zeros(len(self.owner), dtype=torch.bool, device=reader.device)
        self.losses: list[float] = []
        self.moments: list[Moment] = []

    def run(self, only_keys: bool) -> None:
        """Take steps until all is recited, or there are no more."""
        weights = [self.store.keys] if only_keys else list(self.store.parameters())
        weights = [weight for weight in weights if weight.requires_grad]
        if self.memory.options.control != "none":
            weights = [w for w in weights if w is not self.store.keys]
        if not weights:
            return
        optimizer = self._optimizer(weights)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 0.1 + 0.45 * (1 + math.cos(math.pi * min(1, step / self.most)))
        )
        every = self.options.record or max(1, self.most // RECORDED)
        fixed = torch.ones(len(self.store.keys), dtype=torch.bool, device=self.owner.device)
        fixed[-1] = False  # the newcomer
        documents = len(set(self.owner.tolist()))
        with progress("documents", self.most, silent=self.options.silent) as show:
            for step, rows in enumerate(self._rows()):
                right, pushed, wrong = self.both_terms(rows)
                if step % every == 0 or step == self.most - 1:
                    self._record(step, right, pushed, wrong, weights)
                loss = right + pushed
                if not loss.requires_grad:
                    raise UserError(NO_EFFECT)
                if not bool(loss.isfinite()):
                    raise UserError(f"the loss is {float(loss.detach())} at step {step}: lower lr")
                optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                if only_keys and self.store.keys.grad is not None:
                    self.store.keys.grad[fixed] = 0
                nn.utils.clip_grad_norm_(weights, self.options.clip)
                optimizer.step()
                schedule.step()
                self.losses.append(float(right.detach()))
                said = documents - len(set(self.owner[~self.recited].tolist()))
                show(step + 1, f"loss {self.losses[-1]:.3f}, recites {said} of {documents}")

    def _optimizer(self, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam moves a number by about lr a step, however far it has to go.

        Values begin at zero and become as large as the hidden states that they are added to,
        which in large models are tens of times those of small ones: lr has to follow.
        """
        lr = self.options.lr or LR
        if self.options.optimizer == "sgd":
            return torch.optim.SGD(weights, lr=lr, momentum=0.9)
        added = {self.store.values, self.store.bias}
        size = 1.0 if self.options.lr else max(1.0, self.reader.hidden_size())
        return torch.optim.Adam(
            [{"params": [w], "lr": lr * size if w in added else lr} for w in weights]
        )

    def _rows(self) -> Iterator[Tensor]:
        count = len(self.owner)
        for _ in range(self.options.epochs):
            order = torch.randperm(count, generator=self.generator).to(self.owner.device)
            yield from torch.split(order, self.options.batch)
            if self.options.stop and bool(self.recited.all()):
                return

    def both_terms(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both terms of the loss, and the mean loss with the wrong document."""
        selection, owner = self.store.selection(), self.owner[rows]
        chosen, read = selection[owner], rows
        if self.guidance.alpha:
            chosen = torch.cat((chosen, self._wrong(rows, owner, selection)))
            read = rows.repeat(2)
        losses, recited = self.reader.losses_and_recited(read, chosen)
        self.recited[rows] = recited[: len(rows)]
        if not self.guidance.alpha:
            nothing = losses.new_zeros(())
            return losses.mean(), nothing, nothing
        right, wrong = losses.chunk(2)
        own, pushed = guided_losses(right, wrong, self.guidance.alpha, self.tau, self.guidance.form)
        return own, pushed, wrong.mean()

    def _wrong(self, rows: Tensor, owner: Tensor, selection: Tensor) -> Tensor:
        keys, count = self.store.keys, len(selection)
        size = keys.detach().square().mean().sqrt()
        noise = torch.randn(len(rows), keys.shape[1], generator=self.generator).to(keys) * size
        match self.guidance.negative:
            case "zero":
                return self.store.chosen(torch.zeros_like(noise))
            case "random":
                return self.store.chosen(noise)
            case "perturbed":
                return self.store.chosen(keys[owner] + noise)
            case "other":
                return selection[self._other(owner, count)]
        candidates = [self._other(owner, count) for _ in range(CANDIDATES)]
        with torch.no_grad():
            found = [self.reader.losses(rows, selection[others]) for others in candidates]
        best = torch.stack(found).argmin(0)
        return selection[torch.stack(candidates).gather(0, best[None])[0]]

    def _other(self, owner: Tensor, count: int) -> Tensor:
        away = torch.randint(1, count, owner.shape, generator=self.generator).to(owner)
        return (owner + away) % count

    def _record(
        self, step: int, right: Tensor, pushed: Tensor, wrong: Tensor, weights: list[nn.Parameter]
    ) -> None:
        norms = []
        for term in (right, pushed):
            found: Any = [None] * len(weights)
            if term.requires_grad:
                found = torch.autograd.grad(term, weights, retain_graph=True, allow_unused=True)
            squares = [0.0 if g is None else float(g.square().sum()) for g in found]
            keys = [s for s, w in zip(squares, weights, strict=True) if w is self.store.keys]
            norms.append((math.sqrt(sum(squares)), math.sqrt(sum(keys))))
        self.moments.append(
            Moment(
                step=step,
                right=float(right.detach()),
                wrong=float(wrong.detach()),
                gradient_right=norms[0][0],
                gradient_wrong=norms[1][0],
                keys_gradient_right=norms[0][1],
                keys_gradient_wrong=norms[1][1],
                selection=self.store.selection().detach().cpu().clone(),
                keys=self.store.keys.detach().cpu().clone(),
            )
        )
