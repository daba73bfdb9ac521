"""What the study `documents` claims: how large every effect is, and how large it has to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.report.claims import Claim, Gate, claims_table
from mnemoscope.report.document import Section
from mnemoscope.studies.documents.result import DocumentsResult
from mnemoscope.studies.documents.sentences import LABELS
from mnemoscope.studies.documents.settings import (
    ALL_ON,
    DEPTHS,
    DIMS,
    ENCODERS,
    FIXED,
    FREE,
    GUIDED,
    NEGATIVES,
    RANDOM,
    SELECTS,
    SIZED,
    Setting,
    against,
    behind,
    deep,
    encoded,
    guided,
    lengths,
    many,
    moving,
)

ENCODED = dict(
    zip(ENCODERS, ("TF-IDF of the words", "TF-IDF of runs of three", "mean hidden state"),
        strict=True)
)  # fmt: skip
NATS = "nats per token"
# A memory is judged when it saves its texts this much, and an effect is one from this on.
LEARNT, LEAST = 0.5, 0.1
# Of distances that are relative to a length.
FAR = 0.05


def gate(result: DocumentsResult, *settings: Setting) -> tuple[Gate, ...]:
    """These memories keep their texts; where documents differ at all, they are told apart."""
    kept = np.concatenate([less(result, one, "none", "right") for one in settings])
    gates = [Gate(f"right document {LEARNT:g} nats below no memory", kept - LEARNT)]
    apart = [one for one in settings if one.control != "all"]
    if apart:
        chance = [1 / (one.documents or one.count or result.documents) for one in apart]
        named = [
            result.over_seeds(one, "named") - by for one, by in zip(apart, chance, strict=True)
        ]
        gates.append(Gate("documents identified above chance", np.concatenate(named)))
    return tuple(gates)


def less(result: DocumentsResult, setting: Setting, high: str, low: str) -> Floats:
    """One number of a training less another, a seed each."""
    return result.over_seeds(setting, high) - result.over_seeds(setting, low)


def change(result: DocumentsResult, after: Setting, before: Setting, key: str) -> Floats:
    """By how much a number is larger in one setting than in another, a seed each."""
    return result.over_seeds(after, key) - result.over_seeds(before, key)


def usual(result: DocumentsResult, start: str, dim: int) -> Setting:
    """The setting in which representations of ``dim`` numbers begin with ``start``."""
    same = (start, dim) == ("orthogonal", result.key_dim)
    return guided(alpha=1.0) if same else moving(start, dim)


def _judged(
    result: DocumentsResult,
    text: str,
    effects: Floats | Sequence[float],
    *settings: Setting,
    least: float = LEAST,
    unit: str = NATS,
) -> Claim:
    """A claim about memories of these settings, each of which must have learnt."""
    return Claim(text, effects, least, unit, gate(result, *settings))


def of_working(result: DocumentsResult) -> list[Claim]:
    """Question 1: right, wrong and no document; guidance; what follows, and what is unrelated."""
    judge = partial(_judged, result)
    found = []
    labels = {FREE: "masks learned without guidance", RANDOM: "random masks"}
    for setting, label in {**labels, ALL_ON: "all entries on"}.items():
        text = f"{label} tell documents apart: the wrong one is worse than the right one"
        found.append(judge(text, less(result, setting, "wrong", "right"), setting))
    for setting, label in {FREE: "learned masks, α = 0,", RANDOM: "random masks"}.items():
        text = f"under {label} the wrong document is worse than no memory"
        found.append(judge(text, less(result, setting, "wrong", "none"), setting))
    tau = result.over_seeds(GUIDED, "tau")
    free, near = (np.abs(result.over_seeds(one, "wrong") - tau) for one in (FREE, GUIDED))
    text = "guidance of α = 0.1 brings the wrong document nearer to τ"
    later = less(result, GUIDED, "later_none", "later_right")
    harm = less(result, GUIDED, "unrelated", "unrelated_none")
    return [
        *found,
        judge(text, free - near, FREE, GUIDED),
        judge("what follows the learnt text gains too", later, GUIDED),
        judge("unrelated text is worse off with a document", harm, GUIDED),
    ]


def of_bias(result: DocumentsResult) -> list[Claim]:
    """Question 2: whether a wrong document helps where nothing guides; what guidance costs."""
    found = []
    for select in SELECTS:
        setting = guided(select, 0.0)
        text = f"{LABELS[select]} contaminates: at α = 0 the wrong document helps"
        found.append(_judged(result, text, less(result, setting, "none", "wrong"), setting))
    strong, text = guided(alpha=1.0), "guidance of α = 1 costs tanh memory at equal steps"
    costs = change(result, strong, FREE, "right")
    return [*found, _judged(result, text, costs, strong, FREE)]


def of_layers(result: DocumentsResult) -> list[Claim]:
    """Question 4: whether one block is better than every other, by kind of negative."""
    negatives = ["other"]
    if result.has(behind(result.layers[-1], negative="random")):
        negatives.append("random")
    claims = []
    for negative in negatives:
        settings = [layer_of(result, layer, negative) for layer in result.layers]
        found = np.array([result.over_seeds(one, "right") for one in settings])  # (blocks, seeds)
        best = int(found.mean(1).argmin())
        rest = np.delete(found, best, 0)
        effects = rest.min(0) - found[best] if len(rest) else np.array([])
        text = f"with {negative} negatives block {result.layers[best]} is better than every other"
        claims.append(_judged(result, text, effects, *settings, least=FAR))
    return claims


def layer_of(result: DocumentsResult, layer: int, negative: str = "other") -> Setting:
    """The memory behind a block."""
    if negative != "other":
        return behind(layer, negative=negative)
    return GUIDED if layer == result.layers[-1] else behind(layer)


def of_moves(result: DocumentsResult) -> list[Claim]:
    """Question 5: whether representations must move, and less the more room each of them has."""
    judge = partial(_judged, result)
    far = partial(judge, least=FAR, unit="of their length")
    fixed = change(result, FIXED, GUIDED, "right")
    found = [judge("representations have to move: fixed ones remember less", fixed, FIXED, GUIDED)]
    for start in SIZED:
        few, more = (usual(result, start, dim) for dim in (DIMS[0], DIMS[-1]))
        text = f"{start} start: of {DIMS[-1]} numbers representations move less than of {DIMS[0]}"
        found.append(far(text, change(result, few, more, "moved"), few, more))
    # Older results, and some studies, have one number of documents only.
    for start in SIZED if len(result.counts) > 1 else ():
        few, more = (moving(start, DIMS[-1], pick(result.counts)) for pick in (min, max))
        who = f"{few.count} documents move less than {more.count}"
        text = f"{start} start, {DIMS[-1]} numbers: {who}"
        found.append(far(text, change(result, more, few, "moved"), few, more))
    return found


def of_depths(result: DocumentsResult) -> list[Claim]:
    """Question 6: whether deeper maps move representations more, and bring selections nearer."""
    judge = partial(_judged, result, least=FAR)
    ends = deep(DEPTHS[0]), deep(DEPTHS[-1])
    text = f"under {DEPTHS[-1]} layers representations move more than under one"
    moved = change(result, ends[1], ends[0], "moved")
    found = [judge(text, moved, *ends, unit="of their length")]
    for alpha in (1.0, 0.0):
        ends = deep(DEPTHS[0], alpha=alpha), deep(DEPTHS[-1], alpha=alpha)
        text = f"distance between selections by length falls with depth, α = {alpha:g}"
        nearer = change(result, ends[0], ends[1], "apart_by_length")
        found.append(judge(text, nearer, *ends, unit=""))
    return found


def of_encoders(result: DocumentsResult) -> list[Claim]:
    """Question 7: whether unseen texts gain where encoders put them; then, more than elsewhere."""
    gains, nearer = [], []
    for encoder, label in ENCODED.items():
        setting = encoded(encoder)
        seen = result.each(setting, lambda fit: fit.newcomers)
        text = f"{label}: an unseen text gains where it is put"
        gains.append(_judged(result, text, [one.gain for one in seen], setting))
        text = f"{label}: an unseen text is better off there than elsewhere"
        nearer.append(_judged(result, text, [one.wrong - one.right for one in seen], setting))
    return [*gains, *nearer]


def of_signs(result: DocumentsResult) -> list[Claim]:
    """Question 8: whether a negative gate that is made positive does harm."""
    gates = result.each(GUIDED, lambda fit: fit.gates)
    turned = np.array([one["negatives made positive"] for one in gates])
    text = "a negative gate says the contrary: made positive, it is worse than no memory"
    return [_judged(result, text, turned - result.over_seeds(GUIDED, "none"), GUIDED)]


def of_words(result: DocumentsResult) -> list[Claim]:
    """Question 9: whether words that do not stand there get less likely, where it was measured."""
    found = []
    for whose, label in (("rival", "the likeliest other word"), ("average", "the average word")):
        changes = [getattr(one, whose) for one in result.each(GUIDED, lambda fit: fit.split)]
        if all(changes):
            falls = [-float(np.mean(one)) for one in changes]
            found.append(_judged(result, f"log p of {label} falls", falls, GUIDED))
    return found


def of_lengths(result: DocumentsResult) -> list[Claim]:
    """Question 11: whether length and size of the selection go together."""
    found = []
    for select, alpha in (*((select, 0.1) for select in SELECTS), ("tanh", 0.0)):
        setting = lengths(select, alpha)
        sizes = result.each(setting, lambda fit: fit.sizes)
        effects = [float(np.corrcoef(one.tokens, one.size)[0, 1]) for one in sizes]
        text = f"{LABELS[select]}, α = {alpha:g}: longer documents open more"
        found.append(_judged(result, text, effects, setting, least=0.5, unit="correlation"))
    return found


def of_negatives(result: DocumentsResult) -> list[Claim]:
    """Question 12: whether one kind of negative brings the wrong document nearest to τ."""
    settings = {"other": guided(alpha=1.0)}
    settings |= {negative: against(negative) for negative in NEGATIVES[1:]}
    apart = np.array(
        [
            np.abs(result.over_seeds(one, "wrong") - result.over_seeds(one, "tau"))
            for one in settings.values()
        ]
    )  # (kinds, seeds)
    best = int(apart.mean(1).argmin())
    effects = np.delete(apart, best, 0).min(0) - apart[best]
    kind = list(settings)[best]
    text = f"{kind} negatives bring the wrong document nearer to τ than every other kind"
    return [_judged(result, text, effects, *settings.values())]


def of_many(result: DocumentsResult) -> list[Claim]:
    """Question 13: whether many documents are told apart."""
    return [
        Claim(
            f"of {count} documents the right one is identified",
            result.over_seeds(many(count), "named"), 0.9, "of segments",
            gate(result, many(count))[:1],
        )
        for count in result.many
    ]  # fmt: skip


# By question; not all have claims.
CLAIMS: tuple[Callable[[DocumentsResult], list[Claim]], ...] = (
    *(of_working, of_bias, of_layers, of_moves, of_depths, of_encoders, of_signs, of_words),
    *(of_lengths, of_negatives, of_many),
)


def claims_section(result: DocumentsResult) -> Section:
    """All claims, before the questions they answer."""
    found = [claim for claims in CLAIMS for claim in claims(result)]
    return Section("What is seen, and by how much", [claims_table("Claims about documents", found)])
