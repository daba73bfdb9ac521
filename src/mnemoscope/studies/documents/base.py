"""A small language model, trained on half of CPython's help topics; `infinite` uses it too."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.core.bounded import read_sealed, write_sealed
from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.core.seeds import derive
from mnemoscope.data.documents import Document, read_documents
from mnemoscope.data.vocabulary import Merges
from mnemoscope.huggingface.loading import load_model
from mnemoscope.huggingface.quiet import quiet
from mnemoscope.studies.answers import file_digest
from mnemoscope.studies.notices import notice

if TYPE_CHECKING:
    from torch import Tensor

WIDTH, LAYERS, WORDS, POSITIONS = 96, 4, 1024, 512
LENGTH, ROWS, LR = 64, 16, 3e-3
WEIGHTS, SEAL = "model.safetensors", "sealed.json"


def halves() -> tuple[list[Document], list[Document]]:
    """The topics a model is trained on, and those it never sees, always the same ones."""
    topics = read_documents(None)
    order = np.random.default_rng(derive(0, "halves")).permutation(len(topics))
    seen = set(order[: len(topics) // 2].tolist())
    return (
        [topic for number, topic in enumerate(topics) if number in seen],
        [topic for number, topic in enumerate(topics) if number not in seen],
    )


def cut(topics: list[Document], tokenizer: Any, tokens: int) -> dict[str, list[int]]:
    """Texts of ``tokens`` token ids each, named after their topic, in an order that mixes them."""
    found: dict[str, list[int]] = {}
    for topic in topics:
        ids = list(tokenizer.encode(topic.text))
        for part, start in enumerate(range(0, len(ids) - tokens + 1, tokens), start=1):
            found[f"{topic.name} {part}"] = ids[start : start + tokens]
    names = list(found)
    order = np.random.default_rng(derive(0, "order")).permutation(len(names))
    return {names[number]: found[names[number]] for number in order}


def small_model(folder: Path, steps: int) -> tuple[Any, Any]:
    """Load the small model and its tokenizer, or train them once and leave them in ``folder``."""
    if not _is_whole(folder, steps):
        # Its notes on optional parts of itself, and bars that last a blink, concern nobody here.
        with quiet():
            _train(folder, steps)
    return load_model(str(folder))


def _is_whole(folder: Path, steps: int) -> bool:
    """Whether the model that lies there is the one that would be trained."""
    if not (folder / SEAL).exists():  # older versions left none
        return (folder / "config.json").is_file() and (folder / WEIGHTS).is_file()
    try:
        found = read_sealed(folder / SEAL, "the small model is trained again")
    except UserError as error:
        notice(f"{error}.")
        return False
    if found == {"steps": steps, "weights": file_digest(folder / WEIGHTS)}:
        return True
    notice(f"{folder} is damaged, or of other options: the small model is trained again.")
    return False


def _train(folder: Path, steps: int) -> None:
    import torch
    from transformers import PreTrainedTokenizerFast

    text = "\n\n".join(topic.text for topic in halves()[0])
    vocabulary = Merges.learn(text, WORDS)
    ids = torch.from_numpy(vocabulary.encode(text))
    model = untrained(vocabulary.size, WIDTH, LAYERS, POSITIONS, derive(0, "small model"))
    generator = torch.Generator().manual_seed(derive(0, "small batches"))

    def batch(step: int) -> Tensor:
        starts = torch.randint(len(ids) - LENGTH, (ROWS, 1), generator=generator)
        return ids[starts + torch.arange(LENGTH)]

    train(model, batch, steps, "small model")
    # Whole or not at all: whoever is killed here leaves no folder that looks finished.
    draft = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    PreTrainedTokenizerFast(tokenizer_object=vocabulary._tokenizer).save_pretrained(draft)
    model.save_pretrained(draft)
    write_sealed(draft / SEAL, {"steps": steps, "weights": file_digest(draft / WEIGHTS)})
    if not folder.exists():
        draft.rename(folder)
        return
    # By these two a folder is known as whole: they come last.
    for path in sorted(draft.iterdir(), key=lambda path: (path.name in (WEIGHTS, SEAL), path.name)):
        path.replace(folder / path.name)
    draft.rmdir()


def untrained(vocab: int, width: int, layers: int, positions: int, seed: int) -> Any:
    """A GPT-NeoX of `transformers` with four heads."""
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=positions,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return GPTNeoXForCausalLM(config)


def train(model: Any, batch: Callable[[int], Tensor], steps: int, label: str) -> None:
    """Train a language model of `transformers` on what ``batch(step)`` gives, (R, T)."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1)
    with progress(label, steps) as show:
        for step in range(steps):
            for group in optimizer.param_groups:
                warm = min(1.0, (step + 1) / 40)
                group["lr"] = LR * warm * (0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2)
            tokens = batch(step)
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            show(step + 1, f"loss {float(loss.detach()):.2f}")
