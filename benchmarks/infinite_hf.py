"""Memories on a Llama: reading against bare windows, training on kept hidden states."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.measure import Row, compared, interleave
from mnemoscope.core.statistics import Interval
from mnemoscope.huggingface.config import InfiniteFitting, InfiniteOptions
from mnemoscope.huggingface.infinite.hidden_states import states_below
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.infinite.streams import stretches

TITLE = "Memories attached to a Llama: reading, and training on kept hidden states"
SETTING = (
    "Llama with random weights and SmolLM2's proportions (width 576, 9 heads, 3 of them with "
    "keys). *Reading*: 30 blocks and a vocabulary of 49 152, as SmolLM2 has; 2 texts of 1024 "
    "tokens in windows of 128, with the sticky ∞-former of 256 vectors in every layer, read by "
    "the model's own attention; *theirs* is the bare model on windows of 128 that do not "
    "overlap. *Training*: 12 blocks, vocabulary 4096; one step of densities in the upper third, "
    "in one block of it or in all four, 8 texts of 64 tokens; *hooked* runs the whole base, "
    "*ours* what is above the kept hidden states; losses are checked to agree within 1e-5. A "
    "hooked step goes forward through all blocks and back to the lowest with a memory, so with "
    "four of them keeping cannot make it twice as fast: 12 + 4 blocks against 4 + 4, and the "
    "readout. *Flat*: bytes of the state after 200 000 tokens over those after the first window, "
    "on a Llama of 2 blocks."
)
WIDTH, HEADS, BLOCKS, WORDS, ROUNDS, FAR = 576, 9, 12, 4096, 5, 200_000
SMOLLM2 = 30, WIDTH, HEADS, 49_152


def run(quick: bool) -> list[Row]:
    """Reading, a step of training, and how much a state grows."""
    blocks = 3 if quick else BLOCKS
    third = tuple(range(2 * blocks // 3, blocks))
    return [
        _reading(quick),
        _training(quick, "kept_vs_hooked", (third[len(third) // 2],), goal="≥ 2"),
        _training(quick, "kept_vs_hooked_third", third),
        _flat(quick),
    ]


def _llama(blocks: int, width: int, heads: int, words: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=blocks,
        num_attention_heads=heads,
        num_key_value_heads=heads // 3,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def _sized(quick: bool) -> Any:
    return _llama(3, 48, 3, 64) if quick else _llama(BLOCKS, WIDTH, HEADS, WORDS)


@torch.no_grad()
def _reading(quick: bool) -> Row:
    model = _sized(quick) if quick else _llama(*SMOLLM2)
    rows, window, basis, length = (2, 8, 16, 64) if quick else (2, 128, 256, 1024)
    options = InfiniteOptions.make(window=window, basis=basis, joint=True, sticky=True, sinks=4)
    memory = InfiniteMemory(model, options)
    tokens = torch.randint(3, model.config.vocab_size, (rows, length))

    def ours() -> None:
        state = None
        for piece in torch.split(tokens, window, 1):
            state = memory(piece, state).state

    def bare() -> None:
        for piece in torch.split(tokens, window, 1):
            model(piece)

    times = interleave({"ours": ours, "theirs": bare}, 3 if quick else ROUNDS)
    memory.detach()
    return compared(
        "reading_time_vs_bare", f"reading in windows of {window}, time / bare windows", times,
        goal="≤ 1.15", tokens=rows * length, slower=True,
    )  # fmt: skip


def _training(quick: bool, key: str, upper: tuple[int, ...], goal: str = "") -> Row:
    model = _sized(quick)
    blocks = len(model.model.layers)
    rows, window = (2, 8) if quick else (8, 64)
    options = InfiniteOptions.make(
        window=window, mem_len=window, sinks=4, basis=window, layers=upper
    )
    memory = InfiniteMemory(model, options)
    for index in range(len(upper)):
        reader = memory.reader(index)
        torch.nn.init.normal_(reader.longterm.out.weight, std=0.02)
    texts = [torch.randint(3, model.config.vocab_size, (2 * window + 1,)) for _ in range(rows)]
    fitting = InfiniteFitting.make(steps=2, cache="on", silent=True)
    kept = states_below(memory, texts, rows, upper[0], fitting)
    assert kept is not None
    read = stretches(texts, rows, window)
    first, second = next(read), next(read)
    with torch.no_grad():
        state = memory.read(first.tokens)

    def step(name: str) -> torch.Tensor:
        memory.zero_grad()
        if name == "hooked":
            out = memory(second.tokens, state)
        else:
            with kept.of(second, window):
                out = memory(second.tokens, state)
        loss = F.cross_entropy(out.logits.flatten(0, 1), second.targets.flatten())
        torch.autograd.backward(loss)
        return loss.detach()

    torch.testing.assert_close(step("ours"), step("hooked"), atol=1e-5, rtol=0)
    times = interleave(
        {name: partial(step, name) for name in ("ours", "hooked")}, 3 if quick else ROUNDS
    )
    memory.detach()
    where = f"block {upper[0] + 1}" if len(upper) == 1 else f"the upper {len(upper)}"
    what = f"one step, memory in {where} of {blocks} blocks"
    return compared(key, what, times, theirs="hooked", goal=goal)


def _flat(quick: bool) -> Row:
    memory = InfiniteMemory(
        _llama(2, 48, 3, 64),
        InfiniteOptions.make(window=64, basis=128, joint=True, sticky=True, sinks=4),
    )
    far = 1024 if quick else FAR
    state = memory.read(torch.randint(3, 64, (1, 64)))
    first = state.nbytes
    for length in (far // 4, far // 2, far - far // 4 - far // 2 - 64):
        state = memory.read(torch.randint(3, 64, (1, length)), state)
    assert state.count is not None
    assert int(state.count[0]) == far
    memory.detach()
    ratio = state.nbytes / first
    return Row(
        "state_after_200k_vs_first_window", f"bytes of the state after {far:,} tokens",
        f"{state.nbytes:,} bytes", f"{first:,} bytes", Interval(ratio, ratio, ratio), "≤ 1",
    )  # fmt: skip
