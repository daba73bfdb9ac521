"""The conversations that a pretrained model follows, as its own tokens under every control."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.data.dialogue.conversation import Conversation, another_document
from mnemoscope.data.dialogue.corpus import divided, read_conversations
from mnemoscope.data.dialogue.script import Script, Written, common_words, write
from mnemoscope.data.dialogue.task import Control
from mnemoscope.huggingface import blocks
from mnemoscope.huggingface.loading import rows_of
from mnemoscope.huggingface.tokenizers import beginning, spanning_encoder
from mnemoscope.studies.pretrained import reader_of

if TYPE_CHECKING:
    from mnemoscope.studies.dialogue.study import DialogueStudy

# Turns in which words are counted for the trivial predictor.
COUNTED = 2000


@dataclass(frozen=True, eq=False)
class ReadCorpus:
    """What is read: conversations of the test, and each as tokens under every control.

    begin    what the tokenizer puts before every text
    unigram  loss per token of who knows how often tokens are said
    """

    conversations: list[Conversation]
    written: dict[Control, list[Written]]
    begin: list[int]
    unigram: float


# A study is frozen, so it can stand for its corpus.
@lru_cache(maxsize=1)
def corpus_of(study: DialogueStudy) -> ReadCorpus:
    """Read and write all that a study asks for, once."""
    assert study.source is not None
    model, tokenizer = reader_of(study)
    parts = divided(read_conversations(study.source), held_out=0.1)
    rated = [one for one in parts["test"] if study.rating in (None, one.rating)]
    # Spread over all of them: neighbours are often about the same document.
    count = min(len(rated), study.conversations or len(rated))
    held = [rated[place * len(rated) // count] for place in range(count)]
    if len(held) < 2:
        raise UserError(
            f"{study.source} has {len(held)} conversations to test on with rating={study.rating}: "
            "two are needed, to swap their documents"
        )
    encode = spanning_encoder(tokenizer, model, study.model or "")
    speakers = max(len(one.speakers) for one in held)
    marks = [f"\n{chr(ord('A') + number)}:" for number in range(speakers)]
    script = Script(
        encode,
        tuple(encode("\n\n")[0].tolist()),
        (),
        tuple(tuple(encode(mark)[0].tolist()) for mark in marks),
        scores_end=False,
    )
    common = common_words(one.document for part in parts.values() for one in part)
    cut = {**study.some("document_tokens", "conversation_tokens"), "common": common}
    others = another_document(held)
    written: dict[Control, list[Written]] = {
        "own": [write(one, script, "own", **cut) for one in held],
        "none": [write(one, script, None, **cut) for one in held],
        "another": [write(one, script, two, **cut) for one, two in zip(held, others, strict=True)],
    }
    begin = beginning(tokenizer)
    limit = blocks.context_of(model)
    longest = len(begin) + max(len(one.ids) for each in written.values() for one in each)
    if limit is not None and longest > limit:
        raise UserError(
            f"a document and its conversation have {longest} tokens, and {study.model} reads "
            f"{limit}: lower document_tokens or conversation_tokens"
        )
    told = [turn.text for one in parts["train"] for turn in one.turns][:COUNTED]
    counts: Floats = np.ones(rows_of(model))
    for text in told:
        counts += np.bincount(encode(f" {text}")[0], minlength=len(counts))
    cost = -np.log(counts / counts.sum())
    due = np.concatenate([one.ids[one.reply] for one in written["own"]])
    return ReadCorpus(held, written, begin, float(cost[due].mean()))
