"""Reading without answering leaves the very state that answering leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.registry import MEMORIES

SHAPE: dict[str, Any] = {"vocab": 7, "width": 8, "layers": 2, "heads": 2, "mem_len": 4}
KINDS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"width": 8, "layers": 2}) for name in MEMORIES),
    ("infinite", {"basis": 4, "chunk": 4, "sticky": True}),
    ("infinite", {"basis": 4, "chunk": 4, "density": "gibbs", "sticky": True}),
    ("infinite", {"basis": 4, "chunk": 4, "compressed_len": 4, "rate": 2}),
    ("compressive", {"compressed_len": 4, "rate": 2, "compression": "most-used"}),
]


def built(name: str, options: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    shape = SHAPE if name in ("infinite", "compressive") else {"vocab": 7}
    return ms.build(name, **{**shape, **options})


@pytest.mark.parametrize(("name", "options"), KINDS, ids=lambda one: str(one)[:40])
def test_remembering_is_reading_without_an_answer(name: str, options: dict[str, Any]) -> None:
    model = built(name, options).eval()
    tokens = torch.randint(7, (3, 24))
    mask = torch.rand(3, 8) > 0.3
    mask[:, 0] = True
    told, silent = None, None
    with torch.no_grad():
        for number, part in enumerate(tokens.split(8, 1)):
            given = mask if number == 1 else None
            told = model(part, told, given).state
            silent = model.prefill(part, silent, given)
    for (place, one), (_, other) in zip(told.tensors(), silent.tensors(), strict=True):
        assert torch.equal(one, other), place


def test_gradients_flow_back_through_what_was_remembered() -> None:
    model = built("infinite", {"basis": 4, "chunk": 4}).double()
    tokens = torch.randint(7, (2, 16))

    def gradients(silent: bool) -> list[torch.Tensor]:
        model.zero_grad()
        before, after = tokens.split(8, 1)
        state = model.prefill(before) if silent else model(before).state
        model(after, state).logits.square().sum().backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    for one, other in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
