"""A saved state is all that a fresh process needs to continue, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from carriers import MEMORIES, VOCAB, causal, document_memory, infinite_memory, words
from complaints import complaint

from mnemoscope.fresh_process import Case, _continue, check_in_fresh_process
from mnemoscope.memories.rnn import RNNState
from mnemoscope.memories.state import write_tensors
from mnemoscope.open import open_stream

# Everything leaves a cache of 4 and is written again, but not in the last segment before the cut.
BEFORE, AFTER, SEGMENT = 19, 21, 3


def test_a_fresh_process_goes_on_bit_for_bit(tmp_path: Path) -> None:
    tokens, more = words(2, BEFORE), words(2, AFTER, seed=1)
    cases = [
        Case(name, tokens, more, SEGMENT, {"vocab": VOCAB, **options})
        for name, options in MEMORIES.values()
    ]
    for family in ("mistral", "mamba", "rwkv"):
        causal(family).save_pretrained(tmp_path / family)
        cases.append(Case(str(tmp_path / family), tokens, more, SEGMENT))
    memory = document_memory()
    memory.model.config._name_or_path = str(tmp_path / "llama")
    memory.model.save_pretrained(tmp_path / "llama")
    memory.save(tmp_path / "memory")
    attached = infinite_memory()
    attached.base.config._name_or_path = str(tmp_path / "gpt2")
    attached.base.save_pretrained(tmp_path / "gpt2")
    attached.save(tmp_path / "infinite")
    cases.append(Case(str(tmp_path / "infinite"), tokens, more, SEGMENT))
    cases.append(Case(str(tmp_path / "memory"), tokens, more, None, {"document": "two"}))
    found = check_in_fresh_process(cases)
    assert all(same for _, same in found), [
        case.source for case, (_, same) in zip(cases, found, strict=True) if not same
    ]
    state = found[-1][0]
    assert dict(state.tensors())["layers.0.document"].tolist() == [2, 2]
    plain = open_stream(memory.model).read(tokens).state
    assert state.nbytes - plain.nbytes == 2 * 8


def test_a_case_that_somebody_else_wrote_is_refused(tmp_path: Path) -> None:
    RNNState(torch.zeros(2, 3)).save(tmp_path / "state.safetensors")
    right = {"source": "rnn", "segment": None, "options": {"vocab": VOCAB}}
    for case in ("{", "[]", "{}", '{"source": 1}', json.dumps({**right, "options": 3})):
        tokens = {"tokens": words(2, 3)}
        write_tensors(tmp_path / "more.safetensors", tokens, {"case": case})
        assert "holds no case" in str(complaint(lambda: _continue(tmp_path)))
    write_tensors(tmp_path / "more.safetensors", tokens, {"case": json.dumps(right)})
    assert "holds a RNNState" in str(complaint(lambda: _continue(tmp_path)))
