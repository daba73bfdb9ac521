"""Saved memories: where they are written, and files of them that are damaged or made up."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from complaints import complaint
from hf_families import build, prompt, texts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import Guidance
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.saving import check_destination
from mnemoscope.memories.state import read_tensors, write_tensors

Edit = Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]


@pytest.fixture(scope="module")
def model() -> Any:
    return build("llama")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model: Any) -> Path:
    """A memory of each kind, saved."""
    folder = tmp_path_factory.mktemp("memories")
    documents = ms.attach(model, "documents", entries=4, key_dim=2)
    documents.fit(texts(2), Guidance(alpha=0.0), epochs=1, silent=True)
    documents.save(folder)
    documents.detach()
    endless = ms.attach(model, "infinite", window=8, basis=8, layers=(1,))
    endless.save(folder)
    endless.detach()
    return folder


def load(kind: str, folder: Path, model: Any) -> None:
    """Load a memory, and take it off again."""
    memory = (DocumentMemory if kind == "documents" else InfiniteMemory).load(folder, model)
    memory.detach()


def hooks(model: Any) -> int:
    return sum(len(part._forward_hooks) for part in model.modules())


CONFIGS = {"documents": "documents_config.json", "endless": "infinite_config.json"}


def rewrite(kind: str, folder: Path, edit: Edit, old: bool = False) -> None:
    """Change what files say, with a digest that fits: nobody can tell but from what they say.

    As ``old`` as version 0.1, the config is in the head of the other file, under other words.
    """
    path, config = folder / f"{kind}.safetensors", folder / CONFIGS[kind]
    tensors, about = read_tensors(path)[0], json.loads(config.read_text())
    if old:
        about["base"], about["model"] = about.pop("base_fingerprint"), ""
        del about["base_model_name_or_path"], about["architecture"]
        config.unlink()
    edit(about, tensors)
    write_tensors(path, tensors, {kind: json.dumps(about)} if old else {})
    if not old:
        config.write_text(json.dumps(about))


def test_what_was_saved_loads(home: Path, model: Any) -> None:
    for kind in ("documents", "endless"):
        assert complaint(lambda kind=kind: load(kind, home, model)) is None  # type: ignore[misc]
    assert hooks(model) == 0


CRAFTED: dict[str, tuple[str, Edit]] = {
    "no names": ("documents", lambda about, _: about.pop("names")),
    "one name twice": ("documents", lambda about, _: about.update(names=["a", "a"])),
    "a name too few": ("documents", lambda about, _: about.update(names=["a"])),
    "names of numbers": ("documents", lambda about, _: about.update(names=[1, 2])),
    "huge entries": ("documents", lambda about, _: about["options"].update(entries=65536)),
    "huger entries": ("documents", lambda about, _: about["options"].update(entries=10**15)),
    "depth": ("documents", lambda about, _: about["options"].update(depth=60)),
    "no options": ("documents", lambda about, _: about.update(options=[])),
    "strange option": ("documents", lambda about, _: about["options"].update(entires=3)),
    "no such layer": ("documents", lambda about, _: about["options"].update(layer=9)),
    "cut by nothing": ("documents", lambda about, _: about.update(cutting={"segment": 0})),
    "cut by what": ("documents", lambda about, _: about.update(cutting={"piece": 3})),
    "width": ("documents", lambda about, _: about.update(width=5)),
    "no base": ("documents", lambda about, _: about.pop("base_fingerprint")),
    "other base": ("documents", lambda about, _: about.update(base_fingerprint="x")),
    "no tensor": ("documents", lambda _, tensors: tensors.pop("values")),
    "one more": ("documents", lambda _, tensors: tensors.update(more=torch.zeros(2))),
    "nan": ("documents", lambda _, tensors: tensors["keys"].fill_(torch.nan)),
    "whole numbers": ("documents", lambda _, t: t.update(keys=t["keys"].long())),
    "a class of ours": ("endless", lambda about, _: about.update(kind="DocumentOptions")),
    "any attribute": ("endless", lambda about, _: about.update(kind="math")),
    "huge basis": ("endless", lambda about, _: about["options"].update(basis=10**12)),
    "other basis": ("endless", lambda about, _: about["options"].update(basis=16)),
    "window": ("endless", lambda about, _: about["options"].update(window=4096)),
    "layers": ("endless", lambda about, _: about["options"].update(layers=[7])),
    "other layers": ("endless", lambda about, _: about["options"].update(layers=[0, 1])),
    "no kind": ("endless", lambda about, _: about.pop("kind")),
    "another base": ("endless", lambda about, _: about.update(base_fingerprint="x")),
    "gone": ("endless", lambda _, t: t.pop("0.query.weight")),
}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_refused_and_leaves_the_model_alone(
    name: str, old: bool, home: Path, model: Any, tmp_path: Path
) -> None:
    kind, edit = CRAFTED[name]
    folder = Path(shutil.copytree(home, tmp_path / "memory"))
    rewrite(kind, folder, edit, old and "base" not in name)
    said = complaint(lambda: load(kind, folder, model))
    assert said is not None
    assert "\n" not in said
    assert hooks(model) == 0


def test_metadata_that_is_no_json_or_of_another_kind(
    home: Path, model: Any, tmp_path: Path
) -> None:
    tensors, _ = read_tensors(home / "documents.safetensors")
    for text in ("{", "[]", "null", "[" * 100_000, '"a"', "9" * 10_000):
        for kind in ("documents", "endless"):
            write_tensors(tmp_path / f"{kind}.safetensors", tensors, {kind: text})
            assert complaint(lambda kind=kind: load(kind, tmp_path, model))  # type: ignore[misc]
            write_tensors(tmp_path / f"{kind}.safetensors", tensors, {})
            (tmp_path / CONFIGS[kind]).write_text(text)
            assert complaint(lambda kind=kind: load(kind, tmp_path, model))  # type: ignore[misc]
            (tmp_path / CONFIGS[kind]).unlink()
    write_tensors(tmp_path / "documents.safetensors", tensors, {"endless": "{}"})
    assert "holds no document" in str(complaint(lambda: load("documents", tmp_path, model)))
    save_file({"a": torch.zeros(1)}, tmp_path / "documents.safetensors")
    assert complaint(lambda: load("documents", tmp_path, model))


def test_memories_of_the_first_versions_still_open(home: Path, model: Any, tmp_path: Path) -> None:
    """They did not say how texts were cut, and had no centre."""
    folder = Path(shutil.copytree(home, tmp_path / "memory"))

    def age(about: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        del about["cutting"], tensors["centre"]

    rewrite("documents", folder, age, old=True)
    memory = DocumentMemory.load(folder, model)
    with memory.document("text 0"):
        under = model(prompt()).logits
    memory.detach()
    assert under.isfinite().all()
    assert not torch.equal(under, model(prompt()).logits)


def fuzzed(test: Any) -> Any:
    """Try it with many kinds of data on memories of both kinds."""
    tried = given(data=st.data(), kind=st.sampled_from(["documents", "endless"]))(test)
    return settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])(
        tried
    )


@fuzzed
def test_any_bytes_give_a_memory_or_a_complaint(
    data: st.DataObject, kind: str, home: Path, model: Any, tmp_path: Path
) -> None:
    before = (home / f"{kind}.safetensors").read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    after = data.draw(
        st.sampled_from([
            before[:place],
            before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :],
            before[:place] + b"\0" + before[place:],
            data.draw(st.binary(max_size=100)),
        ])
    )  # fmt: skip
    (tmp_path / f"{kind}.safetensors").write_bytes(after)
    shutil.copy(home / CONFIGS[kind], tmp_path)
    complaint(lambda: load(kind, tmp_path, model))
    assert hooks(model) == 0


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**18), st.floats(), st.text(max_size=4)
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
)


@pytest.mark.filterwarnings("ignore:of the")  # a signal that can be had, but is not wise
@fuzzed
def test_any_metadata_gives_a_memory_or_a_complaint(
    data: st.DataObject, kind: str, home: Path, model: Any, tmp_path: Path
) -> None:
    shutil.copy(home / f"{kind}.safetensors", tmp_path)
    about = json.loads((home / CONFIGS[kind]).read_text())
    inside = about["options"] if data.draw(st.booleans()) else about
    inside[data.draw(st.sampled_from(sorted(inside)))] = data.draw(VALUES)
    (tmp_path / CONFIGS[kind]).write_text(json.dumps(about))
    complaint(lambda: load(kind, tmp_path, model))
    assert hooks(model) == 0


def test_destinations_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at all")
    before = sorted(tmp_path.rglob("*"))
    for path, message in (
        (tmp_path / "file", "exists already"),
        (tmp_path / "full", "exists already"),
        (tmp_path / "file" / "below", "cannot write to"),
        (tmp_path / ("x" * 300), "cannot write to"),
        (tmp_path / "new" / ("x" * 300), "cannot write to"),
        (tmp_path / "dangling", "cannot write to"),
        (Path("/proc/memory"), "cannot write to"),
        (tmp_path / "nul\0", "cannot write to"),
    ):
        assert message in str(complaint(lambda path=path: check_destination(path)))  # type: ignore[misc]
    assert "bytes, but only" in str(complaint(lambda: check_destination(tmp_path / "m", 1 << 60)))
    check_destination(tmp_path / "a" / "b" / "c", 100)
    check_destination(tmp_path / "empty")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_was_learnt_is_kept_when_it_cannot_be_written(
    home: Path, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    (tmp_path / "file").touch()
    for kind in (DocumentMemory, InfiniteMemory):
        memory = kind.load(home, model)
        with pytest.raises(UserError, match="what was learnt is kept in") as said:
            memory.save(tmp_path / "file" / "below")
        memory.detach()
        kept = Path(str(said.value).split("kept in ")[1].split(": move")[0])
        assert kept.parent == spare
        kind.load(kept, model).detach()
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file", spare]
