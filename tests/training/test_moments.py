"""Weights at moments of a run: the same that a run without them has, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.training.checkpoint import load
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import train
from mnemoscope.training.run import Run


def config(**options: Any) -> RunConfig:
    small = {"sentences": 200, "width": 8, "layers": 1, "heads": 2, "steps": 4, "batch": 4}
    settings = {"checkpoint_every": 1, "keep": 9, "evaluate_batches": 1}
    return RunConfig.of("sentences", "encoder", {**small, **settings, **options})


def test_moments_are_those_of_a_run_that_keeps_none(tmp_path: Path) -> None:
    plain = train(config(), tmp_path / "plain", silent=True)
    film = train(config(), tmp_path / "film", silent=True, moments=(1, 3))
    for step in (1, 3):
        weights = load(plain.checkpoints / f"step-{step:08d}").model
        seen = film.moment(step).state_dict()
        assert all(torch.equal(weights[name], seen[name]) for name in weights)
    for step, model in ((0, plain.untrained()), (4, plain.model())):
        seen = film.moment(step).state_dict()
        assert all(torch.equal(value, seen[name]) for name, value in model.state_dict().items())
    assert {path.name for path in (film.folder / "moments").iterdir()} == {
        "step-00000001.safetensors",
        "step-00000003.safetensors",
    }
    with pytest.raises(UserError, match="has no weights of step 2"):
        film.moment(2)
    film.forget_moments()
    assert not (film.folder / "moments").exists()
    assert Run.open(film.folder).finished


def test_an_encoder_reads_out_what_is_asked_and_nothing_else_changes() -> None:
    torch.manual_seed(0)
    model = ms.build("encoder", vocab=11, width=8, layers=2, heads=2).double()
    tokens = torch.randint(11, (3, 5))
    targets = torch.where(torch.rand(3, 5) < 0.4, tokens, NO_QUESTION)
    asked = targets != NO_QUESTION
    gradients = []
    for some in (False, True):
        model.zero_grad()
        out = model(tokens, asked=asked) if some else model(tokens)
        logits = out.logits[0] if some else out.logits[asked]
        assert logits.shape == (int(asked.sum()), 11)
        torch.nn.functional.cross_entropy(logits, targets[asked]).backward()
        gradients.append([one.grad.clone() for one in model.parameters() if one.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
