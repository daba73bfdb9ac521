"""Tiny causal language models of five families, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory

transformers = pytest.importorskip("transformers")

FAMILIES = ("gpt2", "gpt_neox", "llama", "qwen2", "opt")
WORDS, WIDTH, LAYERS = 60, 32, 3


def build(family: str, layers: int = LAYERS, **options: Any) -> Any:
    shared: dict[str, Any] = {"vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2}
    shared |= {"pad_token_id": 0}
    plain: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
    }
    match family:
        case "gpt2":
            own = {"n_embd": WIDTH, "n_layer": layers, "n_head": 4, "n_positions": 128}
            kind = transformers.GPT2LMHeadModel, transformers.GPT2Config
        case "gpt_neox":
            own = plain | {"intermediate_size": 48}
            kind = transformers.GPTNeoXForCausalLM, transformers.GPTNeoXConfig
        case "llama":
            own = plain | {"intermediate_size": 48, "num_key_value_heads": 2}
            kind = transformers.LlamaForCausalLM, transformers.LlamaConfig
        case "qwen2":
            own = plain | {"intermediate_size": 48, "num_key_value_heads": 2}
            kind = transformers.Qwen2ForCausalLM, transformers.Qwen2Config
        case _:
            own = plain | {"ffn_dim": 48, "word_embed_proj_dim": WIDTH, "dropout": 0.1}
            kind = transformers.OPTForCausalLM, transformers.OPTConfig
    torch.manual_seed(0)
    model = kind[0](kind[1](**shared, **own, **options))
    # Weights of 0.02 make logits so flat that every generation is a tie.
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(8)
    return model.eval()


def texts(count: int = 4, length: int = 24, seed: int = 0) -> dict[str, list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return {
        f"text {number}": torch.randint(3, WORDS, (length,), generator=generator).tolist()
        for number in range(count)
    }


def prompt(rows: int = 2, length: int = 5, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, WORDS, (rows, length), generator=generator)


# A long-term memory that fits these prompts.
LONG_TERM: dict[str, Any] = {"window": 8, "basis": 8}


def speaking(memory: InfiniteMemory) -> InfiniteMemory:
    """Let a memory that has learnt nothing say something."""
    torch.manual_seed(3)
    reader: Any
    for reader in memory.readers:
        torch.nn.init.normal_(reader.longterm.out.weight, std=0.3)
    return memory


def assert_rows_are_streams(memory: InfiniteMemory) -> None:
    """Padded on either side, cut anywhere, reset and picked, a row reads as it would alone."""
    tokens = prompt(3, 41)
    lengths = [[5, 8, 0], [12, 3, 17], [1, 20, 2], [9, 4, 22]]
    generator = torch.Generator().manual_seed(0)
    state: Any = None
    begin = [0, 0, 0]
    found: list[list[torch.Tensor]] = [[], [], []]
    with torch.no_grad():
        for segment in lengths:
            width = max(segment) + 2
            mask = torch.stack([torch.randperm(width, generator=generator) < n for n in segment])
            fed = torch.full((3, width), 7)
            for row, (start, count) in enumerate(zip(begin, segment, strict=True)):
                fed[row, mask[row]] = tokens[row, start : start + count]
            out = memory(fed, state, mask)
            state = out.state
            for row in range(3):
                found[row].append(out.logits[row, mask[row]])
            begin = [start + count for start, count in zip(begin, segment, strict=True)]
        assert state.count.tolist() == begin
        alone = [memory(tokens[row : row + 1, : begin[row]]) for row in range(3)]
        for row in range(3):
            torch.testing.assert_close(
                torch.cat(found[row]), alone[row].logits[0], atol=1e-4, rtol=1e-4
            )
        more = prompt(2, 19, seed=4)
        after = memory(more, state.select([2, 0]).reset([1])).logits
        torch.testing.assert_close(
            after[:1], memory(more[:1], alone[2].state).logits, atol=1e-4, rtol=1e-4
        )
        torch.testing.assert_close(after[1:], memory(more[1:]).logits, atol=1e-4, rtol=1e-4)


def save_whole(
    folder: Path,
    words: str = "the kettle sang on the stove",
    most_tokens: int = 270,
    **options: Any,
) -> Any:
    """Write a tiny Llama and a tokenizer that fits it to a folder; returns the model."""
    from mnemoscope.data.vocabulary import Merges
    from mnemoscope.huggingface.quiet import quiet

    vocabulary = Merges.learn(words, most_tokens)
    given: dict[str, Any] = {"vocab_size": vocabulary.size, "hidden_size": 16}
    given |= {"intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    given |= {"max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**given | options)).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary._tokenizer)
    with quiet():
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return model


def save_encoder(folder: Path, words: str) -> None:
    """Write a tiny BERT that fills in words, and a tokenizer that fits it, to a folder."""
    from mnemoscope.data.vocabulary import Merges
    from mnemoscope.huggingface.quiet import quiet

    vocabulary = Merges.learn(words, 300)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabulary._tokenizer, mask_token="[MASK]", pad_token="[PAD]"
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    with quiet():
        tokenizer.save_pretrained(folder)
        transformers.BertForMaskedLM(config).eval().save_pretrained(folder)


def logits(model: Any, tokens: torch.Tensor, **options: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(tokens, **options).logits
    return found
