"""A real pretrained model learns articles it never saw and recites the right one by its name."""

from __future__ import annotations

import pytest
import torch
from stories import Tokenizer, articles, load_model

import mnemoscope as ms

BEGIN = 1


def test_stories260k_is_a_real_model() -> None:
    model, tokenizer = load_model(), Tokenizer()
    prompt = torch.tensor([tokenizer.encode("Once upon a time")])
    said = model.generate(prompt, max_new_tokens=30, do_sample=False, pad_token_id=0)
    assert tokenizer.decode(said[0].tolist()).startswith(" Once upon a time, there was a")


@pytest.mark.filterwarnings("ignore:documents")
def test_ten_articles_are_recited_by_document() -> None:
    model, tokenizer = load_model(), Tokenizer()
    texts = articles(10, 100)
    assert len(texts) == 10
    memory = ms.attach(model, "documents", tokenizer=tokenizer, entries=256, key_dim=32)
    run = memory.fit(texts, epochs=150)
    found = memory.contexts()
    assert found.accuracy == 1
    assert run.right < 0.1 < run.none

    def say(document: str | None, length: int) -> list[int]:
        # Every article begins alike: nothing but the document can tell which one is meant.
        with memory.document(document):
            said = model.generate(
                torch.tensor([[BEGIN]]),
                max_new_tokens=length,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        return said[0].tolist()

    right = 0
    for name, text in texts.items():
        ids = tokenizer.encode(text)
        assert ids[0] == BEGIN
        right += say(name, len(ids) - 1) == ids
        others = [other for other in texts if other != name]
        assert all(say(other, 10) != ids[:11] for other in [others[0], None])
    assert right >= 9
