"""Models of transformers behind the one call, whatever their cache is made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from carriers import CAUSAL, causal, document_memory, words
from complaints import complaint
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.stream import HuggingFaceStream
from mnemoscope.memories.state import StreamState
from mnemoscope.open import open_stream


@torch.no_grad()
@pytest.mark.parametrize("family", CAUSAL)
def test_a_stream_says_what_the_model_says(family: str) -> None:
    model = causal(family)
    stream = open_stream(model)
    tokens = words(2, 20)
    whole = model(tokens).logits
    torch.testing.assert_close(stream.read(tokens, segment=6).logits, whole, rtol=1e-4, atol=1e-4)


def test_mamba_loses_its_state_when_several_tokens_follow_so_they_are_read_one_by_one() -> None:
    assert HuggingFaceStream(causal("mamba")).one_by_one
    assert not HuggingFaceStream(causal("llama")).one_by_one


def test_a_model_that_hides_its_state_is_refused() -> None:
    model = causal("llama")

    class Secret(torch.nn.Module):
        def __init__(self, block: torch.nn.Module) -> None:
            super().__init__()
            self.block, self.seen = block, torch.zeros(())

        def forward(self, hidden: torch.Tensor, *args: Any, **options: Any) -> Any:
            out = self.block(hidden + self.seen, *args, **options)
            self.seen = hidden.mean()
            return out

    model.model.layers[0].mlp = Secret(model.model.layers[0].mlp)
    with pytest.raises(UserError, match="in its modules"):
        open_stream(model)


def with_one_changed(
    state: StreamState, wrong: int, change: Callable[[Tensor], Tensor]
) -> StreamState:
    numbers = itertools.count()
    return state.map(lambda tensor: change(tensor) if next(numbers) == wrong else tensor)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "documents"])
def test_a_state_that_does_not_fit_a_hugging_face_model_is_refused(kind: str) -> None:
    source = document_memory() if kind == "documents" else causal(kind)
    stream = open_stream(source, document="two" if kind == "documents" else None)
    state = stream.read(words(2, 5)).state
    changes: dict[str, Callable[[Tensor], Tensor]] = {
        "longer": lambda tensor: torch.cat((tensor, tensor[..., :1]), -1),
        "an axis more": lambda tensor: tensor[..., None],
        "another kind": lambda tensor: (
            tensor.double() if tensor.is_floating_point() else tensor.float()
        ),
    }
    for wrong, (name, tensor) in enumerate(state.tensors()):
        for how, change in changes.items():
            if how == "longer" and tensor.dim() == 1:
                continue  # another number of rows, which has its own message
            bad = with_one_changed(state, wrong, change)
            said = complaint(partial(stream.read, words(2, 3), bad))
            assert said is not None, (name, how)
    assert complaint(lambda: stream.read(words(2, 3), StreamState((), None, state.owner)))
