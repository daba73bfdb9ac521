"""What a document memory learns: with every control, negative and start, and when it changes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hf_families import build, logits, prompt, texts

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import Guidance
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.documents.prompting import recite
from mnemoscope.huggingface.texts import Documents

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


def test_documents_are_added() -> None:
    model = build("llama")
    memory = ms.attach(model, "documents", entries=16, select="relu")
    memory.fit({name: texts()[name] for name in NAMES[1:]}, PLAIN, epochs=20)
    kept = memory.documents
    with memory.document(NAMES[1]):
        before = logits(model, prompt())
    with pytest.raises(UserError, match="unknown document 'text 0'"), memory.document(NAMES[0]):
        pass
    run = memory.add("new", texts(1, seed=9)["text 0"], epochs=30)
    assert run.names == ["new"]
    assert memory.contexts().names == [*NAMES[1:], "new"]
    assert len(memory.contexts().owner) == 4
    with memory.document(NAMES[1]):
        torch.testing.assert_close(logits(model, prompt()), before)
    more = memory.add("newer", texts(1, seed=8)["text 0"], kept, PLAIN, epochs=30)
    assert more.right < more.none
    assert memory.names == [*NAMES[1:], "new", "newer"]


@pytest.mark.parametrize("select", ["tanh", "relu", "sigmoid"])
def test_what_is_forgotten_does_not_come_back(select: str) -> None:
    memory = ms.attach(build("llama"), "documents", entries=32, select=select)
    memory.fit(texts(), PLAIN, epochs=200, lr=0.03)
    text = texts()[NAMES[0]]
    forgotten = memory.forget(NAMES[0])
    assert forgotten.others == len(memory.names) == 3
    assert forgotten.recited_now >= forgotten.recited_before >= 2
    assert forgotten.own_before < 1
    assert "3 documents are left, " in str(forgotten)
    # Somebody who has the text and looks for a representation finds no more of it than of a text
    # that nobody ever learnt.
    found = memory.add("back", text, epochs=100)
    unseen = [memory.add(f"unseen {seed}", texts(1, seed=seed)["text 0"], epochs=100)
              for seed in (5, 6, 7)]  # fmt: skip
    assert found.recited == 0
    assert found.right > min(one.right for one in unseen) - 0.5
    assert forgotten.own_now > forgotten.own_before + 1
    # It is the same memory as one that never saw it.
    never = ms.attach(build("llama"), "documents", entries=32, select=select)
    never.fit({name: texts()[name] for name in NAMES[1:]}, PLAIN, epochs=200, lr=0.03)
    assert never.add("back", text, epochs=100).right == found.right


def test_forgetting_leaves_no_trace_and_needs_the_texts_of_the_others(tmp_path: Path) -> None:
    rest = {name: texts()[name] for name in NAMES[1:]}
    never = ms.attach(build("gpt2"), "documents", entries=8, start="tfidf")
    never.fit(rest, PLAIN, epochs=5)
    model = build("gpt2")
    memory = ms.attach(model, "documents", entries=8, start="tfidf")
    memory.fit(texts(), PLAIN, epochs=5)
    memory.save(tmp_path)
    memory.detach()
    memory = DocumentMemory.load(tmp_path, model)
    with pytest.raises(UserError, match="that of 'text 1' is missing"):
        memory.forget(NAMES[0])
    assert memory.names == NAMES
    assert memory.forget(NAMES[0], rest).own_now is None
    for name, weight in never.store.state_dict().items():
        assert torch.equal(weight, memory.store.state_dict()[name]), name
    assert memory.frequencies == never.frequencies
    memory.forget(NAMES[1])
    memory.forget(NAMES[2])
    assert memory.forget(NAMES[3]).others == 0
    assert not memory.names
    assert not bool(memory.store.values.any())


def test_a_newcomer_has_the_tfidf_it_would_have_had(tmp_path: Path) -> None:
    model = build("llama")
    options = {"start": "tfidf", "learned": False, "entries": 8}
    memory = ms.attach(model, "documents", **options)
    memory.fit({name: texts()[name] for name in NAMES[:3]}, PLAIN, epochs=1)
    memory.save(tmp_path / "three")
    memory.detach()
    memory = DocumentMemory.load(tmp_path / "three", model)
    memory.add(NAMES[3], texts()[NAMES[3]])
    late = memory.store.keys[3].clone()
    memory.detach()
    joint = ms.attach(model, "documents", **options)
    joint.fit(texts(), PLAIN, epochs=1)
    assert torch.equal(late, joint.store.keys[3])
    joint.detach()
    older = DocumentMemory.load(tmp_path / "three", model)
    older.frequencies = None
    with pytest.warns(UserWarning, match="saved without document frequencies"):
        older.add(NAMES[3], texts()[NAMES[3]])


def test_a_fit_says_how_much_it_recites_and_how_it_went() -> None:
    memory = ms.attach(build("llama"), "documents", entries=32)
    assert memory.fit(texts(), PLAIN, epochs=1).recited == 0
    run = memory.fit(texts(), PLAIN, epochs=200, lr=0.03, record=10)
    assert run.recited == len(NAMES)
    first, last = run.moments[0].keys, run.moments[-1].keys
    assert first.shape == (4, memory.options.key_dim)
    assert float((last - first).norm() / first.norm()) == pytest.approx(run.moved, abs=0.05)


def test_a_fit_ends_when_all_is_recited_by_a_margin() -> None:
    given = {"entries": 32}
    memory = ms.attach(build("llama"), "documents", **given)
    run = memory.fit(texts(), PLAIN, epochs=300)
    assert run.recited == len(NAMES)
    assert run.steps == len(run.losses) < 300
    reader = Reader(memory, memory.read(texts()), keep=True)
    logits, targets = reader.logits(torch.arange(4), memory.store.selection())
    logits = logits.detach()
    own = logits.gather(2, targets[:, :, None])
    others = logits.scatter(2, targets[:, :, None], -math.inf).amax(2, keepdim=True)
    assert float((own - others).min()) > math.log(2) - 0.05  # one step came after it was measured
    whole = ms.attach(build("llama"), "documents", **given)
    assert whole.fit(texts(), PLAIN, epochs=run.steps + 9, stop=False).steps == run.steps + 9
    short = ms.attach(build("llama"), "documents", **given)
    assert short.fit(texts(), PLAIN, epochs=5).steps == 5


def test_large_hidden_states_are_learnt_as_fast_as_small_ones() -> None:
    """The last norm divides by their size, so values have to grow with it to say anything."""
    steps = {}
    for size, lr in ((1, None), (30, None), (30, 1e-2)):
        model = build("llama")
        with torch.no_grad():  # what blocks add to, and what they add
            model.model.embed_tokens.weight.mul_(size)
            for block in model.model.layers:
                block.self_attn.o_proj.weight.mul_(size)
                block.mlp.down_proj.weight.mul_(size)
        memory = ms.attach(model, "documents", entries=64)
        steps[size, lr] = memory.fit(texts(2), PLAIN, epochs=300, lr=lr).steps
    assert steps[30, None] < steps[1, None] + 10
    assert steps[30, 1e-2] > 2 * steps[30, None]


@pytest.mark.parametrize("cutting", [{}, {"segment": 16, "overlap": 3}])
def test_a_document_is_recited_by_its_name_alone(cutting: dict[str, int], tmp_path: Path) -> None:
    model = build("llama")
    memory = ms.attach(model, "documents", entries=64)
    given = texts(2, length=50)
    assert memory.fit(Documents(given, **cutting), PLAIN, epochs=300).recited == 2
    assert {name: recite(memory, name) for name in given} == given
    memory.save_pretrained(tmp_path)
    memory.detach()
    memory = DocumentMemory.from_pretrained(tmp_path, model)
    assert recite(memory, "text 1") == given["text 1"]
    memory.beginnings = {}  # as memories of older versions
    with pytest.raises(UserError, match="without the first tokens"):
        recite(memory, "text 1")


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
