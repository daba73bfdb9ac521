"""Layers that compute again in the backward pass learn what others learn, and keep less."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.memories.config import TransformerBase
from mnemoscope.models.model import SequenceModel

# Every Transformer, so small that streams of these lengths leave caches, blocks and contexts.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("memory", {"context": 9}),
    "transformer learned": ("memory", {"positions": "learned", "context": 64, "tied": True}),
    "transformer_xl": ("memory", {"mem_len": 5}),
    "compressive": ("memory", {"mem_len": 5, "compressed_len": 4, "rate": 2}),
    "compressive most-used": ("memory", {"mem_len": 5, "rate": 2, "compression": "most-used"}),
    "infinite": ("memory", {"mem_len": 4, "chunk": 3, "basis": 6, "sticky": True, "kl": 0.1}),
    "sparse": ("memory", {"pattern": "strided,fixed", "stride": 4, "summaries": 1}),
    "sparse heads": ("memory", {"pattern": "local|column", "stride": 3, "context": 11}),
    "encoder": ("encoder", {"positions": "rotary"}),
    "encoder_decoder": ("translator", {"source_vocab": 13, "embeddings": "separate"}),
    "encoder_decoder post": ("translator", {"source_vocab": 13, "norm": "post"}),
}
# Some fits of the ∞-former's signal are coarse by choice.
pytestmark = pytest.mark.filterwarnings("ignore:of the . basis functions")


def build(case: str, **options: Any) -> SequenceModel:
    kind, own = CASES[case]
    torch.manual_seed(1)
    given = {"vocab": 11, "width": 8, "layers": 3, "heads": 2, "dropout": 0.3, **own, **options}
    model: SequenceModel = find(kind, case.split()[0]).make(**given).build().double()
    return model.train()


def ids(seed: int, length: int, vocab: int = 11) -> Tensor:
    return torch.randint(vocab, (2, length), generator=torch.Generator().manual_seed(seed))


def learn(model: SequenceModel, padded: bool) -> tuple[list[Tensor], dict[str, int]]:
    """All that two segments and a backward pass through both give; and bytes kept for it."""
    kept: dict[str, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[str(storage.data_ptr())] = storage.nbytes()
        return tensor

    mask = torch.arange(23).expand(2, 23) < torch.tensor([[23], [17]]) if padded else None
    torch.manual_seed(7)
    state: Any = None
    outs = []
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        if model.config.reads_source:
            state = model.encode(ids(5, 12, 13))
        for seed, length in enumerate((23, 10)):
            outs.append(model(ids(seed, length), state, mask if seed == 0 else None))
            state = None if model.config.memory == "encoder" else outs[-1].state
    losses = [loss for out in outs for loss in out.losses.values()]
    total = torch.stack([out.logits.square().mean() for out in outs] + losses).sum()
    torch.autograd.backward(total)
    after = [loss for out in outs for loss in out.losses.values()]
    seen = [*(out.logits for out in outs), *losses, *after]
    seen += [tensor for out in outs for _, tensor in out.state.tensors()]
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    # The next number drawn: whatever follows in a run must not depend on recomputation.
    return [*seen, torch.rand(3), *gradients], kept


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_recomputing_changes_no_bit_of_what_is_learnt_and_keeps_less(
    case: str, padded: bool
) -> None:
    plain, kept = learn(build(case), padded)
    again, fewer = learn(build(case, recompute=True), padded)
    assert len(plain) == len(again)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(again, plain, strict=True))
    assert 0 < sum(fewer.values()) < 0.5 * sum(kept.values())


def test_every_transformer_can_recompute() -> None:
    transformers = {n for n in MEMORIES if issubclass(find("memory", n), TransformerBase)}
    assert transformers <= {case.split()[0] for case in CASES}


def test_losses_that_a_memory_asks_for_are_asked_for_once() -> None:
    for case, name in (("compressive", "attention rebuilt"), ("infinite", "kl")):
        model = build(case, recompute=True)
        out = model(ids(1, 23), model(ids(0, 23)).state)  # of a signal with something in it
        before = float(out.losses[name].detach())
        torch.autograd.backward(out.logits.sum() + out.losses[name])
        assert float(out.losses[name].detach()) == before > 0


def test_a_state_goes_from_a_model_that_recomputes_to_one_that_does_not() -> None:
    for case in CASES:
        if CASES[case][0] == "memory":
            state = build(case, recompute=True).eval()(ids(0, 9)).state
            plain = build(case).eval()
            plain(ids(1, 4), state)
            older = type(state)(state.layers, state.count, state.owner[:-1] + ',"recompute":true}')
            plain(ids(1, 4), older)


def test_recomputing_compiles() -> None:
    model, tokens = build("transformer", recompute=True, dropout=0.0, layers=1), ids(0, 23)
    compiled: Any = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(tokens).logits, model(tokens).logits)


def test_a_deep_model_keeps_less_than_a_third() -> None:
    plain, fewer = (
        sum(learn(build("sparse", layers=12, width=32, recompute=again), False)[1].values())
        for again in (False, True)
    )
    assert fewer < plain / 3
