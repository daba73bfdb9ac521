"""The loop against the plainest loop that does the same, and the promises it makes."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.core.registry import KINDS, MEMORIES, find
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.models.model import SequenceModel
from mnemoscope.training import checkpoint, machine
from mnemoscope.training.config import RunConfig, Training
from mnemoscope.training.loop import resume, train
from mnemoscope.training.optimizer import make_optimizer
from mnemoscope.training.run import Run
from mnemoscope.training.schedule import learning_rate

Make = Callable[..., RunConfig]
Weights = dict[str, Tensor]


def fresh(config: RunConfig) -> SequenceModel:
    torch.manual_seed(derive(config.training.seed, "init"))
    return config.model.build().train()


def smoothed(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Sum over questions of -(1 - ε) log p(answer) - ε · mean over all outputs of log p."""
    logits, targets = logits.flatten(0, 1), targets.flatten()
    asked = targets != NO_QUESTION
    logp = logits[asked].log_softmax(-1)
    right = logp.gather(1, targets[asked][:, None])[:, 0]
    return -((1 - smoothing) * right + smoothing * logp.mean(-1)).sum()


# All that has two dimensions and is no matrix: u and v of Transformer-XL, w_μ and w_σ.
ROWS = ("attention.content_bias", "attention.position_bias", "attention.signal.weights")


def reference(
    config: RunConfig, steps: int, but: tuple[str, ...] = ROWS
) -> tuple[Weights, list[float]]:
    """Whole batches, one backward pass a step, no checkpoints: what training means."""
    settings, task = config.training, config.task
    model = fresh(config)
    named = dict(model.named_parameters())
    decay = [w for name, w in named.items() if w.dim() >= 2 and not name.endswith(but)]
    rest = [w for name, w in named.items() if w.dim() < 2 or name.endswith(but)]
    groups: list[dict[str, Any]] = [
        {"params": decay, "weight_decay": settings.weight_decay},
        {"params": rest},
    ]
    adam = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0, foreach=False)
    state, losses = None, []
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = learning_rate(step, settings)
        batch = task.batch(step, settings.batch, seed=settings.seed, length=config.stretch)
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        if not task.carries or batch.starts.any():
            state = None
        out = model(tokens, state)
        state = out.state.detach()
        loss = smoothed(out.logits, targets, settings.label_smoothing)
        loss = loss / int((targets != NO_QUESTION).sum())
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        adam.step()
        losses.append(loss.item())
    return dict(model.state_dict()), losses


def assert_close(found: Weights, expected: Weights, atol: float = 2e-5) -> None:
    assert found.keys() == expected.keys()
    for name, weight in found.items():
        # What all distances share moves no score: its gradient is nothing but rounding, of which
        # Adam makes whole steps.
        if not name.endswith("attention.distance.weight"):
            torch.testing.assert_close(weight, expected[name], rtol=1e-4, atol=atol, msg=name)


def assert_same(found: Weights, expected: Weights) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in found.items())


def trained(config: RunConfig, folder: Path) -> Weights:
    return dict(train(config, folder).model().state_dict())


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"label_smoothing": 0.2, "clip": 0.05},
        {"weight_decay": 0.5, "schedule": "inverse_sqrt"},
        {"task": "recall", "length": 16, "segment": 5, "tbptt": 4},
        {"task": "text", "tbptt": 2},
    ],
    ids=["plain", "smoothed", "decayed", "segments", "text"],
)
def test_training_is_the_plain_loop(
    small: Make, tmp_path: Path, memory: str, options: dict[str, Any]
) -> None:
    config = small(memory=memory, steps=6, **options)
    expected, losses = reference(config, 6)
    run = train(config, tmp_path / "run")
    assert_close(dict(run.model().state_dict()), expected)
    last = [entry for entry in run.metrics() if "loss" in entry][-1]
    assert last["loss"] == pytest.approx(sum(losses) / 6, rel=1e-4)
    assert last["lr"] == learning_rate(5, config.training)


def test_a_text_begins_anew_with_an_empty_memory(small: Make, tmp_path: Path) -> None:
    # 2 epochs and a half: the plain loop drops its state at every start.
    config = small("text", "lstm", segment=60, steps=24)
    starts = [config.task.batch(s, 4, seed=0, length=60).starts.all() for s in range(24)]
    assert sum(starts) == 3
    assert_close(trained(config, tmp_path / "run"), reference(config, 24)[0], atol=1e-4)


def test_a_memory_does_not_outgrow_the_text(small: Make, tmp_path: Path) -> None:
    config = small("text", "transformer", segment=60, steps=24, checkpoint_every=23, keep=3)
    run = train(config, tmp_path / "run")
    (memory,) = checkpoint.load(run.checkpoints / "step-00000023").states
    assert memory is not None
    keys = dict(memory.tensors())["layers.0.keys"]
    assert keys.shape[2] <= len(config.task.tokens("train")) // 4  # type: ignore[attr-defined]


def test_copying_is_learnt(tmp_path: Path) -> None:
    options = {"lag": 4, "width": 16, "steps": 300, "lr": 1e-2, "evaluate_every": 100}
    run = train(RunConfig.of("copy", "gru", options), tmp_path / "run")
    losses = [entry["loss"] for entry in run.metrics() if "loss" in entry]
    looks = [entry for entry in run.metrics() if "valid_loss" in entry]
    assert losses[-1] < 0.2 < 1.5 < losses[0]
    assert [look["step"] for look in looks] == [100, 200, 300]
    assert looks[-1]["valid_accuracy"] > 0.9
    assert looks[-1]["valid_loss"] < 0.2
    assert run.finished


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_same_config_gives_the_same_bits(
    small: Make,
    tmp_path: Path,
    memory: str,
    weights: Callable[[Path], Weights],
    measured: Callable[[Path], list[dict[str, Any]]],
) -> None:
    config = small(memory=memory, steps=12, dropout=0.2, checkpoint_every=5, evaluate_every=7)
    train(config, tmp_path / "a")
    torch.manual_seed(123)  # what was drawn before must not matter
    train(config, tmp_path / "b")
    train(small(memory=memory, steps=12, dropout=0.2, seed=1), tmp_path / "c")
    assert_same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert measured(tmp_path / "a") == measured(tmp_path / "b")
    different = zip(weights(tmp_path / "a").values(), weights(tmp_path / "c").values(), strict=True)
    assert not any(torch.equal(a, c) for a, c in different)


@pytest.mark.parametrize(("dropout", "different"), [(0.0, 1), (0.5, 6)])
def test_every_step_drops_something_else(
    small: Make, tmp_path: Path, dropout: float, different: int
) -> None:
    # A text of one step, read again and again by a model that does not learn.
    (tmp_path / "text").write_text("abcdefgh" * 20)
    config = small(
        "text",
        source=str(tmp_path / "text"),
        held_out=0.5,
        segment=19,
        steps=6,
        lr=1e-30,
        dropout=dropout,
        checkpoint_every=1,
    )
    run = train(config, tmp_path / "run")
    assert len({entry["loss"] for entry in run.metrics() if "loss" in entry}) == different


def test_how_often_it_is_saved_and_looked_at_changes_no_bit(small: Make, tmp_path: Path) -> None:
    often = small(steps=9, dropout=0.2, checkpoint_every=1, evaluate_every=1)
    assert_same(
        trained(often, tmp_path / "often"),
        trained(small(steps=9, dropout=0.2), tmp_path / "seldom"),
    )


@pytest.mark.parametrize("task", ["copy", "text"])
def test_a_batch_in_parts_is_the_batch(small: Make, tmp_path: Path, task: str) -> None:
    whole = trained(small(task, "lstm", steps=5), tmp_path / "whole")
    parts = trained(small(task, "lstm", steps=5, accumulate=2), tmp_path / "parts")
    assert_close(parts, whole)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_horizon_as_long_as_the_episode_is_reading_at_once(
    small: Make, tmp_path: Path, memory: str
) -> None:
    # 6 tokens: three segments of 2, or 4 and a short one of 2.
    whole = trained(small(memory=memory, steps=1), tmp_path / "whole")
    for segment, horizon in [(2, 3), (4, 2), (1, 9)]:
        config = small(memory=memory, steps=1, segment=segment, tbptt=horizon)
        assert_close(trained(config, tmp_path / f"{segment}"), whole)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_stretch_without_questions_is_read_but_not_learnt_from(
    small: Make, tmp_path: Path, memory: str
) -> None:
    # Symbols are read in the first segment only, and nothing but the last token asks.
    settings = {"memory": memory, "steps": 1, "weight_decay": 0.0}
    at_once = train(small(**settings), tmp_path / "whole")
    config = small(**settings, segment=2, tbptt=1)
    cut = train(config, tmp_path / "cut")
    before, after = fresh(config).embedding.weight, cut.model().embedding.weight
    symbols, marks = slice(0, 8), slice(8, 10)
    assert torch.equal(after[symbols], before[symbols])
    assert not torch.isclose(after[marks], before[marks], atol=1e-6).all(1).any()
    assert not torch.equal(at_once.model().embedding.weight[symbols], before[symbols])
    # What it answers still depends on them.
    assert cut.metrics()[0]["loss"] == pytest.approx(at_once.metrics()[0]["loss"], rel=1e-5)


def test_longer_horizons_reach_further_back(small: Make, tmp_path: Path) -> None:
    # 8 tokens in 4 segments: the symbol is 4 stretches, 2 stretches or 1 away from its question.
    found = {}
    for horizon in (1, 2, 4):
        config = small(lag=6, steps=1, segment=2, tbptt=horizon, weight_decay=0.0)
        moved = trained(config, tmp_path / f"{horizon}")["embedding.weight"]
        found[horizon] = (moved != fresh(config).embedding.weight).any(1)
    symbols = slice(0, 8)
    assert not found[1][symbols].any()
    assert not found[2][symbols].any()
    assert found[4][symbols].any()


MODELS = [(kind, name) for kind in ("memory", "translator", "encoder") for name in KINDS[kind]]
# Every part that a memory may have.
WHOLE: dict[str, dict[str, Any]] = {
    "infinite": {"gate": True, "compressed_len": 2},
    "transformer": {"positions": "learned"},
}


@pytest.mark.parametrize(("kind", "name"), MODELS)
def test_only_matrices_decay(kind: str, name: str) -> None:
    source = {"source_vocab": 9} if kind == "translator" else {}
    options = {"vocab": 9, "width": 8, **source, **WHOLE.get(name, {})}
    model = find(kind, name).make(**options).build()
    before = {name: w.detach().clone() for name, w in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    make_optimizer(model, Training(weight_decay=0.25, lr=0.1)).step()
    decayed = set()
    for part, weight in model.named_parameters():
        if not torch.equal(weight, before[part]):
            torch.testing.assert_close(weight.detach(), before[part] * (1 - 0.1 * 0.25))
            decayed.add(part)
    several = {part for part, weight in before.items() if weight.dim() >= 2}
    assert several - decayed == {part for part in several if part.endswith(ROWS)}
    assert decayed <= several
    last = {part.rpartition(".")[2] for part in decayed}
    assert all(one == "weight" or one.startswith("weight_") for one in last)
    relative = name in ("transformer_xl", "compressive", "infinite")
    assert len(several - decayed) == relative * 2 + (name == "infinite")


@pytest.mark.parametrize("memory", ["transformer_xl", "infinite"])
def test_a_run_goes_on_with_the_decay_it_began_with(
    small: Make, tmp_path: Path, memory: str
) -> None:
    config = small("text", memory, steps=6, weight_decay=5.0, lr=0.1, checkpoint_every=2)
    run = Run.create(tmp_path / "old", config)
    # As versions wrote it that did not say what decays: u, v and w did.
    start = checkpoint.Checkpoint(0, dict(run.fresh().state_dict()), {}, [None], config.plain())
    checkpoint.save(run.checkpoints, start, keep=2)
    resume(run.folder)
    first, _ = reference(config, 6, but=("no such weight",))
    assert_close(dict(run.model().state_dict()), first)
    # And when it is stopped once more, now with a checkpoint that says so.
    (run.folder / "model.safetensors").unlink()
    resume(run.folder)
    assert_close(dict(run.model().state_dict()), first)
    now = trained(config, tmp_path / "new")
    assert_close(now, reference(config, 6)[0])
    name = "layers.0.attention.content_bias"
    assert not torch.allclose(now[name], first[name], rtol=1e-2)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("task", ["copy", "text"])
def test_training_in_bfloat16(small: Make, tmp_path: Path, memory: str, task: str) -> None:
    options = {"steps": 10, "segment": 4, "tbptt": 2}
    low = train(small(task, memory, **options, precision="bfloat16"), tmp_path / "low")
    full = train(small(task, memory, **options), tmp_path / "full")
    for a, b in zip(low.metrics(), full.metrics(), strict=True):
        name = "loss" if "loss" in a else "valid_loss"
        assert math.isfinite(a[name])
        assert a[name] == pytest.approx(b[name], rel=0.02)
    assert low.metrics()[0]["loss"] != full.metrics()[0]["loss"]
    assert all(w.dtype == torch.float32 for w in low.model().state_dict().values())


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
@pytest.mark.filterwarnings("ignore")  # torch warns of itself
def test_a_compiled_model_learns_the_same(
    small: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Compiling attention takes half a minute, so the GRU stands for all.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "transformer_xl"))
    plain = trained(small(steps=3), tmp_path / "plain")
    compiled = trained(small(steps=3, compile=True), tmp_path / "compiled")
    torch.compiler.reset()
    assert_close(compiled, plain)


def test_training_starts_from_a_given_model(small: Make, tmp_path: Path) -> None:
    config = small(steps=3, keep=9, checkpoint_every=1)
    torch.manual_seed(99)
    model = config.model.build()
    given = {name: weight.clone() for name, weight in model.state_dict().items()}
    run = train(config, tmp_path / "run", model)
    assert_same(checkpoint.load(run.checkpoints / "step-00000000").model, given)
    assert_same(dict(run.model().state_dict()), dict(model.state_dict()))
    assert not torch.equal(run.model().readout.weight, given["readout.weight"])
    # A run of a fresh model goes elsewhere.
    other = trained(config, tmp_path / "other")
    assert not torch.equal(other["readout.weight"], run.model().readout.weight)


def test_a_given_model_must_be_the_one_of_the_config(small: Make, tmp_path: Path) -> None:
    model = small(memory="transformer", heads=4).model.build()
    with pytest.raises(UserError, match=r"wants .*heads=2.*given was .*heads=4"):
        train(small(memory="transformer", heads=2), tmp_path / "run", model)
    assert not (tmp_path / "run").exists()


def test_tied_weights_stay_tied(small: Make, tmp_path: Path) -> None:
    model = train(small(memory="transformer", tied=True, steps=3), tmp_path / "run").model()
    assert model.readout.weight is model.embedding.weight


def test_a_thread_can_train(small: Make, tmp_path: Path) -> None:
    # Only the main thread may set signal handlers.
    thread = threading.Thread(target=train, args=(small(steps=2), tmp_path / "run"))
    thread.start()
    thread.join()
    assert Run.open(tmp_path / "run").finished


def test_signals_are_heard_inside_and_handed_back_after() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGINT, signal.SIGTERM):
        with machine.stoppable() as asked:
            assert not asked()
            os.kill(os.getpid(), number)
            assert asked()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("silent", [False, True])
def test_the_bar_shows_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    reader, writer = os.openpty()
    with open(reader, "rb", buffering=0) as seen, open(writer, "w") as terminal:
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress("copy · gru", 10, 3, silent) as show:
            show(7, "loss 0.123")
        terminal.write("the end")
        terminal.flush()
        drawn = b""
        while not drawn.endswith(b"the end"):
            drawn += seen.read(100_000)
        shown = drawn.decode()
    if silent:
        assert shown == "the end"
    else:
        assert "copy · gru" in shown
        assert "7/10" in shown
        assert "loss 0.123" in shown


def test_what_memories_ask_for_is_learnt_and_logged_apart(tmp_path: Path) -> None:
    options = {"width": 8, "heads": 2, "mem_len": 4, "compressed_len": 4, "rate": 2, "lag": 12}
    config = RunConfig.of(
        "copy", "compressive", {**options, "steps": 40, "batch": 8, "segment": 8, "lr": 0.01}
    )
    run = train(config, tmp_path / "run", silent=True)
    asked = [entry["auxiliary"] for entry in run.metrics() if "loss" in entry]
    assert asked[-1] < asked[0]
    plain = RunConfig.of(
        "copy", "transformer_xl", {"width": 8, "heads": 2, "steps": 10, "batch": 8}
    )
    assert "auxiliary" not in train(plain, tmp_path / "plain", silent=True).metrics()[0]
