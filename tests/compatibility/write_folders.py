"""Wrote the folders beside this file, with the version they are named after; kept for the record.

Run in an empty folder with the code of that version; later versions must open what it left.
Of every run that is stopped half-way, ``ends.safetensors`` holds the weights it ends with.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import mnemoscope as ms

TEXT = "the cat sat on the mat and the dog sat on the cat; then the mat was flat. " * 8
PAIRS = "".join(f"{a} {b}\t{b.upper()} {a.upper()}\n" for a in "abcdef" for b in "uvwxyz")
SMALL: dict[str, Any] = {"width": 8, "layers": 1, "batch": 2, "steps": 4, "checkpoint_every": 2}
SMALL |= {"evaluate_every": 2, "evaluate_batches": 1, "warmup": 1, "keep": 1}
HEADS = {"heads": 2}
MEMORIES: dict[str, dict[str, Any]] = {
    "rnn": {},
    "lstm": {},
    "gru": {},
    "attention": {**HEADS, "context": 16},
    "cache": {**HEADS, "cached": 8},
    "compressive": {**HEADS, "cached": 4, "compressed": 4, "rate": 2},
    "infinite": {**HEADS, "cached": 4, "chunk": 4, "basis": 6, "sticky": True},
    "sparse": {**HEADS, "stride": 4, "summaries": 1, "context": 16},
}
TRANSLATORS = {"vector": {}, "bahdanau": {"cell": "lstm"}, "luong": {}, "transformer": HEADS}


def halve(run: Any) -> None:
    """Take the end of a finished run away, as a kill in its last step would have."""
    (run.folder / "model.safetensors").rename(run.folder / "ends.safetensors")


def write_runs() -> None:
    Path("text.txt").write_text(TEXT)
    Path("pairs.tsv").write_text(PAIRS)
    for memory, options in MEMORIES.items():
        text = {"source": "text.txt", "unit": "characters", "segment": 8, "held_out": 0.2}
        halve(ms.train("text", memory, out=f"half-{memory}", **text, **SMALL, **options))
    for name in ("bahdanau", "transformer"):
        pairs = {"corpus": "pairs.tsv", "vocabulary_size": 280}
        halve(
            ms.train("translation", name, out=f"half-{name}", **pairs, **SMALL, **TRANSLATORS[name])
        )
    sentences = {"corpus": "pairs.tsv", "vocabulary_size": 280, "objective": "masked"}
    halve(ms.train("sentences", "encoder", out="half-encoder", **sentences, **SMALL, **HEADS))
    ms.train("copy", "gru", out="finished-gru", lag=3, **SMALL)


def write_states() -> None:
    tokens = torch.randint(11, (2, 21), generator=torch.Generator().manual_seed(0))
    for name, options in (MEMORIES | TRANSLATORS).items():
        torch.manual_seed(0)
        known = {"source_vocab": 11} if name in TRANSLATORS else {}
        model = ms.build(name, vocab=11, width=8, layers=1, **known, **options).eval()
        with torch.no_grad():
            state = model.encode(tokens) if known else None
            state = model(tokens[:, :15], state).state
            logits = model(tokens[:, 15:], state).logits
        state.save(f"state-{name}.safetensors")
        weights = {f"model.{key}": one.clone() for key, one in model.state_dict().items()}
        save_file(weights | {"tokens": tokens, "logits": logits}, f"goes-on-{name}.safetensors")


def base() -> Any:
    words = sorted(set(TEXT.replace(".", " .").replace(";", " ;").split()))
    vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained("base")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="<s>"
    ).save_pretrained("base")


def write_memories() -> None:
    from mnemoscope.models.huggingface.loading import load_model

    base()
    texts = {"cat": "the cat sat on the mat .", "dog": "then the dog sat on the flat mat ."}
    model, tokenizer = load_model("base")
    memory = ms.attach(model, "documents", tokenizer=tokenizer, layer=1, entries=4)
    memory.fit(texts, epochs=3)
    memory.save("documents")
    memory.detach()
    for name in ("infinite", "cache"):
        model, tokenizer = load_model("base")
        options = {"window": 8, "basis": 4} if name == "infinite" else {"window": 8, "cached": 4}
        memory = ms.attach(model, name, **options)
        if name == "infinite":
            ids = tokenizer(TEXT, return_tensors="pt").input_ids[0]
            memory.fit(ids[:128].view(2, 64), steps=2)
        memory.save(f"endless-{name}")
        memory.detach()


def write_studies() -> None:
    small = {"memories": ("gru", "lstm"), "parameters": 1000, "trained": 2, "tested": (1, 2)}
    small |= {"steps": 3, "batch": 2, "learning_rates": (1e-2,), "episodes": 4}
    ms.study("lag", out="study-finished", jobs=1, **small)
    half = Path("study-half")
    shutil.copytree("study-finished", half)
    (half / "result.json").unlink()
    (half / "report.html").unlink()
    shutil.rmtree(half / "figures")
    runs = sorted(path for path in (half / "runs").iterdir())
    shutil.rmtree(runs[0])
    (runs[1] / "examined.json").unlink()
    (runs[1] / "model.safetensors").unlink()
    (Path("study-finished") / "report.html").unlink()  # 5 MB, and redrawn from the result


if __name__ == "__main__":
    write_runs()
    write_states()
    write_memories()
    write_studies()
