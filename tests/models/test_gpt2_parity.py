from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import from_gpt2
from mnemoscope.models.generation import generate

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(before)


def gpt2(kind: str = "GPT2LMHeadModel", **options: Any) -> Any:
    torch.manual_seed(0)
    values = {"vocab_size": 17, "n_positions": 32, "n_embd": 8, "n_layer": 2, "n_head": 2}
    ends = {"bos_token_id": None, "eos_token_id": None}
    # Weights this large make every token matter; GPT-2's own leave the logits near zero.
    config = transformers.GPT2Config(**{**values, **ends, "initializer_range": 0.4, **options})
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_(std=0.3)
            if name.endswith("ln_f.bias"):
                weight.zero_()
            if name.endswith(("wpe.weight", "ln_f.weight")):
                weight.normal_(std=2)
    return model


def prompt(rows: int, length: int) -> Tensor:
    return torch.randint(17, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("inner", [None, 16, 20])
def test_logits_are_those_of_hugging_face(inner: int | None) -> None:
    theirs = gpt2(n_inner=inner).double()
    ours, tokens = from_gpt2(theirs), prompt(3, 20)
    with torch.no_grad():
        expected = theirs(tokens).logits
        torch.testing.assert_close(ours(tokens).logits, expected, rtol=0, atol=1e-10)
        assert expected.std() > 0.5
        out = ours(tokens[:, :7])
        out = ours(tokens[:, 7:], out.state)
        torch.testing.assert_close(out.logits, expected[:, 7:], rtol=0, atol=1e-10)


def test_left_padding_is_that_of_hugging_face() -> None:
    theirs = gpt2().double()
    ours, tokens = from_gpt2(theirs), prompt(2, 9)
    mask = torch.arange(9) >= torch.tensor([[0], [4]])
    places = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=mask.long(), position_ids=places).logits
        found = ours(tokens, None, mask).logits
    torch.testing.assert_close(found[mask], expected[mask], rtol=0, atol=1e-10)


def test_greedy_tokens_are_those_of_hugging_face() -> None:
    theirs, tokens = gpt2(), prompt(3, 5)
    ours = from_gpt2(theirs)
    mask = torch.ones_like(tokens)
    expected = theirs.generate(
        tokens, attention_mask=mask, max_new_tokens=20, do_sample=False, pad_token_id=0
    )[:, 5:]
    found = generate(ours, tokens, 20, temperature=0).tokens
    assert torch.equal(found, expected)
    assert len(found.unique()) > 3


def test_weights_are_copied_and_the_mode_follows() -> None:
    theirs = gpt2().train()
    ours, tokens = from_gpt2(theirs), prompt(2, 5)
    assert ours.training
    ours.eval()
    before = ours(tokens).logits
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.zero_()
    assert torch.equal(ours(tokens).logits, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation_function": "relu"}, "activation_function='relu', not 'gelu_new'"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon=1e-06"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False, not True"),
    ],
)
def test_a_gpt2_of_another_shape(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_gpt2(gpt2(**options))


def test_a_model_that_is_no_gpt2_language_model() -> None:
    with pytest.raises(UserError, match="needs a GPT2LMHeadModel, not GPT2Model"):
        from_gpt2(gpt2("GPT2Model"))
    config = transformers.GPTNeoConfig(
        vocab_size=5,
        hidden_size=4,
        num_layers=1,
        num_heads=1,
        attention_types=[[["global"], 1]],
        bos_token_id=None,
        eos_token_id=None,
    )
    with pytest.raises(UserError, match="needs a GPT2LMHeadModel, not GPTNeoForCausalLM"):
        from_gpt2(transformers.GPTNeoForCausalLM(config))
