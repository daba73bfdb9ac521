"""Let a model say what its documents say, and answer questions with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.loading import check_ids
from mnemoscope.huggingface.quiet import quiet
from mnemoscope.huggingface.texts import first_ids, segment_size

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory


def recite(memory: DocumentMemory, name: str) -> list[int]:
    """The tokens of a document as the memory says them, the likeliest one after the other.

    It begins with the first token, which the memory keeps. As documents are learnt in segments,
    each with the last tokens of the one before as its context, so they are recited.
    """
    parts.known(name, memory.names, "document")
    if name not in memory.beginnings:
        raise UserError(
            "this memory was saved without the first tokens of its documents, by an older version: "
            "fit the documents again"
        )
    first, count = memory.beginnings[name]
    length, overlap = segment_size(parts.context_of(memory.model), **memory.cutting)
    ids = [first]
    while len(ids) < count:
        before = ids[-1 - overlap :]
        ids += _generated(memory, name, before, min(length - len(before), count - len(ids)))
    return ids


def ask(memory: DocumentMemory, prompt: str, document: str | None, length: int, plain: bool) -> str:
    """What the model says to a prompt, the likeliest token at every position.

    With a chat template it answers, having read the document as the memory recites it. Without
    one, or if ``plain``, it continues the prompt as it would continue the document.
    """
    tokenizer = memory.text_tokenizer()
    if plain or not getattr(tokenizer, "chat_template", None):
        ids = first_ids(tokenizer, prompt)
        return text_of(tokenizer, ids + _generated(memory, document, ids, length, ends=True))
    read = "" if document is None else f"{text_of(tokenizer, recite(memory, document))}\n\n"
    said = [{"role": "user", "content": f"{read}{prompt}"}]
    ids = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)
    return text_of(tokenizer, _generated(memory, None, ids["input_ids"], length, ends=True)).strip()


def _generated(
    memory: DocumentMemory, document: str | None, ids: list[int], length: int, ends: bool = False
) -> list[int]:
    """At most ``length`` tokens after those given; as many, unless the model ``ends`` by itself."""
    if not ids:
        raise UserError("the prompt is empty: give at least one word")
    model: Any = memory.model
    check_ids("the model", ids, parts.words_of(model))
    longest = parts.context_of(model) or len(ids) + length
    if len(ids) >= longest:
        raise UserError(
            f"{len(ids)} tokens are to be read, but the model reads at most {longest}: ask about a "
            "shorter document, or in fewer words"
        )
    tokens = torch.tensor([ids], device=memory.store.values.device)
    options: dict[str, Any] = {} if ends else {"eos_token_id": None}
    with memory.document(document), quiet():
        said = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=min(length, longest - len(ids)),
            do_sample=False,
            pad_token_id=getattr(memory.tokenizer, "pad_token_id", None) or 0,
            **options,
        )
    found: list[int] = said[0, len(ids) :].tolist()
    return found


def text_of(tokenizer: Any, ids: list[int]) -> str:
    """What tokens say, without those that are no part of a text."""
    return str(tokenizer.decode(ids, skip_special_tokens=True))
