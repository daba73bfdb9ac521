"""What users of `transformers` do with a model works with a memory attached: pipeline, Trainer,
batches of documents, chat templates, device maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hf_families import build, prompt, save_whole, texts, transformers

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import Guidance
from mnemoscope.huggingface.loading import load_model
from mnemoscope.huggingface.quiet import quiet

PLAIN = Guidance(alpha=0.0)
TEXTS = {
    "kettle": "the kettle sang on the stove while rain ran down",
    "harbour": "boats came home at dusk and gulls fought loudly",
}
WINDOWS: dict[str, Any] = {"window": 8, "mem_len": 4}
KINDS: dict[str, dict[str, Any]] = {"documents": {}, "infinite": WINDOWS, "transformer_xl": WINDOWS}
LENGTH = {"max_new_tokens": 60, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder = tmp_path_factory.mktemp("small")
    shape = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128}
    save_whole(folder, " ".join(TEXTS.values()), 280, **shape, initializer_range=0.15)
    return load_model(str(folder))


@pytest.fixture(scope="module")
def memory(small: tuple[Any, Any]) -> Any:
    memory = ms.attach(small[0], "documents", tokenizer=small[1], entries=32)
    assert memory.fit(TEXTS, PLAIN, epochs=150, silent=True).recited == 2
    return memory


def test_a_pipeline_reads_row_by_row_under_its_documents(memory: Any, small: Any) -> None:
    model, tokenizer = small
    with quiet():
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
        tokenizer.padding_side = "left"
        pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
        with memory.document("kettle"):
            said = pipe("the kettle", **LENGTH)[0]["generated_text"]
        assert said.startswith(TEXTS["kettle"])
        with memory.document(["harbour", "kettle"]):
            both = pipe(["boats", "the kettle"], batch_size=2, **LENGTH)
            with pytest.raises(UserError, match="2 documents are set for a batch of 1 rows"):
                pipe(["boats", "the kettle"], **LENGTH)
        assert both[0][0]["generated_text"].startswith(TEXTS["harbour"])
        assert both[1][0]["generated_text"].startswith(TEXTS["kettle"])


CHAT = (
    "{% for one in messages %}<{{ one['role'] }}>{{ one['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_a_chat_template_makes_an_answer_of_what_was_a_continuation(
    memory: Any, small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = small
    assert memory.recite("kettle") == TEXTS["kettle"]
    assert memory.ask("the kettle", "kettle").startswith(TEXTS["kettle"])
    monkeypatch.setattr(tokenizer, "chat_template", CHAT)
    assert memory.ask("the kettle", "kettle", plain=True).startswith(TEXTS["kettle"])

    def answer(content: str) -> str:
        ids = tokenizer(f"<user>{content}<assistant>", return_tensors="pt")["input_ids"]
        said = model.generate(ids, max_new_tokens=9, do_sample=False, pad_token_id=0)
        return str(tokenizer.decode(said[0, ids.shape[1] :])).strip()

    with quiet():
        assert memory.ask("what sang?", length=9) == answer("what sang?")
        with_text = answer(f"{TEXTS['kettle']}\n\nwhat sang?")
        assert memory.ask("what sang?", "kettle", length=9) == with_text
    with pytest.raises(UserError, match="the model reads at most 128: ask about a shorter"):
        memory.ask("what sang? " * 40, "kettle")


@pytest.mark.parametrize("kind", ["documents", "infinite"])
def test_the_trainer_trains_a_memory_and_nothing_else(kind: str, tmp_path: Path) -> None:
    model = build("llama")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    memory: Any
    if kind == "documents":
        memory = ms.attach(model, kind, entries=16)
        memory.start(memory.read(texts()))
    else:
        memory = ms.attach(model, kind, window=8, basis=8)
    examples = [
        {"input_ids": ids, "labels": ids, "document": number}
        for number, ids in enumerate(texts().values())
    ]
    with quiet():
        options = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            num_train_epochs=20,
            per_device_train_batch_size=4,
            learning_rate=0.03,
            save_steps=20,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = transformers.Trainer(memory.for_trainer(), options, train_dataset=examples)
        trainer.train()
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    if kind == "documents":
        found = memory.contexts(texts())
        assert found.right.mean() < found.none.mean() - 1
    assert list(tmp_path.glob("checkpoint-20/model.safetensors"))
    kept = {name: weight.clone() for name, weight in memory.weights.state_dict().items()}
    for weight in memory.weights.parameters():
        weight.data.zero_()
    with quiet():
        trainer._load_from_checkpoint(str(tmp_path / "checkpoint-20"))
    for name, weight in memory.weights.state_dict().items():
        assert torch.equal(weight, kept[name])


def test_a_batch_for_the_trainer_must_name_its_documents() -> None:
    memory = ms.attach(build("gpt2"), "documents", entries=4)
    memory.start(memory.read(texts()))
    model = memory.for_trainer()
    with pytest.raises(UserError, match="give every example a document"):
        model(prompt(), prompt())
    out = model(prompt(), prompt(), document=torch.tensor([2, -1]))
    assert bool(out["loss"].isfinite())


def test_a_model_spread_by_a_device_map_is_refused(tmp_path: Path) -> None:
    """On one device it is as good as any."""
    with quiet():
        build("llama").save_pretrained(tmp_path / "model")
        load = transformers.AutoModelForCausalLM.from_pretrained
        whole = load(tmp_path / "model", device_map={"": "cpu"})
        spread = {"model.embed_tokens": "cpu", "model.layers": "disk", "model.norm": "cpu"}
        spread |= {"lm_head": "cpu", "model.rotary_emb": "cpu"}
        halved = load(tmp_path / "model", device_map=spread, offload_folder=tmp_path / "off")
    for kind, options in KINDS.items():
        ms.attach(whole, kind, **options).detach()
        with pytest.raises(UserError, match=r"device_map.*cpu and disk.*one device"):
            ms.attach(halved, kind, **options)
