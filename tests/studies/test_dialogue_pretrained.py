"""The study `dialogue` with a pretrained model, tiny: nothing trained, the same page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR, UNTRAINED
from mnemoscope.studies.dialogue.page import page
from mnemoscope.studies.dialogue.result import DialogueResult
from mnemoscope.studies.dialogue.study import DialogueStudy

pytest.importorskip("transformers")

from brought import SENTENCES
from dialogue_results import own_corpus
from hf_families import save_whole

from mnemoscope.huggingface import DocumentMemory
from mnemoscope.studies.dialogue.recovered import Recovered


@pytest.fixture
def world(tmp_path: Path) -> dict[str, Any]:
    corpus = own_corpus(tmp_path)
    shape: dict[str, Any] = {"max_position_embeddings": 512, "initializer_range": 0.3}
    save_whole(tmp_path / "model", corpus.read_text() + SENTENCES, 300, **shape)
    return {"model": str(tmp_path / "model"), "source": str(corpus)}


def test_a_pretrained_model_follows_conversations_with_memories_that_need_no_training(
    world: dict[str, Any], tmp_path: Path
) -> None:
    from mnemoscope.studies.dialogue.pretrained import measure_pretrained

    study = DialogueStudy.preset("quick", **world, window=16, vectors=16, shown=1)
    # So that memories take part although a random model gains nothing from a document.
    always = study.model_copy(update={"least_gain": -10.0})
    result = measure_pretrained(always, tmp_path)
    assert set(result.models) == {FLOOR, CEILING, *UNTRAINED}
    assert from_plain(DialogueResult, to_plain(result)) == result
    sizes = {name: facts.state_bytes for name, facts in result.models.items()}
    assert sizes["infinite"] == sizes["infinite_sticky"] == sizes["transformer_xl"]
    assert sizes["window"] < sizes["infinite"] < sizes[CEILING]
    sections = page(result)
    titles = [section.title for section in sections]
    assert "Where attention fell on the document" in titles
    assert "How they were trained" not in titles
    words = "\n".join(one for part in sections for one in part.parts if isinstance(one, str))
    assert "nothing was trained, so there are no seeds" in words


def test_the_study_stops_where_nothing_can_be_gained(world: dict[str, Any], tmp_path: Path) -> None:
    options: dict[str, Any] = {"window": 16, "vectors": 16, "least_gain": 50.0}
    published = ms.study("dialogue", "corpus", out=tmp_path / "study", jobs=1, **world, **options)
    assert set(published.result.models) == {FLOOR, CEILING}
    assert "so no memory was tried" in published.page.read_text()


def test_with_room_for_all_a_memory_is_the_ceiling_and_controls_read_what_they_say(
    world: dict[str, Any], tmp_path: Path
) -> None:
    from mnemoscope.studies.dialogue.pretrained import _examined

    study = DialogueStudy.preset("quick", **world, window=16, vectors=400, conversations=2, shown=1)
    ceiling, sticky, floor, near = (
        _examined(study, name, tmp_path) for name in (CEILING, "infinite_sticky", FLOOR, "window")
    )
    for control in ("own", "none", "another"):
        np.testing.assert_allclose(ceiling.nats[control], sticky.nats[control], atol=2e-3)
    assert set(floor.nats) == {"none"}
    assert np.abs(np.array(near.nats["own"]) - ceiling.nats["own"]).max() > 1e-2
    assert np.abs(np.subtract(ceiling.nats["own"], _like(ceiling, "another"))).max() > 1e-2
    assert sticky.attended is not None
    assert len(sticky.attended.positions) == 2
    assert (np.sum(sticky.attended.positions, 1) < 1).all()
    assert ceiling.attended is None
    # What is kept is not read again, and other options are other answers.
    files = sorted(path.name for path in (tmp_path / "pretrained").glob("*.json"))
    assert files == ["ceiling-0.json", "floor-0.json", "infinite_sticky-0.json", "window-0.json"]
    written = (tmp_path / "pretrained" / "ceiling-0.json").stat().st_mtime_ns
    assert _examined(study, CEILING, tmp_path) == ceiling
    assert (tmp_path / "pretrained" / "ceiling-0.json").stat().st_mtime_ns == written


def test_half_of_the_bits_tell_nearly_the_same_in_half_of_the_bytes(
    world: dict[str, Any], tmp_path: Path
) -> None:
    from mnemoscope.studies.dialogue.pretrained import measure_pretrained

    few: dict[str, Any] = {"window": 16, "vectors": 16, "memories": ("window", "infinite_sticky")}
    found = {}
    for dtype in ("float32", "bfloat16"):
        study = DialogueStudy.preset("quick", **world, **few, dtype=dtype, conversations=2)
        always = study.model_copy(update={"least_gain": -10.0})
        found[dtype] = measure_pretrained(always, tmp_path / dtype)
    full, half = (Recovered(one) for one in found.values())
    for name in found["float32"].models:
        assert half.loss(name) == pytest.approx(full.loss(name), rel=0.02)
    sizes = [one.models["infinite_sticky"].state_bytes for one in found.values()]
    assert sizes[0] > 1.5 * sizes[1]
    words = "\n".join(
        one for part in page(found["bfloat16"]) for one in part.parts if isinstance(one, str)
    )
    assert "in bfloat16" in words


def _like(examined: Any, control: str) -> Any:
    """Grids of controls have fewer groups: as wide as that of the own document."""
    own, other = np.array(examined.nats["own"]), np.array(examined.nats[control])
    return np.concatenate((other, own[:, other.shape[1] :]), 1)


def test_what_cannot_be_is_refused(world: dict[str, Any], tmp_path: Path) -> None:
    for options, words in (
        ({"source": None}, "model and source go together"),
        ({"memories": ("gru",)}, "must be trained"),
        ({"model": None, "memories": ("documents",)}, "behind a block of a pretrained model"),
        ({"window": 7}, "even window"),
        ({"window": 64, "vectors": 16}, "half as many vectors"),
        ({"model": None, "rating": 3}, "rating is for a pretrained model"),
        ({"model": None, "dtype": "bfloat16"}, "dtype needs model"),
    ):
        with pytest.raises(UserError, match=words):
            DialogueStudy.preset("quick", **world | options)
    with pytest.raises(UserError, match="two are needed"):
        ms.study("dialogue", out=tmp_path / "study", jobs=1, **world, window=16, rating=5)


def test_a_document_memory_takes_part_by_name(world: dict[str, Any], tmp_path: Path) -> None:
    from mnemoscope.studies.dialogue.pretrained import measure_pretrained

    # A model that is worse than a blind guess has no room for a wrong document.
    text = Path(world["source"]).read_text() + SENTENCES
    calm: dict[str, Any] = {"max_position_embeddings": 512, "initializer_range": 0.05}
    save_whole(tmp_path / "calm", text, 300, **calm)
    world["model"] = str(tmp_path / "calm")
    study = DialogueStudy.preset(
        "quick", **world, window=16, vectors=16, memories=("documents",), document_entries=16,
        document_epochs=30,
    )  # fmt: skip
    always = study.model_copy(update={"least_gain": -10.0})
    result = measure_pretrained(always, tmp_path)
    found = Recovered(result)
    # With no document open it is the floor; with its own it is another model.
    assert found.loss("documents", "all", "none") == pytest.approx(found.loss(FLOOR), abs=1e-4)
    own, other = (found.loss("documents", "all", one) for one in ("own", "another"))
    assert abs(own - other).max() > 1e-3
    assert result.learnt is not None
    assert result.learnt.documents == 2
    assert result.learnt.right < result.learnt.none
    learnt = sum(
        one.numel()
        for one in DocumentMemory.from_pretrained(tmp_path / "documents").weights.parameters()
    )
    assert result.models["documents"].state_bytes == 4 * learnt
    assert from_plain(DialogueResult, to_plain(result)) == result
    words = "\n".join(one for part in page(result) for one in part.parts if isinstance(one, str))
    assert "The document memory learnt all 2 documents" in words
    # Stopped and started again, nothing is learnt or read again.
    before = (tmp_path / "documents" / "documents.safetensors").stat().st_mtime_ns
    assert measure_pretrained(always, tmp_path) == result
    assert (tmp_path / "documents" / "documents.safetensors").stat().st_mtime_ns == before
