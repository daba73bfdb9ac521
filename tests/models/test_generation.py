from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.models.generation import choose, generate
from mnemoscope.models.model import SequenceModel

Make = Callable[..., SequenceModel]
Tokens = Callable[..., Tensor]


@pytest.mark.parametrize("temperature", [0, 2])
def test_generating_from_the_state_is_reading_all_again(
    make: Make, tokens_of: Tokens, temperature: float
) -> None:
    model, prompt, seeded = make(), tokens_of(3, 4), torch.Generator().manual_seed
    said = generate(model, prompt, 20, temperature=temperature, generator=seeded(1)).tokens
    stream, generator = prompt, seeded(1)
    with torch.no_grad():
        for _ in range(20):
            logits = model(stream).logits[:, -1]
            choice = choose(logits, temperature, None, None, generator)
            stream = torch.cat((stream, choice[:, None]), 1)
    assert torch.equal(said, stream[:, 4:])
    assert len(said.unique()) > 2


def test_the_state_goes_on_where_the_words_end(make: Make, tokens_of: Tokens) -> None:
    model, prompt, more = make(), tokens_of(2, 4), tokens_of(2, 3, seed=1)
    done = generate(model, prompt, 6, generator=torch.Generator().manual_seed(0))
    # The last token said has not been read yet.
    out = model(torch.cat((done.tokens[:, -1:], more), 1), done.state)
    whole = model(torch.cat((prompt, done.tokens, more), 1)).logits
    torch.testing.assert_close(out.logits, whole[:, -4:], rtol=0, atol=1e-10)


def test_generation_may_start_from_a_state(make: Make, tokens_of: Tokens) -> None:
    model, prompt = make(), tokens_of(2, 7)
    with torch.no_grad():
        state = model(prompt[:, 3:5], model(prompt[:, :3]).state).state
    kept = {name: tensor.clone() for name, tensor in state.tensors()}
    said = generate(model, prompt[:, 5:], 8, state=state, temperature=0).tokens
    assert torch.equal(said, generate(model, prompt, 8, temperature=0).tokens)
    assert all(torch.equal(kept[name], tensor) for name, tensor in state.tensors())


def test_half_a_speech_and_the_rest_are_one_speech(make: Make, tokens_of: Tokens) -> None:
    model, prompt = make(), tokens_of(2, 4)
    whole = generate(model, prompt, 9, temperature=0).tokens
    first = generate(model, prompt, 5, temperature=0)
    rest = generate(model, first.tokens[:, -1:], 4, state=first.state, temperature=0)
    assert torch.equal(torch.cat((first.tokens, rest.tokens), 1), whole)


def test_training_goes_on_after_generating(make: Make, tokens_of: Tokens) -> None:
    model = make().train()
    done = generate(model, tokens_of(2, 4), 5)
    assert model.training
    assert not any(tensor.is_inference() for _, tensor in done.state.tensors())
    model(done.tokens, done.state).logits.square().sum().backward()
    assert all(w.grad is not None and w.grad.isfinite().all() for w in model.parameters())


def test_dropout_is_off_while_speaking_and_back_after(make: Make, tokens_of: Tokens) -> None:
    model, prompt = make(dropout=0.7), tokens_of(2, 4)
    quiet = generate(model, prompt, 8, temperature=0).tokens
    assert not model.training
    model.train()
    assert torch.equal(generate(model, prompt, 8, temperature=0).tokens, quiet)
    with pytest.raises(UserError, match="outside the vocabulary"):
        generate(model, prompt + 99, 3)
    assert model.training


def test_cold_sampling_and_one_choice_are_greedy(make: Make, tokens_of: Tokens) -> None:
    model, prompt = make(), tokens_of(2, 4)
    greedy = generate(model, prompt, 8, temperature=0).tokens
    assert torch.equal(generate(model, prompt, 8, temperature=1e-5).tokens, greedy)
    assert torch.equal(generate(model, prompt, 8, top_k=1).tokens, greedy)
    assert torch.equal(generate(model, prompt, 8, top_p=1e-6).tokens, greedy)


def test_a_seed_fixes_what_is_said(make: Make, tokens_of: Tokens) -> None:
    model, prompt = make(), tokens_of(2, 4)

    def say(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return generate(model, prompt, 16, temperature=3, generator=generator).tokens

    assert torch.equal(say(0), say(0))
    assert not torch.equal(say(0), say(1))


def test_after_stop_a_row_says_nothing_else(make: Make, tokens_of: Tokens) -> None:
    model, prompt, steps = make(), tokens_of(3, 4), 10
    free = generate(model, prompt, steps, temperature=0).tokens
    assert len(free.unique()) > 2
    for stop in free.unique().tolist():
        said = generate(model, prompt, steps, temperature=0, stop=stop).tokens
        ends = [row.index(stop) if stop in row else steps for row in free.tolist()]
        assert said.shape[1] == min(steps, max(ends) + 1)
        for row, end in enumerate(ends):
            assert torch.equal(said[row, : end + 1], free[row, : end + 1])
            assert (said[row, end:] == stop).all()


def test_a_stop_that_is_never_said_changes_nothing(make: Make, tokens_of: Tokens) -> None:
    model, prompt = make(), tokens_of(2, 4)
    with torch.no_grad():
        model.readout.bias[7] = -1e9
    free = generate(model, prompt, 6, temperature=0).tokens
    assert torch.equal(generate(model, prompt, 6, temperature=0, stop=7).tokens, free)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be positive"),
        ({"temperature": -1.0}, "temperature not negative"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0.0}, r"top_p in \(0, 1\]"),
        ({"top_p": 1.5}, r"top_p in \(0, 1\]"),
        ({"prompt": torch.zeros(2, 0, dtype=torch.long)}, "not empty"),
        ({"prompt": torch.zeros(2, 3)}, r"shape \(rows, length\)"),
    ],
)
def test_generation_refuses_what_makes_no_sense(
    make_named: Make, tokens_of: Tokens, options: dict[str, Any], message: str
) -> None:
    request: dict[str, Any] = {"prompt": tokens_of(2, 3), "steps": 2, **options}
    with pytest.raises(UserError, match=message):
        generate(make_named("gru"), **request)
