"""What a document memory learns: with every control, negative and start, and when it changes."""

from __future__ import annotations

import pytest
import torch
from hf_families import build, logits, prompt, texts

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import Guidance

NAMES = list(texts())
# Random weights say less than a blind guess: there is no room for guidance above their loss.
PLAIN = Guidance(alpha=0.0)


@pytest.mark.parametrize("layer", [0, 1, -1])
def test_stored_hidden_states_train_as_the_hooked_model(layer: int) -> None:
    found = []
    for cache in ("off", "on"):
        model = build("gpt_neox")
        memory = ms.attach(model, "documents", layer=layer, entries=12)
        run = memory.fit(texts(), PLAIN, cache=cache, epochs=6, batch=3)
        assert run.kept is (cache == "on")
        found.append((run, memory.store.state_dict()))
    torch.testing.assert_close(found[0][0].losses, found[1][0].losses, atol=1e-6, rtol=0)
    for name, weight in found[0][1].items():
        torch.testing.assert_close(weight, found[1][1][name], atol=1e-6, rtol=0)


def test_documents_are_forgotten_and_added() -> None:
    model = build("llama")
    memory = ms.attach(model, "documents", entries=16, select="relu")
    memory.fit(texts(), PLAIN, epochs=20)
    with memory.document(NAMES[1]):
        before = logits(model, prompt())
    kept = memory.documents
    alone = memory.selection()
    only_first = (alone[0] > 0) & (alone[1:] == 0).all(0)
    memory.forget(NAMES[0])
    assert NAMES[0] not in memory.names
    assert bool((memory.store.values[:, only_first] == 0).all())
    with memory.document(NAMES[1]):
        torch.testing.assert_close(logits(model, prompt()), before)
    with pytest.raises(UserError, match="unknown document 'text 0'"), memory.document(NAMES[0]):
        pass
    run = memory.add("new", texts(1, seed=9)["text 0"], epochs=30)
    assert run.names == ["new"]
    assert memory.contexts().names == [*NAMES[1:], "new"]
    assert len(memory.contexts().owner) == 4
    with memory.document(NAMES[1]):
        torch.testing.assert_close(logits(model, prompt()), before)
    others = kept.pick(NAMES[1:])
    more = memory.add("newer", texts(1, seed=8)["text 0"], others, PLAIN, epochs=30)
    assert more.right < more.none
    assert memory.names == [*NAMES[1:], "new", "newer"]


@pytest.mark.filterwarnings("ignore:tau=")
@pytest.mark.parametrize("negative", ["other", "random", "zero", "perturbed", "hardest"])
def test_every_negative_learns(negative: str) -> None:
    memory = ms.attach(build("gpt2"), "documents", entries=16)
    guidance = Guidance(alpha=0.5, tau=4.0, negative=negative)
    run = memory.fit(texts(), guidance, epochs=20)
    assert run.right < run.none
    moment = run.moments[-1]
    assert moment.gradient_right > 0
    assert moment.gradient_wrong > 0
    assert moment.selection.shape == (4, 16)


@pytest.mark.parametrize("control", ["all", "random", "disjoint", "bias"])
def test_controls_keep_their_masks(control: str) -> None:
    memory = ms.attach(build("gpt2"), "documents", entries=16, control=control)
    run = memory.fit(texts(), Guidance(alpha=0), epochs=20)
    assert run.right < run.none
    assert run.moved == 0
    found = memory.contexts()
    if control == "all":
        assert found.right.mean() == pytest.approx(found.wrong.mean())
    else:
        assert found.right.mean() < found.wrong.mean()
    if control == "bias":
        added = memory.store(torch.randn(1, 5, 32), memory.selection()[:1])[0].detach()
        assert torch.equal(added, added[:1].expand(5, -1))


@pytest.mark.parametrize("start", ["tfidf", "shingles", "hidden", "random", "small"])
def test_every_start_learns(start: str) -> None:
    memory = ms.attach(build("llama"), "documents", start=start, learned=False, entries=16)
    run = memory.fit(texts(), PLAIN, epochs=20)
    assert run.moved == 0
    assert run.right < run.none
    if start in ("tfidf", "shingles", "hidden"):
        # A text that comes later needs no training to have a place.
        assert memory.add("late", texts(1, seed=5)["text 0"]).steps == 0
