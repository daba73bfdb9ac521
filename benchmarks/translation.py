"""Training and decoding translations: our loop and states against plain ways to do the same."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measure import Row, Times, interleave, ratio
from mnemoscope.data.batch import NO_QUESTION, NO_WORD, Batch
from mnemoscope.data.translation import Translation
from mnemoscope.memories.positions import waves
from mnemoscope.models.beam import search
from mnemoscope.models.seq2seq.encoder_decoder.config import EncoderDecoder
from mnemoscope.models.seq2seq.encoder_decoder.model import EncoderDecoderModel
from mnemoscope.training.config import RunConfig, Training
from mnemoscope.training.loop import _join, _Trainer
from mnemoscope.training.optimizer import make_optimizer
from mnemoscope.training.run import Run
from mnemoscope.training.schedule import learning_rate

TITLE = "Translation: training and decoding against plain ways"
WIDTH, LAYERS, HEADS, HIDDEN = 64, 2, 4, 4
SHAPE: dict[str, Any] = {
    "layers": LAYERS,
    "heads": HEADS,
    "mlp_ratio": HIDDEN,
    "embeddings": "shared",
}
BATCH, PLAIN_BATCH = 64, 12
DECODE_WIDTH, DECODE_ROWS, DECODE_LENGTH, SOURCE_LENGTH = 128, 16, 100, 30
SETTING = (
    f"Training: Transformer of {LAYERS} + {LAYERS} layers, width {WIDTH}, {HEADS} heads, on the "
    "task translation (grammar, BPE of 512), target tokens per second, padding not counted. Ours "
    f"is our training loop with its data, batches of like length that hold {BATCH} mean sentences. "
    f"*Plain* is `nn.Transformer` of the same shape, {PLAIN_BATCH} random sentences a step, "
    "padded, in a bare torch loop over prepared tensors; *same batches* is that with our batches. "
    f"Decoding: width {DECODE_WIDTH}, {DECODE_ROWS} sentences of {SOURCE_LENGTH} words, greedy, "
    f"{DECODE_LENGTH} tokens each, same weights, checked to say the same; *uncached* reads "
    "the whole target again for every token (the source once), with our model and with "
    "`nn.Transformer`'s decoder. Ratio = our rate / theirs."
)


class Plain(nn.Module):
    """What one would write around `nn.Transformer`."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocab, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        with warnings.catch_warnings():
            # It says that norms in front keep it from packing sentences.
            warnings.simplefilter("ignore", UserWarning)
            self.body = nn.Transformer(
                width, HEADS, LAYERS, LAYERS, HIDDEN * width, 0.0, batch_first=True, norm_first=True
            )
        self.readout = nn.Linear(width, vocab)
        self.readout.weight = self.embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(tokens) * self.width**0.5
        return vectors + waves(torch.arange(tokens.shape[1]).expand(tokens.shape), self.width)

    def forward(self, source: Tensor, hidden: Tensor, tokens: Tensor) -> Tensor:
        causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        vectors = self.body(
            self.embed(source),
            self.embed(tokens),
            tgt_mask=causal,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        logits: Tensor = self.readout(vectors)
        return logits


class PlainLoop:
    """The least that trains, over prepared tensors."""

    def __init__(self, vocab: int, batches: list[Batch], settings: Training) -> None:
        torch.manual_seed(0)
        self.model, self.settings = Plain(vocab, WIDTH).train(), settings
        self.optimizer = make_optimizer(self.model, settings)
        self.data = []
        for one in batches:
            assert one.source is not None
            hidden = torch.from_numpy(one.source == NO_WORD)
            source = torch.from_numpy(one.source).clamp(min=0)
            self.data.append(
                (source, hidden, torch.from_numpy(one.tokens), torch.from_numpy(one.targets))
            )
        self.done = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.done, self.settings)
            source, hidden, tokens, targets = self.data[self.done]
            self.optimizer.zero_grad(set_to_none=True)
            logits = self.model(source, hidden, tokens)
            loss = F.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), ignore_index=NO_QUESTION
            )
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
            self.optimizer.step()
            self.done += 1


class OurLoop:
    """The trainer behind `mnemoscope.training.loop.train`, a few steps at a time."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        run = Run.create(folder, config)
        self.trainer = _Trainer(run, run.untrained(), _join(config.training), silent=True)
        self.done = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.trainer.step(self.done)
            self.done += 1
        self.trainer._look()


def run(quick: bool) -> list[Row]:
    """Training first, then decoding."""
    return [*_training(quick), *_decoding(quick)]


def _training(quick: bool) -> list[Row]:
    ours_count, plain_count, rounds = (1, 2, 2) if quick else (6, 24, 9)
    steps = ours_count * (rounds + 1)
    data = {"vocabulary_size": 512, "sentences": 400 if quick else 20_000}
    settings = {"steps": steps, "batch": BATCH, "lr": 1e-3, "device": "cpu"}
    config = RunConfig.of(
        "translation", "encoder_decoder", {**SHAPE, **data, **settings, "width": WIDTH}
    )
    task = config.task
    assert isinstance(task, Translation)
    bucketed = [task.batch(step, BATCH, seed=0) for step in range(steps)]
    random = _random_batches(task, plain_count * (rounds + 1))
    with tempfile.TemporaryDirectory() as folder:
        ours = OurLoop(config, Path(folder) / "run")
        plain = PlainLoop(task.vocab, random, config.training)
        same = PlainLoop(task.vocab, bucketed, config.training)
        times = interleave(
            {
                "ours": partial(ours.steps, ours_count),
                "plain": partial(plain.steps, plain_count),
                "same": partial(same.steps, ours_count),
            },
            rounds,
        )
    # Seconds per target token, round by round.
    per_token = {
        "ours": _per_token(times["ours"], bucketed, ours_count),
        "plain": _per_token(times["plain"], random, plain_count),
        "same": _per_token(times["same"], bucketed, ours_count),
    }
    return [
        _row("train_tokens_vs_plain", "ours / plain, batch 12: training", per_token, "plain", 1.5),
        _row("train_tokens_vs_same_batches", "ours / plain, same batches", per_token, "same", None),
    ]


def _random_batches(task: Translation, count: int) -> list[Batch]:
    """Unsorted sentences, as a loop without buckets would take them."""
    whole = [task.batch(step, BATCH, seed=0) for step in range(60)]
    rows = [one.rows(slice(row, row + 1)) for one in whole for row in range(len(one.tokens))]
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(count):
        chosen = [rows[place] for place in rng.choice(len(rows), PLAIN_BATCH, replace=False)]
        batches.append(
            Batch(
                _stack([one.tokens[0] for one in chosen], task.vocab - 1),
                _stack([one.targets[0] for one in chosen], NO_QUESTION),
                np.zeros((PLAIN_BATCH, 1), dtype=np.int64),
                np.ones(PLAIN_BATCH, dtype=np.bool_),
                _stack([one.source[0] for one in chosen if one.source is not None], NO_WORD),
            )
        )
    return batches


def _stack(rows: list[Any], blank: int) -> Any:
    filled = np.full((len(rows), max(map(len, rows))), blank, dtype=np.int64)
    for line, row in zip(filled, rows, strict=True):
        line[: len(row)] = row
    return filled


def _per_token(times: list[float], batches: list[Batch], count: int) -> list[float]:
    asked = [int((one.targets != NO_QUESTION).sum()) for one in batches]
    # The first round warmed up and was not timed.
    rounds = [sum(asked[n * count : (n + 1) * count]) for n in range(1, len(times) + 1)]
    return [spent / tokens for spent, tokens in zip(times, rounds, strict=True)]


def _row(key: str, what: str, per_token: Times, other: str, goal: float | None) -> Row:
    def rate(name: str) -> str:
        return f"{1 / float(np.median(per_token[name])):,.0f} tokens/s"

    return Row(
        key=key,
        what=what,
        ours=rate("ours"),
        theirs=rate(other),
        ratio=ratio(per_token[other], per_token["ours"]),
        goal=f"≥ {goal}" if goal else "",
    )


def _decoding(quick: bool) -> list[Row]:
    length, rounds = (8, 2) if quick else (DECODE_LENGTH, 7)
    vocab = 1000
    torch.manual_seed(0)
    sizes = {"vocab": vocab, "source_vocab": vocab, "width": DECODE_WIDTH}
    model = EncoderDecoder.make(**sizes, **SHAPE).build().eval()
    assert isinstance(model, EncoderDecoderModel)
    with torch.no_grad():
        # Wider than usual, or a random model says the same token for ever; and it never ends.
        for weight in model.parameters():
            weight.mul_(2)
        model.readout.bias[vocab - 1] = -1e9
    plain = _same_weights(model, vocab)
    source = torch.randint(vocab, (DECODE_ROWS, SOURCE_LENGTH))

    def cached() -> Tensor:
        with torch.inference_mode():
            state = model.encode(source)
        found = search(model, state, [length] * DECODE_ROWS, end=vocab - 1, beam=1)
        return torch.tensor([one[0].tokens for one in found])

    def uncached() -> Tensor:
        with torch.inference_mode():
            state = model.encode(source)
            return _greedy(lambda tokens: model(tokens, state).logits, length, vocab - 1)

    def torch_uncached() -> Tensor:
        with torch.inference_mode():
            seen = plain.body.encoder(plain.embed(source))

            def say(tokens: Tensor) -> Tensor:
                causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
                vectors = plain.body.decoder(
                    plain.embed(tokens), seen, tgt_mask=causal, tgt_is_causal=True
                )
                logits: Tensor = plain.readout(vectors)
                return logits

            return _greedy(say, length, vocab - 1)

    ways: dict[str, Callable[[], Tensor]] = {
        "ours": cached,
        "uncached": uncached,
        "torch": torch_uncached,
    }
    said = {name: work() for name, work in ways.items()}
    for name, tokens in said.items():
        same = float((tokens == said["ours"]).float().mean())
        assert same > 0.99, f"{name} says other tokens: {same:.3f} are the same"
    times = interleave(ways, rounds)

    def rate(name: str) -> str:
        return f"{DECODE_ROWS / float(np.median(times[name])):,.1f} sentences/s"

    return [
        Row(
            key=key,
            what=f"{length} tokens a sentence, ours / {theirs}",
            ours=rate("ours"),
            theirs=rate(name),
            ratio=ratio(times[name], times["ours"]),
            goal=goal,
        )
        for key, name, theirs, goal in (
            ("decode_vs_uncached", "uncached", "ours uncached", "≥ 5"),
            ("decode_vs_nn_transformer", "torch", "nn.Transformer uncached", ""),
        )
    ]


def _greedy(say: Callable[[Tensor], Tensor], length: int, end: int) -> Tensor:
    tokens = torch.full((DECODE_ROWS, 1), end)
    for _ in range(length):
        choice = say(tokens)[:, -1].argmax(-1)
        tokens = torch.cat((tokens, choice[:, None]), 1)
    return tokens[:, 1:]


def _same_weights(model: EncoderDecoderModel, vocab: int) -> Plain:
    """`nn.Transformer` with the weights of ours."""
    plain = Plain(vocab, DECODE_WIDTH).eval()
    body: Any = plain.body
    with torch.no_grad():
        plain.embedding.weight.copy_(model.embedding.weight)
        plain.readout.bias.copy_(model.readout.bias)
        body.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
        body.decoder.norm.load_state_dict(model.norm.state_dict())
        for stack, layers in ((body.encoder, model.encoder), (body.decoder, model.layers)):
            for theirs, layer in zip(stack.layers, layers, strict=True):
                ours: Any = layer
                qkv = ours.attention.qkv
                _put(theirs.self_attn, qkv.weight, qkv.bias, ours.attention.out)
                norms = [ours.around_attention, ours.around_forth]
                if hasattr(ours, "cross"):
                    cross = ours.cross
                    weight = torch.cat((cross.query.weight, cross.pairs.weight))
                    bias = torch.cat((cross.query.bias, cross.pairs.bias))
                    _put(theirs.multihead_attn, weight, bias, cross.out)
                    norms.insert(1, ours.around_cross)
                for number, part in enumerate(norms, start=1):
                    getattr(theirs, f"norm{number}").load_state_dict(part.norm.state_dict())
                theirs.linear1.load_state_dict(ours.forth.expand.state_dict())
                theirs.linear2.load_state_dict(ours.forth.contract.state_dict())
    return plain


def _put(attention: Any, weight: Tensor, bias: Tensor, out: nn.Linear) -> None:
    attention.in_proj_weight.copy_(weight)
    attention.in_proj_bias.copy_(bias)
    attention.out_proj.load_state_dict(out.state_dict())
