"""What a user types: `load` opens whatever was saved, `show` draws, and results print short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from carriers import causal, document_memory
from complaints import complaint

import mnemoscope as ms
from mnemoscope.core.data import to_plain
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.studies.lag.result import LagResult


def test_load_opens_a_run_a_state_a_model_and_a_memory(tmp_path: Path) -> None:
    run = ms.train("copy", "gru", out=tmp_path / "run", steps=1, width=8, batch=2)
    model = ms.load(run.folder)
    out = model(torch.zeros(2, 3, dtype=torch.long))
    out.state.save(tmp_path / "state.safetensors")
    again = ms.load(tmp_path / "state.safetensors")
    assert again.nbytes == out.state.nbytes
    memory: Any = document_memory()
    memory.save(tmp_path / "memory")
    assert isinstance(ms.load(tmp_path / "memory", base=causal("llama")), DocumentMemory)
    theirs = causal("llama")
    theirs.save_pretrained(tmp_path / "theirs")
    assert type(ms.load(tmp_path / "theirs")) is type(theirs)
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.yaml").touch()
    assert "without a result yet" in str(complaint(lambda: ms.load(tmp_path / "study")))


def test_show_draws_a_shipped_result_and_load_reads_it(tmp_path: Path) -> None:
    shown = ms.show("lag", tmp_path / "page")
    assert shown.page.is_file()
    assert isinstance(shown.result, LagResult)
    from mnemoscope.shipped import home

    for path in (next((home() / "lag").glob("result.json*")), home() / "lag"):
        loaded = ms.load(path)
        assert isinstance(loaded, LagResult)
        assert to_plain(loaded) == to_plain(shown.result)
    # Its name is none of a model: no hub is asked for it.
    assert "ms.show('lag').result" in str(complaint(lambda: ms.load("lag")))


@pytest.mark.parametrize("memory", ["gru", "lstm", "transformer", "infinite"])
def test_outputs_and_states_print_shapes_and_bytes_not_numbers(memory: str) -> None:
    found = ms.build(memory, vocab=20, width=16)(torch.zeros(2, 70, dtype=torch.long))
    assert "logits (2, 70, 20)" in repr(found)
    assert f"{found.state.nbytes:,} bytes" in repr(found)
    assert len(repr(found.state)) < 400
    assert "tensor(" not in repr(found.state)
    table = found.state._repr_html_()
    assert all(name in table for name, _ in found.state.tensors())


def test_what_calls_return_is_a_small_table_in_a_notebook(tmp_path: Path) -> None:
    model = ms.build("transformer", vocab=20, width=16, layers=2)
    out = model(torch.zeros(2, 3, dtype=torch.long))
    table = out._repr_html_()
    assert "<td>logits</td><td>(2, 3, 20)</td><td>float32</td><td>480</td>" in table
    assert all(f"<td>state.{name}</td>" in table for name, _ in out.state.tensors())
    said = ms.generate(model, [1, 2, 3], 4)
    assert "tokens (1, 4)" in repr(said)
    (seen,) = ms.capture(model, [[1, 2, 3]], sites="layer.*.out")
    assert "tokens (3,)" in repr(seen)
    shown = ms.show("lag", tmp_path / "page")
    assert len(repr(shown)) < 400 + len(str(tmp_path))
    assert "LagResult(waits 11 items" in repr(shown)
    assert (tmp_path / "page" / "report.html").as_uri() in shown._repr_html_()
    assert "<td>models</td>" in shown._repr_html_()
    run = ms.train("copy", "gru", out=tmp_path / "run", steps=1, width=8, batch=2)
    assert repr(run) == f"Run({tmp_path / 'run'}: copy · gru)"
    assert len(table) + len(shown._repr_html_()) < 5000
