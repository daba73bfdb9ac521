"""Numbers, names and lists that nobody can mean are refused when they are read."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from complaints import complaint

import mnemoscope as ms
from mnemoscope.core import capacity
from mnemoscope.core.registry import KINDS, find
from mnemoscope.data.documents import read_documents
from mnemoscope.data.images import Images
from mnemoscope.data.translation import Translation
from mnemoscope.huggingface.config import InfiniteOptions
from mnemoscope.memories.gru import GRU
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.sparse.config import Sparse
from mnemoscope.models import footprint
from mnemoscope.studies.lag.study import Lag
from mnemoscope.studies.sizes import count, sized
from mnemoscope.training.config import RunConfig, Training


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_all_options_can_be_typed_with_commas(kind: str) -> None:
    for name in KINDS[kind]:
        found = find(kind, name)
        options = found.Options if kind == "lens" else found
        for option, said, *_ in options.options():
            read = options._read(option, "1,2")
            assert (read == ["1", "2"]) == (",…" in said), (name, option)


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (Training, {"lr": "inf"}, "lr: input should be a finite number (got 'inf')"),
        (Training, {"weight_decay": float("inf")}, "weight_decay"),
        (Training, {"clip": "nan"}, "clip"),
        (Training, {"seed": 10**20}, "seed: 100000000000000000000 is out of range"),
        (Training, {"seed": 10**5000}, "seed"),
        (Training, {"device": "c\0pu"}, "NUL"),
        (Training, {"device": "a" * 5000}, "… (5000 characters)"),
        (Training, {"steps": "9" * 5000}, "… (5000 characters)"),
        (Training, {"x" * 5000: 1}, "… (5000 characters)"),
        (GRU, {"vocab": 3, "layers": 10**9}, "layers"),
        (Infinite, {"vocab": 3, "spread": "inf"}, "spread"),
        (Infinite, {"vocab": 3, "penalty": "nan"}, "penalty"),
        (Infinite, {"vocab": 3, "mlp_ratio": "inf"}, "mlp_ratio"),
        (Infinite, {"vocab": 3, "widths": "0.1,inf"}, "widths"),
        (Infinite, {"vocab": 3, "widths": [0.1] * 2000}, "2000 items are too many"),
        (InfiniteOptions, {"layers": "1,1"}, "layers: 1 is named twice"),
        (Lag, {"memories": "gru,lstm,gru"}, "memories: 'gru' is named twice"),
        (Lag, {"learning_rates": "0.1,1e-1"}, "learning_rates: 0.1 is named twice"),
        (Lag, {"seeds": "1,1"}, "seeds"),
        (Translation, {"sentences": 10**12}, "sentences"),
    ],
)
def test_what_nobody_can_mean_is_refused(kind: Any, options: dict[str, Any], told: str) -> None:
    said = complaint(lambda: kind.make(**options))
    assert said is not None
    assert told in said
    assert len(said) < 500


def test_a_default_never_conflicts_with_what_was_given() -> None:
    assert Sparse.make(vocab=9, stride=4).summaries == 4
    assert Sparse.make(vocab=9, stride="4").summaries == 4
    assert Sparse.make(vocab=9).summaries == 8
    built: Any = ms.build("sparse", vocab=9, stride=4, width=8).config
    assert built.summaries == 4
    said = complaint(lambda: Sparse.make(vocab=9, stride=4, summaries=8))
    assert said is not None
    assert "between 1 and stride summaries" in said
    rows = {name: default for name, _, default, _ in Sparse.options()}
    assert rows["summaries"] == "derived"


@pytest.mark.parametrize("kind", ["memory", "translator", "encoder"])
def test_parameters_are_estimated_from_the_config(kind: str) -> None:
    source = {"source_vocab": 200} if kind == "translator" else {}
    for name in KINDS[kind]:
        for options in ({"width": 64}, {"width": 128, "layers": 3}, {"vocab": 5000, "width": 16}):
            config = find(kind, name).make(**{"vocab": 200, **source, **options})
            assert 0.7 < footprint.parameters(config) / count(config) < 1.2, (name, options)
    for more in ({"tied": True}, {"positions": "learned", "context": 5000}):
        if kind == "memory":
            config = find(kind, "transformer").make(vocab=900, **more)
            assert 0.9 < footprint.parameters(config) / count(config) < 1.1, more


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"width": 999_999_999}, "a model of width 999999999"),
        ({"vocab": 10**13}, "10000000000000 token ids"),
        ({"lag": 10**12}, "rows of 1000000000002 tokens"),
        ({"batch": 10**12}, "1000000000000 rows"),
        ({"symbols": 10**12}, "1000000000002 token ids"),
    ],
)
def test_what_does_not_fit_into_the_machine_is_refused_at_once(
    options: dict[str, Any], told: str
) -> None:
    began = time.process_time()
    said = complaint(RunConfig.of("copy", "gru", options).check)
    assert time.process_time() - began < 5
    assert said is not None
    assert "of memory, this machine has" in said
    assert told in said


def test_the_estimate_can_be_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig.of("copy", "gru", {"steps": 1})
    monkeypatch.setattr(capacity, "machine_bytes", lambda: 10_000)
    said = complaint(config.check)
    assert said is not None
    assert "this machine has 10 kB" in said
    assert complaint(lambda: ms.build("gru", vocab=9)) is not None
    monkeypatch.setenv(capacity.OVERSIZE, "1")
    assert complaint(config.check) is None
    monkeypatch.delenv(capacity.OVERSIZE)
    monkeypatch.setattr(capacity, "machine_bytes", lambda: None)
    assert complaint(config.check) is None


def test_a_container_has_what_it_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = capacity.machine_bytes()
    assert whole is None or whole > 2**28
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(capacity, "_LIMITS", (limit, tmp_path / "nowhere"))
    limit.write_text("1000000\n")
    assert capacity.machine_bytes() == 1_000_000
    limit.write_text("max\n")
    assert capacity.machine_bytes() != 1_000_000


def test_a_large_budget_is_met_without_trying_every_width() -> None:
    config = sized("gru", 10**9, vocab=9)
    assert 0.99e9 < count(config) <= 1e9
    assert (
        count(sized("rnn", 3000, vocab=9))
        <= 3000
        < count(
            sized("rnn", 3000, vocab=9).model_copy(
                update={"width": sized("rnn", 3000, vocab=9).width + 1}
            )
        )
    )


def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Should one of them wait for a writer, the test ends all the same.
    signal.alarm(20)
    try:
        for read in (
            lambda: read_documents(pipe),
            lambda: Images(source=str(pipe)).longest,
            lambda: Translation(corpus=str(pipe)).vocab,
            lambda: ms.train(tmp_path / "pipe.yaml"),
        ):
            (tmp_path / "pipe.yaml").unlink(missing_ok=True)
            os.mkfifo(tmp_path / "pipe.yaml")
            said = complaint(read)
            assert said is not None
            assert "not a regular file" in said
    finally:
        signal.alarm(0)


def test_a_source_whose_name_no_system_takes(tmp_path: Path) -> None:
    for name in ("x" * 300, "~nobody-at-all/x", f"{tmp_path}/none"):
        assert complaint(partial(read_documents, name)) is not None


def test_yaml_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    for text in ("[" * 20_000, "task: {", "a: b: c", "task: &x [*x]", "\t- a", "!!python/x 1"):
        path.write_text(text)
        said = complaint(lambda: ms.train(path, out=tmp_path / "run"))
        assert said is not None
        assert str(path) in said
        assert "\n" not in said
    assert not (tmp_path / "run").exists()
