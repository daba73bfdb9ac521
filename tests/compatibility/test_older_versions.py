"""Folders that an older version wrote open, continue to the weights it would have reached, redraw.

`write_folders.py` beside this file wrote them, one thread on an Intel processor with AVX-512: there
the bits are the same, elsewhere sums are rounded differently.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import mnemoscope as ms
from mnemoscope.memories.state import State, read_tensors

# As small as these models are, their signals waste functions, and say so.
pytestmark = pytest.mark.filterwarnings("ignore:of the .* basis functions")
VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in Path(__file__).parent.glob("*.gz"))
RUNS = ["rnn", "lstm", "gru", "attention", "cache", "compressive", "infinite", "sparse"]
RUNS += ["bahdanau", "transformer", "encoder"]
STATES = [*RUNS[:8], "vector", "bahdanau", "luong", "transformer"]
OPTIONS = {"attention": {"heads": 2, "context": 16}, "cache": {"heads": 2, "cached": 8}}
OPTIONS |= {"compressive": {"heads": 2, "cached": 4, "compressed": 4, "rate": 2}}
OPTIONS |= {"sparse": {"heads": 2, "stride": 4, "summaries": 1, "context": 16}}
OPTIONS |= {"transformer": {"heads": 2}}

# The same instructions are not enough: libraries choose other sums for other makers.
_CPU = Path("/proc/cpuinfo")
WRITER = (
    torch.backends.cpu.get_cpu_capability() == "AVX512"
    and _CPU.exists()
    and "GenuineIntel" in _CPU.read_text()
)

# Computed otherwise since, in another order of rounding: looks' gradients of the ∞-former, and the
# readout of an encoder, which is of the tokens that are asked for alone.
ROUNDED = ["infinite", "encoder"]


@pytest.fixture(scope="module", params=VERSIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a version left, in a folder of its own."""
    folder = tmp_path_factory.mktemp(f"version-{request.param}")
    with tarfile.open(Path(__file__).parent / f"{request.param}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def home(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in; runs name their texts from where they were started."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def alike(found: dict[str, Tensor], expected: dict[str, Tensor], bits: bool = True) -> bool:
    same = bits and WRITER and torch.get_num_threads() == 1
    if same and torch.__version__.startswith("2.13.0"):
        return all(torch.equal(found[name], one) for name, one in expected.items())
    return all(torch.allclose(found[name], one, atol=1e-4) for name, one in expected.items())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_stopped_half_way_ends_as_it_would_have(home: Path, name: str) -> None:
    run = ms.resume(f"half-{name}")
    expected, _ = read_tensors(home / f"half-{name}" / "ends.safetensors")
    assert run.finished
    assert set(run.model().state_dict()) == set(expected)
    assert alike(run.model().state_dict(), expected, bits=name not in ROUNDED)
    if name == "infinite":  # the only fit there was
        assert (run.config.model.fit, run.config.model.penalty) == ("count", 0.5)  # type: ignore[attr-defined]


def test_a_finished_run_opens(home: Path) -> None:
    model = ms.load("finished-gru")
    assert model(torch.zeros(1, 3, dtype=torch.long)).logits.shape[:2] == (1, 3)
    assert ms.resume("finished-gru").finished


@pytest.mark.parametrize("name", STATES)
def test_a_state_goes_on(home: Path, name: str) -> None:
    known = load_file(f"goes-on-{name}.safetensors")
    options: dict[str, Any] = {**OPTIONS.get(name, {}), "vocab": 11, "width": 8, "layers": 1}
    if name == "infinite":
        options |= {"heads": 2, "cached": 4, "chunk": 4, "basis": 6, "sticky": True}
        options["fit"] = "count"  # the only one there was
    if name in STATES[8:]:
        options |= {"source_vocab": 11} | ({"cell": "lstm"} if name == "bahdanau" else {})
    model = ms.build(name, **options).eval()
    weights = {key: one for key, one in known.items() if key.startswith("model.")}
    model.load_state_dict({key.removeprefix("model."): one for key, one in weights.items()})
    with torch.no_grad():
        out = model(known["tokens"][:, 15:], State.load(f"state-{name}.safetensors"))
    assert alike({"logits": out.logits}, {"logits": known["logits"]})


def test_attached_memories_open(home: Path) -> None:
    from mnemoscope.huggingface.documents.memory import DocumentMemory
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory
    from mnemoscope.huggingface.loading import load_model

    tokens = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10, 3, 4, 5]])
    model, _ = load_model("base")
    memory = DocumentMemory.load("documents", model)
    with memory.document("cat"):
        named = model(tokens).logits
    assert sorted(memory.names) == ["cat", "dog"]
    assert not torch.equal(named, model(tokens).logits)
    memory.detach()
    for name in ("infinite", "cache"):
        model, _ = load_model("base")
        endless = InfiniteMemory.load(f"endless-{name}", model)
        assert endless(tokens).logits.shape == (1, 11, model.config.vocab_size)
        assert endless.config.fit == "count"
        endless.detach()


def test_a_finished_study_is_drawn_again_without_a_training(home: Path) -> None:
    folder = home / "study-finished"
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/model.safetensors")}
    page = ms.study("lag", out=folder, jobs=1, **STUDY).page
    assert before
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "How long do they remember?" in page.read_text()


def test_a_study_that_was_cut_off_ends_with_the_same_numbers(home: Path) -> None:
    whole = ms.study("lag", out=home / "study-finished", jobs=1, **STUDY).result
    again = ms.study("lag", out=home / "study-half", jobs=1, **STUDY).result
    assert [len(whole.trainings), len(again.trainings)] == [6, 6]
    for one, other in zip(whole.trainings, again.trainings, strict=True):
        assert (one.memory, one.lr, one.seed) == (other.memory, other.lr, other.seed)
        assert one.asked.accuracy == other.asked.accuracy


STUDY: dict[str, Any] = {
    "memories": ("gru", "lstm"),
    "parameters": 1000,
    "trained": 2,
    "tested": (1, 2),
}
STUDY |= {"steps": 3, "batch": 2, "learning_rates": (1e-2,), "episodes": 4}
