"""The page of the study `translation`: every figure and sentence is computed from its result."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from mnemoscope.core.registry import TRANSLATORS
from mnemoscope.lenses.lens import Records, records
from mnemoscope.plots.figure import Series, heatmap, lines
from mnemoscope.report.document import Cell, Figure, Section, Table, finding
from mnemoscope.studies.sentences import band, gated
from mnemoscope.studies.study import Diverged, label
from mnemoscope.studies.translation.result import (
    CrossAttention,
    Dependence,
    TranslationResult,
)
from mnemoscope.studies.translation.sentences import (
    LEAST,
    bands,
    falls,
    findings,
    gate,
    ranking,
    rates,
)


def page(result: TranslationResult) -> list[Section]:
    """Say and draw what was seen."""
    return [
        finding(*findings(result), figure=_by_length(result)),
        _tested(result),
        _states(result),
        _cross_attention(result),
        *([] if result.dependence is None else [_dependence(result.dependence)]),
        _examples(result),
        _order(result),
        _rates(result),
    ]


def _series(result: TranslationResult, model: str, x: list[float]) -> Series:
    """BLEU of a model with its band, which looks the same whichever others it is shown with."""
    style = list(TRANSLATORS).index(model) if model in TRANSLATORS else None
    return band(label(model), x, result.bleu(model), style)


def _y_range(result: TranslationResult) -> tuple[float, float]:
    """Where the BLEU axis ends: a little above the highest band."""
    return 0, 1.05 * max(float(result.bleu(model).max()) for model in result.present)


def _by_length(result: TranslationResult) -> Figure:
    words = result.words
    series = [_series(result, model, words) for model in result.present]
    best = _best(result)
    control = Series(f"{label(best)}, wrong sentence", words, result.wrong(best), style=6)
    return Figure(
        "BLEU against source length",
        lines([*series, control], "words in the source", "BLEU", y_range=_y_range(result)),
        f"BLEU of the test part by length of the source. {bands(result)} Wrong sentence: the "
        "control, translations held against the references of another sentence of like length.",
        [
            {"model": label(model), "seed": seed, **asdict(group)}
            for model in result.present
            for seed, one in result.scored(model).items()
            for group in one.lengths
        ],
    )


def _best(result: TranslationResult) -> str:
    return max(result.present, key=lambda model: result.bleu(model).mean(0).mean())


def _tested(result: TranslationResult) -> Section:
    source = "a made-up language pair" if result.corpus is None else "the corpus given"
    out = f" ({result.overlap} pairs were left out for that)" if result.overlap else ""
    return Section(
        "The whole test part",
        [
            f"All models learnt from {result.pairs['train']} pairs of {source}; no source sentence "
            f"of the test part was among them{out}.",
            Table(
                "The whole test part",
                ["model", "parameters", "BLEU", "chrF", "loss", "training s"],
                [_whole(result, model) for model in result.present],
                "Mean over seeds, lowest to highest in brackets. Loss: nats per target token. "
                f"Signatures: {'; '.join(result.first(_best(result)).signatures)}.",
            ),
        ],
    )


def _order(result: TranslationResult) -> Section:
    words = result.words
    passed, gates = gated({label(model): gate(result, model) for model in result.present})
    return Section(
        "Who before whom",
        [
            gates,
            f"Shortest sentences ({words[0]:.0f} words): {ranking(result, 0, passed)}. Longest "
            f"({words[-1]:.0f} words): {ranking(result, len(words) - 1, passed)}. Here > means "
            f"that the bands are at least {LEAST:g} apart.",
            falls(result),
        ],
    )


def _whole(result: TranslationResult, model: str) -> list[Cell]:
    rows = list(result.scored(model).values())

    def span(values: list[float], digits: int, spread: str = "") -> str:
        mean = f"{np.mean(values):.{digits}f}"
        if len(values) == 1:
            return mean + spread
        return f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"

    return [
        label(model),
        result.models[model].parameters,
        span([row.bleu for row in rows], 1, f" ± {rows[0].spread:.1f}"),
        span([row.chrf for row in rows], 1),
        span([row.loss for row in rows], 3),
        float(np.mean([row.seconds for row in rows])),
    ]


def _states(result: TranslationResult) -> Section:
    groups = {model: result.first(model).lengths for model in result.present}
    carried = {m: [float(round(group.bytes)) for group in found] for m, found in groups.items()}
    said = "; ".join(
        f"{label(m)} {found[0].bytes:,.0f} to {found[-1].bytes:,.0f} bytes"
        for m, found in groups.items()
    )
    return Section(
        "What lies between",
        [
            "The state is all that goes from the encoder to the decoder, measured as the bytes of "
            f"state of one sentence. From the shortest to the longest group: {said}.",
            Figure(
                "BLEU against bytes of state",
                lines(
                    [_series(result, model, carried[model]) for model in result.present],
                    "bytes of state per sentence",
                    "BLEU",
                    log_x=True,
                    y_range=_y_range(result),
                ),
                "Each point is a group of lengths, short sentences first: an upright line carries "
                f"as much whatever it read. {bands(result)}",
                [
                    {"model": label(m), "words": one.words, "bytes": round(one.bytes), "bleu": bleu}
                    for m, found in groups.items()
                    for one, bleu in zip(found, result.bleu(m).mean(0).tolist(), strict=True)
                ],
            ),
        ],
    )


def _cross_attention(result: TranslationResult) -> Section:
    parts: list[str | Figure | Table] = [
        "To say a word, the decoder looks back at the source. Each row of a picture is one token "
        "said and adds up to one; ∎ is the end of a sentence, ▁ the space before a word. The first "
        "seed, cross-attention of the last layer, mean over heads; the model is made to say the "
        "reference.",
    ]
    shown = result.examples[len(result.examples) // 2]
    for model, seen in result.cross_attention.items():
        parts += [
            f"{label(model)}: the source token with the highest weight gets {seen.sharpness:.0%} "
            f"of the attention mass, mean over {len(result.examples)} sentences; equal weights "
            f"would give it {seen.even:.0%}.",
            Figure(
                f"Alignment of {label(model)}",
                heatmap(
                    seen.weights, seen.source, seen.target, "source", "said", "weight",
                    z_range=(0, 1),
                ),
                f"Source: {shown.source}",
                _weights(seen),
            ),
        ]  # fmt: skip
    return Section("Where it looks", parts)


def _weights(seen: CrossAttention) -> Records:
    places = {"position": range(len(seen.target)), "source position": range(len(seen.source))}
    said = np.array(seen.target)[:, None]
    return records(places, {"said": said, "source": seen.source, "weight": seen.weights})


def _dependence(seen: Dependence) -> Section:
    """The mask of a decoder's self-attention, as its gradient shows it."""
    share = np.array(seen.share)
    length = len(seen.source)
    later = share[:, length:][np.triu_indices(len(seen.target), 1)]
    columns = [("source", token) for token in seen.source]
    columns += [("target", token) for token in seen.read]
    # A space keeps a token of the source apart from the same one of the target.
    names = [f"{token} " if side == "source" else token for side, token in columns]
    return Section(
        "What each position can see",
        [
            "In training the Transformer's decoder reads the whole reference at once; a mask "
            "keeps each position from attending to later ones, or it would copy the answer. "
            "The picture asks the gradient: how much does the output at each position depend on "
            f"each token read? Of the {later.size} tokens of the target that come later than an "
            f"output, {np.count_nonzero(later)} have any influence on it; of the "
            f"{share[:, :length].size} of the source, {int((share[:, :length] == 0).sum())} have "
            "none.",
            Figure(
                "What each position can see",
                heatmap(share, names, seen.target, "source, then target so far", "said", "share"),
                "Share of the gradient, row by row; the target is read one behind, after a "
                "start ▷. The first seed.",
                [
                    {"said": said, "position": t, "side": side, "token": token, "share": value}
                    for t, (said, row) in enumerate(zip(seen.target, seen.share, strict=True))
                    for (side, token), value in zip(columns, row, strict=True)
                ],
            ),
        ],
    )


def _examples(result: TranslationResult) -> Section:
    said = [result.said.get(model) or result.first(model).said for model in result.present]
    return Section(
        "Read for yourself",
        [
            Table(
                "Translations",
                ["source", "reference", *(label(model) for model in result.present)],
                [
                    [example.source, example.reference, *texts]
                    for example, *texts in zip(result.examples, *said, strict=True)
                ],
                "Beam of 4, as they came; the first seed of each model.",
            )
        ],
    )


def _rates(result: TranslationResult) -> Section:
    rows: list[list[Cell]] = [
        [
            label(one.model),
            f"{one.lr:g}",
            one.valid_loss,
            one.outcome.diverged if isinstance(one.outcome, Diverged) else "",
        ]
        for one in result.trials
        if one.seed == 0
    ]
    return Section(
        "The learning rate",
        [
            rates(result),
            Table(
                "Validation loss by learning rate",
                ["model", "learning rate", "validation loss", "diverged"],
                rows,
                "First seed; nats per token, without smoothing.",
            ),
        ],
    )
