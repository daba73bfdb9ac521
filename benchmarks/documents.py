"""Learning documents from kept hidden states against running the whole model at every step."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.measure import Row, compared, interleave
from mnemoscope.huggingface.config import DocumentOptions, Fitting, Guidance
from mnemoscope.huggingface.documents.fitting import Course
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.texts import Documents

TITLE = "Learning documents: kept hidden states against the hooked model"
SETTING = (
    "GPT-NeoX with random weights, width 256, 4 blocks, vocabulary 2048; a step learns 16 segments "
    "of 64 tokens under the right and a wrong document, forward and backward. *Hooked* runs the "
    "whole base, *ours* only what is above the memory; losses are checked to agree within 1e-6."
)
WIDTH, BLOCKS, WORDS, ROWS, LENGTH, ROUNDS = 256, 4, 2048, 16, 64, 7


def run(quick: bool) -> list[Row]:
    """Compare at the last, a middle and the first block."""
    cases = {"cached_vs_hooked": -1, "cached_vs_hooked_block_1": 1, "cached_vs_hooked_block_0": 0}
    return [_compare(key, layer, quick) for key, layer in cases.items()]


def _compare(key: str, layer: int, quick: bool) -> Row:
    courses = {name: _course(layer, name == "ours", quick) for name in ("ours", "hooked")}
    rows = torch.arange(len(courses["ours"].owner))

    def step(name: str) -> torch.Tensor:
        course = courses[name]
        course.generator.manual_seed(0)
        right, pushed, _ = course.both_terms(rows)
        course.store.zero_grad()
        torch.autograd.backward(right + pushed)
        return right.detach()

    torch.testing.assert_close(step("ours"), step("hooked"), atol=1e-6, rtol=0)
    times = interleave({name: partial(step, name) for name in courses}, 3 if quick else ROUNDS)
    where = {-1: f"behind the last of {BLOCKS} blocks"}.get(layer, f"behind block {layer}")
    goal = "≥ 2" if layer == -1 else ""
    return compared(key, f"one step, memory {where}", times, theirs="hooked", goal=goal)


def _course(layer: int, keep: bool, quick: bool) -> Course:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    torch.manual_seed(0)
    shrink = 4 if quick else 1
    config = GPTNeoXConfig(
        vocab_size=WORDS // shrink,
        hidden_size=WIDTH // shrink,
        intermediate_size=4 * WIDTH // shrink,
        num_hidden_layers=BLOCKS,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = GPTNeoXForCausalLM(config).eval()
    ids = torch.randint(WORDS // shrink, (ROWS // shrink, LENGTH))
    given = Documents({f"text {n}": row.tolist() for n, row in enumerate(ids)}, segment=LENGTH)
    memory = DocumentMemory(model, DocumentOptions(layer=layer))
    memory.start(given)
    with torch.no_grad():
        memory.store.values.normal_(std=0.1)
    reader = Reader(memory, given, keep=keep)
    return Course(memory, reader, given, Guidance(), 6.0, Fitting())
