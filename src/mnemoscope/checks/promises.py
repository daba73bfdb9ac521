"""The table of promises: what each says, what a subject needs to be asked, and who asks it.

One line here and one function at its path make a promise. Imports no torch: pages are drawn from
this table and a result alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What a subject must have to be asked: see `Subject` for how each is found out.
Need = Literal["state", "mask", "position ids", "module", "reset", "values"]


@dataclass(frozen=True)
class Promise:
    """One promise: its name, what it says in a sentence, the function that asks, what that needs.

    name    what tables, JSON and ``--only`` call it
    group   what it is about, for the order and the headings of a page
    """

    name: str
    says: str
    path: str
    needs: tuple[Need, ...] = ()

    @property
    def group(self) -> str:
        """Which file asks: segments, padding, rows, carrying or numbers."""
        return self.path.partition(":")[0]


PROMISES = {
    one.name: one
    for one in (
        Promise(
            "deterministic",
            "Reading the same tokens again gives the same logits, bit for bit.",
            "segments:deterministic",
        ),
        Promise(
            "causal",
            "A later token changes nothing before it.",
            "segments:causal",
        ),
        Promise(
            "state used",
            "A state is handed out, and what is read after it depends on it.",
            "segments:state_used",
        ),
        Promise(
            "pieces",
            "Read in pieces of random lengths, each after the state of the one before, a text "
            "gives the logits of reading it whole.",
            "segments:random_splits",
            ("state",),
        ),
        Promise(
            "one by one",
            "Read one token at a time, a text gives the logits of reading it whole.",
            "segments:one_by_one",
            ("state",),
        ),
        Promise(
            "several after",
            "Several tokens read together after a state give the logits of reading it all whole.",
            "segments:several_after",
            ("state",),
        ),
        Promise(
            "generate",
            "Greedy generation with the state says what reading all of it again would say.",
            "segments:generated",
            ("state",),
        ),
        Promise(
            "batched",
            "Rows read together give the logits of each read alone.",
            "rows:batched",
        ),
        Promise(
            "selected",
            "Rows of the state picked in another order, as beams are, continue as if those rows "
            "had been read.",
            "rows:selected",
            ("state",),
        ),
        Promise(
            "reset",
            "A row of the state that starts anew reads as a fresh one, and the others do not "
            "notice.",
            "rows:reset",
            ("state", "reset"),
        ),
        Promise(
            "left padded",
            "Rows padded on the left, with a mask alone, give the logits of rows without padding.",
            "padding:left",
            ("mask",),
        ),
        Promise(
            "left padded, ids",
            "Rows padded on the left, with a mask and position ids, give the logits of rows "
            "without padding.",
            "padding:left_with_ids",
            ("mask", "position ids"),
        ),
        Promise(
            "right padded",
            "Rows padded on the right, with a mask alone, give the logits of rows without padding.",
            "padding:right",
            ("mask",),
        ),
        Promise(
            "right padded, ids",
            "Rows padded on the right, with a mask and position ids, give the logits of rows "
            "without padding.",
            "padding:right_with_ids",
            ("mask", "position ids"),
        ),
        Promise(
            "nothing hidden",
            "Two streams read in turns do not disturb each other: no state hides in the module.",
            "carrying:nothing_hidden",
        ),
        Promise(
            "a value",
            "Reading on does not change a state that was handed out.",
            "carrying:a_value",
            ("state", "values"),
        ),
        Promise(
            "complete",
            "The tensors of a state, put into the state of another text, continue as the original.",
            "carrying:complete",
            ("state",),
        ),
        Promise(
            "minimal",
            "Every tensor of a state matters: changing any of them changes a logit.",
            "carrying:minimal",
            ("state",),
        ),
        Promise(
            "saved",
            "A state that is saved, and loaded where nothing was read, continues as if it had not "
            "been.",
            "carrying:saved",
            ("state",),
        ),
        Promise(
            "bytes",
            "A state has the bytes that are declared, however its text was cut.",
            "carrying:measured_bytes",
            ("state",),
        ),
        Promise(
            "train mode",
            "Training and evaluation differ by dropout alone.",
            "numbers:train_mode",
            ("module",),
        ),
        Promise(
            "half precision",
            "In bfloat16, whole and in pieces, logits stay within the rounding of the weights.",
            "numbers:half_precision",
            ("module",),
        ),
    )
}
