"""Attached memories are saved, loaded and shared as models of `transformers` are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_families import build, logits, prompt, save_whole, speaking, texts
from local_hub import local_hub

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import DocumentMemory, InfiniteMemory
from mnemoscope.huggingface.config import Guidance
from mnemoscope.huggingface.loading import load_causal

PLAIN = Guidance(alpha=0.0)
TEXTS = {"kettle": "the kettle sang on the stove", "stove": "the stove sang the kettle on"}


def with_documents(model: Any) -> DocumentMemory:
    memory: DocumentMemory = ms.attach(model, "documents", entries=4)
    memory.fit(texts(2), PLAIN, epochs=2, silent=True)
    return memory


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer, in a folder."""
    folder = tmp_path_factory.mktemp("models") / "small"
    save_whole(folder, initializer_range=0.3)
    return folder


@pytest.mark.parametrize("kind", ["documents", "infinite", "transformer_xl"])
def test_a_memory_says_in_a_line_what_it_is_attached_to(kind: str) -> None:
    model = build("llama")
    short = {} if kind == "documents" else {"window": 8, "mem_len": 4}
    told = repr(ms.attach(model, kind, **short))
    assert "\n" not in told
    assert told.endswith(f"parameters of its own, attached to {type(model).__name__})")


@pytest.mark.parametrize("kind", ["documents", "infinite", "transformer_xl"])
def test_a_memory_is_two_files_and_comes_back_from_them(kind: str, tmp_path: Path) -> None:
    model = build("llama")
    memory: Any
    if kind == "documents":
        memory = with_documents(model)
    else:
        memory = speaking(ms.attach(model, kind, window=8, mem_len=4))
    known = DocumentMemory if kind == "documents" else InfiniteMemory
    read = model if kind == "documents" else memory

    def said() -> torch.Tensor:
        if kind != "documents":
            return logits(memory, prompt(2, 20))
        with memory.document(["text 0", "text 1"]):
            return logits(read, prompt(2, 20))

    expected = said()
    weights = memory.save_pretrained(tmp_path / "kept")
    config = next((tmp_path / "kept").glob("*_config.json"))
    assert sorted((tmp_path / "kept").iterdir()) == sorted([weights, config])
    about = json.loads(config.read_text())
    assert (about["format"], about["kind"]) == (1, kind)
    assert about["architecture"] == "LlamaForCausalLM"
    memory.detach()
    memory = known.from_pretrained(tmp_path / "kept", model)
    assert torch.equal(said(), expected)
    memory.detach()
    with pytest.raises(UserError, match="another base model"):
        known.from_pretrained(tmp_path / "kept", build("gpt2"))
    config.unlink()
    with pytest.raises(UserError, match=f"{config.name} is missing"):
        known.from_pretrained(tmp_path / "kept", model)


def moved(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a base and a memory that was saved with a path from where it was learnt."""
    project = tmp_path / "project"
    shutil.copytree(base, project / "small")
    monkeypatch.chdir(project)
    memory = with_documents(load_causal("small"))
    memory.save_pretrained("notes")
    return project


@pytest.mark.parametrize("name", ["small", "notes/model", "notes/inside", "another name"])
def test_a_moved_memory_finds_its_base_beside_it(
    name: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = moved(base, tmp_path, monkeypatch)
    # Another model of the same kind is there too, and comes first.
    save_whole(project / "a small one", initializer_range=0.2)
    away = tmp_path / "away"
    project.rename(away)
    monkeypatch.chdir(tmp_path)
    (away / "small").rename(away / name)
    memory = ms.load(away / "notes")
    assert isinstance(memory, DocumentMemory)
    assert memory.names == ["text 0", "text 1"]
    assert Path(memory.base.config._name_or_path) == away / name


def test_a_memory_whose_base_is_gone_asks_for_it_and_no_hub(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = moved(base, tmp_path, monkeypatch)
    shutil.rmtree(project / "small")
    said = r"no longer in .*small, nor beside the memory: give its folder as base="
    with pytest.raises(UserError, match=said):
        DocumentMemory.from_pretrained("notes")
    assert DocumentMemory.from_pretrained("notes", base).names
    assert DocumentMemory.from_pretrained("notes", str(base)).names


def test_a_base_that_learnt_is_saved_with_its_memory(base: Path, tmp_path: Path) -> None:
    model = load_causal(str(base))
    memory = ms.attach(model, "infinite", window=8, basis=8)
    memory.fit("the kettle sang " * 30, learn="all", steps=2, silent=True)
    memory.save_pretrained(tmp_path, base=True)
    again = InfiniteMemory.from_pretrained(tmp_path)
    tokens = prompt(1, 20)
    assert torch.equal(logits(again, tokens), logits(memory, tokens))
    assert again.text_tokenizer().encode("the kettle")


def test_a_memory_goes_to_a_hub_and_comes_back(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    memory = ms.attach(load_causal(str(base)), "documents", entries=4)
    memory.fit(TEXTS, PLAIN, epochs=1, silent=True)
    with local_hub() as (address, repositories):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        done = memory.push_to_hub("me/notes", token="hf_none", base=True)
        assert done.commit_url.startswith(f"{address}/me/notes/commit/")
        files = repositories["me/notes"]
        assert {"documents.safetensors", "documents_config.json", "README.md"} < set(files)
        assert b'DocumentMemory.from_pretrained("me/notes")' in files["README.md"]
        again = DocumentMemory.from_pretrained("me/notes")
        assert again.names == ["kettle", "stove"]
        with pytest.raises(UserError, match="cannot load the memory 'me/nothing'"):
            DocumentMemory.from_pretrained("me/nothing")
        with pytest.raises(UserError, match="cannot push the memory to 'not a name'"):
            memory.push_to_hub("not a name", token="hf_none")
