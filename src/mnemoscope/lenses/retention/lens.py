"""How many bits a model still knows of what it was told, and how many bytes it carries for that.

Pairs of a key and a value are written, then noise follows in which keys come back: at each the
value is due. Bits recalled are Σ max(0, log₂ V − cross-entropy) over the questions of an episode;
the cross-entropy is that of a softmax over the V possible values, so that guessing costs log₂ V
for a model that was trained on this as for one that never saw it.

max(0, ·) of a noisy number is too large on average. So the mean over episodes is taken first, for
each question by its position in the episode, and only then the maximum; what is left of the bias
shows in the two controls: the same questions after the state was blanked, and the answers held
against the values of another episode.

All that is known when the noise begins has gone through the state at that point, and no value is
asked for twice: more than 8 bits per byte of that state cannot be recalled (data processing). A
result that says otherwise has found a state that is not all of it, and is refused.

Shapes: B rows, T tokens, E episodes, Q questions of an episode, R resamples.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.core.seeds import derive
from mnemoscope.core.statistics import bootstrap_weights, quantile_interval
from mnemoscope.data.batch import NO_QUESTION, Batch
from mnemoscope.data.recall import Recall
from mnemoscope.lenses.lens import Lens
from mnemoscope.lenses.retention.cost import flops
from mnemoscope.lenses.retention.episodes import (
    CHANCE,
    Along,
    Question,
    RetentionOptions,
    Spelling,
    curve_points,
)
from mnemoscope.lenses.retention.result import (
    Curve,
    Estimate,
    RetentionComparison,
    RetentionResult,
)
from mnemoscope.memories.state import StreamState
from mnemoscope.open import Stream, open_stream
from mnemoscope.training.run import Run

BITS_PER_BYTE = 8


@dataclass
class _Seen:
    """Cross-entropies in bits of one question: (rows, Q) per batch, and what was carried."""

    question: Question
    bits: list[Floats] = field(default_factory=list)
    blanked: list[Floats] = field(default_factory=list)
    shuffled: list[Floats] = field(default_factory=list)
    right: list[Floats] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)
    narrowest: list[int] = field(default_factory=list)


class Retention(Lens):
    """Ask a model what it still knows: ``observe`` episodes, then ``result``.

    ``Retention(stream, task)`` is for a model that was trained on ``task``; without a task the
    model is asked in its own words, in context, and nothing is trained. ``ask()`` does it all.
    """

    title = "Retention"
    question = "What does {models} still know of what was read, and in how many bytes?"
    Options, Result = RetentionOptions, RetentionResult | RetentionComparison
    models = (1, None)
    reads = "nothing"

    @classmethod
    def measure(
        cls, models: Sequence[Any], texts: Sequence[str], options: RetentionOptions
    ) -> RetentionResult | RetentionComparison:
        """Ask any models; a run that was trained on recall is asked on its own task."""
        lenses = [cls._opened(model, options) for model in models]
        found = []
        with progress("asking", len(lenses)) as show:
            for number, lens in enumerate(lenses, start=1):
                found.append(lens.ask())
                show(number, lens.stream.name)
        if len(found) == 1:
            return found[0]
        names = [one.model for one in found]
        return RetentionComparison(
            {
                name if names.count(name) == 1 else f"{name} ({number})": one
                for number, (name, one) in enumerate(zip(names, found, strict=True), start=1)
            }
        )

    @classmethod
    def _opened(cls, model: Any, options: RetentionOptions) -> Retention:
        task = None
        if isinstance(model, str | Path) and os.path.isfile(Path(model) / "config.yaml"):
            learnt = Run.open(model).config.task
            task = learnt if isinstance(learnt, Recall) else None
        stream = open_stream(model)
        return cls(stream, task, options, avoid=_special(stream))

    def __init__(
        self,
        stream: Stream,
        task: Recall | None = None,
        options: RetentionOptions | None = None,
        avoid: Sequence[int] = (),
    ) -> None:
        self.stream, self.options = stream, options or RetentionOptions()
        shape = {"keys": self.options.keys, "values": self.options.values}
        self.task = task or Recall.make(**shape, pairs=1, queries=1)
        if task is None:
            self.spelling = Spelling(self.task, stream.vocab, avoid, self.options.seed)
            self.answers = self.spelling.answers
        else:
            self.answers = list(task.answers)
        self.trained = task is not None
        self.questions = curve_points(self.task, self.options)
        longest = max(question.task.length for question in self.questions)
        if stream.limit is not None and longest > stream.limit:
            raise UserError(
                f"{stream.name} can read {stream.limit} tokens in one stream, not {longest}: ask "
                "with shorter ages, fewer items or a shorter rest"
            )
        self._seen: dict[tuple[Along, int], _Seen] = {}

    def ask(self) -> RetentionResult:
        """Ask every question as often as the options say."""
        size = min(self.options.batch, self.options.episodes)
        for question in self.questions:
            for step in range(math.ceil(self.options.episodes / size)):
                seed = derive(self.options.seed, question.along, question.at)
                self.observe(question, question.task.batch(step, size, seed=seed, split="valid"))
        return self.result()

    @torch.no_grad()
    def observe(self, question: Question, batch: Batch) -> None:
        """Let the model read one batch of episodes that belong to the question."""
        key = question.along, question.at
        seen = self._seen.setdefault(key, _Seen(question))
        if not self.trained:
            batch = self.spelling.spell(batch, len(seen.bits) + 1000 * question.at)
        rows, written = len(batch.tokens), question.task.written
        positions = np.nonzero(batch.targets != NO_QUESTION)[1].reshape(rows, -1)  # (B, Q)
        given = torch.from_numpy(batch.targets[np.arange(rows)[:, None], positions])
        right = (given[:, :, None] == torch.tensor(self.answers)).int().argmax(-1)  # (B, Q)
        tokens = torch.from_numpy(batch.tokens)
        state = self.stream.read(tokens[:, :written], segment=self.options.segment).state
        asked, carried = self._answer(tokens, positions, written, state)
        seen.bits.append(_bits(asked, right))
        # Held against the episode of the next row.
        seen.shuffled.append(_bits(asked, right.roll(1, 0)))
        seen.right.append((asked.argmax(-1) == right).double().numpy())
        seen.blanked.append(_bits(self._answer(tokens, positions, written, None)[0], right))
        lengths = written + self.options.segment * ((positions - written) // self.options.segment)
        seen.bytes.append(float(np.mean([carried[at] for at in lengths.ravel().tolist()])))
        seen.narrowest.append(min(carried.values()))

    def _answer(
        self, tokens: Tensor, positions: Any, written: int, state: StreamState | None
    ) -> tuple[Tensor, dict[int, int]]:
        """Log-probabilities of the V values at the questions (B, Q, V), and the bytes that one
        stream carried before every segment, by where it begins.
        """
        rows, length = tokens.shape
        found = torch.zeros(rows, positions.shape[1], len(self.answers))
        carried: dict[int, int] = {}
        for begin in range(written, length, self.options.segment):
            end = min(begin + self.options.segment, length)
            if state is not None:
                carried[begin] = state.nbytes // rows
            out = self.stream.read(tokens[:, begin:end], state)
            state = out.state
            row, which = np.nonzero((positions >= begin) & (positions < end))
            logits = out.logits[row, positions[row, which] - begin][:, self.answers]
            found[row, which] = logits.float().log_softmax(-1).cpu()
            if end > positions.max():
                break
        return found, carried

    def result(self) -> RetentionResult:
        """What was seen; every question must have been asked at least once."""
        missing = [q for q in self.questions if (q.along, q.at) not in self._seen]
        if missing:
            raise UserError(
                f"nothing was asked at {missing[0].along} {missing[0].at} yet: observe an episode "
                "of each of lens.questions, or call ask()"
            )
        rng = np.random.default_rng(derive(self.options.seed, "bootstrap"))
        curves: dict[Along, Curve] = {}
        drawn: dict[Along, Floats] = {}
        for along in ("age", "items", "overwrites"):
            here = [self._seen[q.along, q.at] for q in self.questions if q.along == along]
            curves[along], drawn[along] = self._curve(along, here, rng)
        ages = curves["age"]
        half = [_half_life(ages.x, bits, self._chance) for bits in drawn["age"]]
        gone = [_horizon(ages.x, bits, self._chance) for bits in drawn["age"]]
        items = curves["items"]
        best = int(np.argmax(items.bits))
        task = self._seen["items", items.x[best]].question.task
        episode = torch.zeros(1, task.length, dtype=torch.long)
        return RetentionResult(
            self.stream.name,
            len(self.answers),
            sum(map(len, self._seen["age", ages.x[0]].bits)),
            ages,
            items,
            curves["overwrites"],
            _interval(half),
            _interval(gone),
            items.bits[best],
            items.bytes[best],
            flops(self.stream, episode, segment=self.options.segment),
            self.trained,
        )

    @property
    def _chance(self) -> float:
        return CHANCE * math.log2(len(self.answers))

    def _curve(
        self, along: Along, seen: Sequence[_Seen], rng: np.random.Generator
    ) -> tuple[Curve, Floats]:
        """One curve, and the curve itself followed by R resamples of it, (1 + R, points)."""
        most = math.log2(len(self.answers))
        drawn, blanked, shuffled = [], [], []
        for one in seen:
            costs = np.concatenate(one.bits)  # (E, Q)
            resampled = bootstrap_weights(len(costs), self.options.resamples, rng)
            even = np.full((1, len(costs)), 1 / len(costs))
            drawn.append(recalled(np.concatenate([even, resampled]) @ costs, most))
            blanked.append(recalled(np.concatenate(one.blanked).mean(0), most))
            shuffled.append(recalled(np.concatenate(one.shuffled).mean(0), most))
        bits = np.stack(drawn, 1)
        band = quantile_interval(bits[0], bits[1:])
        curve = Curve(
            along=along,
            x=tuple(one.question.at for one in seen),
            bits=_plain(bits[0]),
            low=_plain(band.low),
            high=_plain(band.high),
            blanked=_plain(blanked),
            shuffled=_plain(shuffled),
            most=tuple(most * one.bits[0].shape[1] for one in seen),
            accuracy=_plain([np.concatenate(one.right).mean() for one in seen]),
            bytes=_plain([np.mean(one.bytes) for one in seen]),
            narrowest=tuple(min(one.narrowest) for one in seen),
        )
        check(curve, self.stream.name)
        return curve, bits


def _special(stream: Stream) -> list[int]:
    """Ids that a model of transformers keeps for its own use."""
    config = getattr(getattr(stream.call, "model", None), "config", None)
    ids = [getattr(config, f"{name}_token_id", None) for name in ("bos", "eos", "pad")]
    listed = [one if isinstance(one, list) else [one] for one in ids]
    return [one for some in listed for one in some if isinstance(one, int)]


def check(curve: Curve, name: str) -> None:
    """Raise when more was recalled than the narrowest state can hold."""
    for x, bits, size in zip(curve.x, curve.bits, curve.narrowest, strict=True):
        if bits > BITS_PER_BYTE * size:
            raise AssertionError(
                f"{name} recalled {bits:.1f} bits at {curve.along} {x} from a state of {size} "
                f"bytes, which holds {BITS_PER_BYTE * size} at most: it carries more than its state"
            )


def recalled(cross_entropy: Floats, most: float) -> Floats:
    """Σ max(0, log₂ V − cross-entropy) over questions (..., Q); means in bits, ``most`` log₂ V."""
    found: Floats = np.maximum(0.0, most - cross_entropy).sum(-1)
    return found


def _bits(log_probabilities: Tensor, right: Tensor) -> Floats:
    """Cross-entropy in bits of answers (B, Q, V) when those of ``right`` (B, Q) are due."""
    chosen = log_probabilities.gather(2, right[:, :, None]).squeeze(2)
    found: Floats = (-chosen.double() / math.log(2)).numpy()
    return found


def _half_life(ages: Sequence[int], bits: Floats, chance: float) -> float:
    """0 when there was never anything to lose, infinite when it never falls so low."""
    peak = int(np.argmax(bits))
    level = bits[peak] / 2
    if bits[peak] < chance:
        return 0.0
    below = [index for index in range(peak + 1, len(ages)) if bits[index] < level]
    return _crossing(ages, bits, below[0], level) if below else math.inf


def _horizon(ages: Sequence[int], bits: Floats, chance: float) -> float:
    """The same for the age after which it never rises above chance again."""
    above = [index for index in range(len(ages)) if bits[index] >= chance]
    if not above:
        return 0.0
    return _crossing(ages, bits, above[-1] + 1, chance) if above[-1] + 1 < len(ages) else math.inf


def _crossing(ages: Sequence[int], bits: Floats, below: int, level: float) -> float:
    """Age at which a curve falls through ``level`` just before the point ``below``, between the
    points on a logarithmic axis.
    """
    share = (bits[below - 1] - level) / (bits[below - 1] - bits[below])
    young, old = math.log(ages[below - 1]), math.log(ages[below])
    return math.exp(young + share * (old - young))


def _interval(drawn: Sequence[float]) -> Estimate:
    """The first is the estimate, the rest are resamples of it."""
    ordered = sorted(drawn[1:])
    last = len(ordered) - 1
    ends = drawn[0], ordered[math.floor(0.025 * last)], ordered[math.ceil(0.975 * last)]
    value, low, high = (None if math.isinf(end) else end for end in ends)
    return Estimate(value, low, high)


def _plain(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
