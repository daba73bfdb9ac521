from pathlib import Path

import pytest

import mnemoscope as ms
from mnemoscope.core.aliases import NAMES
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS, MEMORIES, TASKS, find, name_of
from mnemoscope.core.trust import trusting
from mnemoscope.memories.config import ModelConfig
from mnemoscope.memories.gru import GRU
from mnemoscope.memories.lstm import LSTM
from mnemoscope.memories.rnn import RNN
from mnemoscope.memories.transformer.config import Transformer
from mnemoscope.models.model import build


@pytest.mark.parametrize(
    ("name", "kind"), [("rnn", RNN), ("lstm", LSTM), ("gru", GRU), ("transformer", Transformer)]
)
def test_a_name_finds_its_config(name: str, kind: type[ModelConfig]) -> None:
    assert find("memory", name) is kind
    assert kind(vocab=5).memory == name


def test_every_registered_memory_and_task_loads() -> None:
    for kind, table in (("memory", MEMORIES), ("task", TASKS)):
        for name, entry in table.items():
            assert isinstance(find(kind, name), type)
            assert entry.line


def test_a_path_finds_what_nobody_registered() -> None:
    with trusting("mnemoscope.memories.gru"):
        assert find("memory", "mnemoscope.memories.gru:GRU") is GRU


def test_a_class_finds_its_name() -> None:
    for kind in ("memory", "translator", "encoder"):
        for name in KINDS[kind]:
            assert name_of(find(kind, name)) == name


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown memory 'lsmt'; did you mean 'lstm'"):
        find("memory", "lsmt")
    with pytest.raises(
        UserError, match=f"unknown memory 'zzz'; known: {', '.join(sorted(MEMORIES))}"
    ):
        find("memory", "zzz")


@pytest.mark.parametrize(
    ("kind", "old", "new"), [(kind, *names) for kind in KINDS for names in NAMES[kind].items()]
)
def test_old_names_are_understood(kind: str, old: str, new: str) -> None:
    assert find(kind, old) is find(kind, new)
    assert find(kind, old.upper().replace("_", "-")) is find(kind, new)


def test_one_word_is_another_model_where_there_is_a_source() -> None:
    assert type(ms.build("transformer", vocab=5).config) is find("memory", "transformer")
    translator = ms.build("transformer", vocab=5, source_vocab=5)
    assert type(translator.config) is find("translator", "encoder_decoder")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.module:Thing", r"No module named 'no'\. Install it, or .* on PYTHONPATH"),
        ("mnemoscope.memories.gru:Thing", "has no attribute 'Thing'"),
    ],
)
def test_a_path_that_leads_nowhere(path: str, message: str) -> None:
    with (
        trusting(path.partition(":")[0]),
        pytest.raises(UserError, match=f"cannot load memory '{path}' .*{message}"),
    ):
        find("memory", path)


OLDER = """
import torch
from torch import nn
from mnemoscope.memories.state import State
from mnemoscope.models.config import ModelConfig
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.positions import Positions

class Plain(nn.Module):
    def forward(self, vectors, state, context):
        return vectors, State()

class Older(ModelConfig):
    memory: str = "older"

    def build(self) -> SequenceModel:
        layers = [Plain() for _ in range(self.layers)]
        return SequenceModel(self, layers, Positions("none", self.width), norm=False)
"""


def test_a_memory_that_was_written_for_version_0_1_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "older_memory.py").write_text(OLDER)
    monkeypatch.syspath_prepend(tmp_path)
    model = ms.build("older_memory:Older", vocab=5, layers=3, trust="older_memory")
    assert len(build(model.config).layers) == len(model.layers) == 3


def test_a_memory_without_layers_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match=r"ModelConfig must define layer\(index\)"):
        ModelConfig(memory="none", vocab=5).build()


@pytest.mark.parametrize("path", [":x", ".a:b", "a..b:c", "mnemoscope.memories.gru:", "a b:c"])
def test_a_path_that_is_none(path: str) -> None:
    with pytest.raises(UserError, match="not a path of the form"):
        find("memory", path)
