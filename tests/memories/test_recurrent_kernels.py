from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from mnemoscope.core.registry import find
from mnemoscope.memories.gru import GRU
from mnemoscope.memories.kernels import _runs, fuses
from mnemoscope.models.seq2seq.recurrent import unfused

# Read when torch is loaded: what a processor without AVX-512, and one without AVX, would do.
OLDER = {
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "SSE": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
}
LENGTHS = [5, 2, 4]


def kernel_of(name: str, **options: Any) -> nn.RNNBase:
    torch.manual_seed(3)
    kernel: nn.RNNBase = find("memory", name).cell.kernel(
        3, 4, batch_first=True, dtype=torch.float64, **options
    )
    return kernel


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_our_cells_stand_in_for_a_kernel(
    name: str, both_ways: bool, layers: int, padded: bool
) -> None:
    kernel = kernel_of(name, num_layers=layers, bidirectional=both_ways)
    vectors = torch.randn(3, 5, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None] if padded else None
    given: Any = vectors
    if padded:
        given = pack_padded_sequence(vectors, LENGTHS, batch_first=True, enforce_sorted=False)
    words, last = kernel(given)
    if padded:
        words, _ = pad_packed_sequence(words, batch_first=True)
    theirs = [words, *(last if isinstance(last, tuple) else (last,))]
    outputs, ends = unfused(find("memory", name).cell, kernel, vectors, mask)
    ours = [outputs, *ends]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)

    def slopes(found: list[Tensor]) -> tuple[Tensor, ...]:
        wanted = [torch.linspace(1, 2, one.numel()).view_as(one).to(one) for one in found]
        return torch.autograd.grad(found, [vectors, *kernel.parameters()], wanted)

    torch.testing.assert_close(slopes(ours), slopes(theirs), rtol=0, atol=1e-10)


def test_between_layers_and_only_in_training_the_stand_in_drops() -> None:
    kernel = kernel_of("gru", num_layers=2, dropout=0.5)
    vectors = torch.randn(3, 5, 3, dtype=torch.float64)
    cell = GRU.cell
    kernel.eval()
    whole, _ = unfused(cell, kernel, vectors, None)
    assert torch.equal(whole, unfused(cell, kernel, vectors, None)[0])
    kernel.train()
    dropped, _ = unfused(cell, kernel, vectors, None)
    assert not torch.equal(whole, dropped)
    assert (dropped != 0).all()  # not behind the last layer


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_a_model_learns_in_half_precision_whatever_kernels_there_are(
    name: str, low: torch.dtype
) -> None:
    # For float16 under autocast, oneDNN has no LSTM on most processors.
    torch.manual_seed(0)
    model = find("memory", name).make(vocab=7, width=8, layers=2).build()
    tokens = torch.randint(7, (3, 6))
    with torch.autocast("cpu", low):
        out = model(tokens, model(tokens).state)
    out.logits.float().square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    exact = model(tokens, model(tokens).state).logits
    torch.testing.assert_close(out.logits.float(), exact, atol=0.05, rtol=0.05)


def test_trying_leaves_no_trace() -> None:
    kernel = nn.LSTM(3, 4).bfloat16()
    _runs.cache_clear()
    torch.manual_seed(5)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        found = fuses(kernel)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))
    assert counter.get_total_flops() == 0
    assert found == fuses(kernel)
    assert _runs.cache_info().misses == 1


def test_ordinary_numbers_are_never_tried() -> None:
    _runs.cache_clear()
    assert fuses(nn.LSTM(3, 4))
    assert fuses(nn.GRU(3, 4).double())
    assert _runs.cache_info().misses == 0


OLD_PROCESSOR = """
import sys
from pathlib import Path
import torch
from mnemoscope.activations.capture import capture
from mnemoscope.core.registry import find
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import train

def close(near, exact, name):
    assert torch.isfinite(near).all(), name
    assert (near.float() - exact).abs().mean() < 0.1 * exact.abs().mean(), name

tokens = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(0))
mask = torch.arange(6) < torch.tensor([[6], [3], [5]])
for memory in ("lstm", "gru", "rnn"):
    torch.manual_seed(0)
    model = find("memory", memory).make(vocab=7, width=8, layers=2).build()
    exact = model(tokens, model(tokens).state).logits
    with torch.autocast("cpu", torch.bfloat16):
        out = model(tokens, model(tokens).state)
        with capture(model, "layers.0.gates") as seen:
            watched = model(tokens, model(tokens).state)
    close(out.logits, exact, memory)
    close(watched.logits, exact, memory)
    assert seen["layers.0.gates"].isfinite().all()
    out.logits.float().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    close(model.bfloat16()(tokens).logits, model.float()(tokens).logits, memory)

for translator in ("vector", "bahdanau", "luong"):
    for cell in ("lstm", "gru", "rnn"):
        torch.manual_seed(0)
        sizes = {"vocab": 7, "source_vocab": 7, "width": 8, "layers": 2, "cell": cell}
        model = find("translator", translator).make(**sizes).build().eval()
        for hidden in (None, mask):
            exact = model(tokens, model.encode(tokens, hidden)).logits
            with torch.autocast("cpu", torch.bfloat16):
                out = model(tokens, model.encode(tokens, hidden))
            close(out.logits, exact, f"{translator} {cell}")
            out.logits.float().sum().backward()

config = RunConfig.of("copy", "lstm", {
    "symbols": 4, "lag": 2, "width": 8, "layers": 1, "batch": 4, "steps": 2,
    "precision": "bfloat16", "device": "cpu"})
run = train(config, Path(sys.argv[1]) / "run", silent=True)
assert run.finished
print(torch.backends.cpu.get_cpu_capability())
"""


@pytest.mark.parametrize("processor", OLDER)
def test_bfloat16_on_an_older_processor(processor: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OLD_PROCESSOR, str(tmp_path)],
        env={**os.environ, **OLDER[processor]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore")  # torch warns of itself
def test_a_compiled_model_reads_with_our_cells_too() -> None:
    torch.manual_seed(0)
    model = find("memory", "lstm").make(vocab=7, width=8, layers=1).build()
    tokens = torch.randint(7, (2, 3))
    mask = torch.tensor([[True, True, True], [True, True, False]])  # no kernel takes one
    found = []
    for read in (model, torch.compile(model, backend="aot_eager")):
        model.zero_grad()
        logits = read(tokens, None, mask).logits
        logits[mask].square().sum().backward()
        found.append([logits[mask].detach(), *(weight.grad for weight in model.parameters())])
    torch.compiler.reset()
    torch.testing.assert_close(*found)
