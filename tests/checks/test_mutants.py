"""A good model keeps every promise; each mutant is caught by the promise that is meant for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from mutants import MUTANTS, WORDS, Good
from torch import Tensor

import mnemoscope as ms
from mnemoscope.checks.promises import PROMISES
from mnemoscope.testing import check_state


def test_the_unbroken_model_keeps_every_promise_that_can_be_asked() -> None:
    result = ms.check(Good(), vocab=WORDS)
    (row,) = result.rows
    assert result.kept, result.text()
    assert {cell.promise for cell in row.cells if cell.verdict == "not asked"} == {
        "left padded, ids",
        "right padded, ids",
    }
    assert [cell.promise for cell in row.cells] == list(PROMISES)


@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_mutant_is_caught_by_the_promise_that_is_meant_for_it(kind: type[Good]) -> None:
    cell = ms.check(kind(), vocab=WORDS, only=[MUTANTS[kind]]).rows[0].cells[0]
    assert cell.verdict == "broken", cell
    assert cell.where or cell.note or cell.difference


def test_many_mutants_break_many_promises() -> None:
    assert len(MUTANTS) >= 10
    assert len(set(MUTANTS.values())) >= 10


def test_where_it_first_appears_is_the_first_token_after_the_state() -> None:
    class Late(Good):
        def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
            logits, new = super().forward(tokens, state, mask)
            return (logits if state is None else logits + torch.arange(WORDS)), new

    cell = ms.check(Late(), vocab=WORDS, only=["several after"]).rows[0].cells[0]
    assert cell.where == "row 0, token 12"


def test_a_function_is_checked_too_and_what_it_cannot_be_asked_is_said() -> None:
    model = Good()

    def read(tokens: Tensor, state: object = None) -> object:
        return model(tokens, state)

    (row,) = ms.check(read, vocab=WORDS).rows
    assert not row.bad
    said = {cell.promise: cell.note for cell in row.cells if cell.verdict == "not asked"}
    assert said["train mode"] == "a plain function has neither weights nor modes"
    assert said["left padded"] == "its call takes no mask"


def test_one_line_of_a_test_says_all_there_is_to_say() -> None:
    check_state(Good(), vocab=WORDS, only=["pieces", "one by one"])
    broken = next(kind for kind, promise in MUTANTS.items() if promise == "one by one")
    with pytest.raises(AssertionError) as error:
        check_state(broken(), vocab=WORDS, only=["pieces", "one by one", "causal"])
    said = str(error.value)
    assert "✗ one by one" in said
    assert "✓ causal" in said
    assert "def read(x, s=None)" in said


def test_a_model_keeps_its_mode_and_its_weights() -> None:
    model = Good().train()
    before = [weight.clone() for weight in model.parameters()]
    ms.check(model, vocab=WORDS)
    assert model.training
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_what_is_no_model_is_refused_in_a_line() -> None:
    with pytest.raises(ms.UserError, match="give vocab="):
        ms.check(lambda tokens, state: (tokens, state))
    with pytest.raises(ms.UserError, match="unknown promise 'piece'; did you mean 'pieces'"):
        ms.check("lstm", only=["piece"])
