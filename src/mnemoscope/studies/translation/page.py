"""The page of the study `translation`: every figure and sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import TRANSLATORS
from mnemoscope.lenses.alignment.lens import Alignment
from mnemoscope.lenses.reach.lens import Reach
from mnemoscope.plots.figure import Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.study import label
from mnemoscope.training.run import Run

Floats = NDArray[np.float64]

# Fewer seeds than this say nothing about their spread; then sentences are resampled instead.
ENOUGH_SEEDS = 3


def tell(result: dict[str, Any], runs: Path) -> Sequence[Section]:
    """Build the sections of the page."""
    if not _present(result):
        raise UserError("every training diverged: try lower learning_rates")
    return [
        _lengths(result),
        _states(result),
        _alignments(result, runs),
        *_mask(result, runs),
        _examples(result),
        _rates(result),
    ]


def trained(result: dict[str, Any], model: str) -> list[dict[str, Any]]:
    """The trainings of one model at its chosen learning rate that did not diverge."""
    rate = result["models"][model]["lr"]
    rows = [row for row in result["trials"] if row["model"] == model and row["lr"] == rate]
    return [row for row in rows if "diverged" not in row]


def band(result: dict[str, Any], model: str) -> tuple[Floats, Floats, Floats]:
    """BLEU of every group of lengths: mean, low and high, by seeds or by bootstrap."""
    rows = trained(result, model)
    found = np.array([[group["bleu"] for group in row["lengths"]] for row in rows])
    if len(rows) >= ENOUGH_SEEDS:
        return found.mean(0), found.min(0), found.max(0)
    spread = np.array([[group["spread"] for group in row["lengths"]] for row in rows]).max(0)
    return found.mean(0), found.mean(0) - spread, found.mean(0) + spread


def _present(result: dict[str, Any]) -> list[str]:
    return [model for model in result["models"] if trained(result, model)]


def _words(result: dict[str, Any]) -> list[float]:
    groups = trained(result, _present(result)[0])[0]["lengths"]
    return [group["words"] for group in groups]


def _style(model: str) -> int | None:
    """A model looks the same on every page, whichever others it is shown with."""
    return list(TRANSLATORS).index(model) if model in TRANSLATORS else None


def _room(result: dict[str, Any]) -> tuple[float, float]:
    """Where the BLEU axis ends: a little above the highest band."""
    return 0, 1.05 * max(float(band(result, model)[2].max()) for model in _present(result))


def _spread(result: dict[str, Any]) -> str:
    seeds = min(len(trained(result, model)) for model in _present(result))
    if seeds >= ENOUGH_SEEDS:
        return f"Line: mean of {seeds} seeds; band: lowest to highest seed."
    return "Band: 95 % of resampled test sentences (bootstrap); one training per model."


def ranking(result: dict[str, Any], place: int) -> str:
    """Order the models in one group; ``>`` where bands are apart, ``≈`` where they meet."""
    at = {m: [float(side[place]) for side in band(result, m)] for m in _present(result)}
    order = sorted(at, key=lambda model: -at[model][0])
    words = [f"{label(order[0])} ({at[order[0]][0]:.1f})"]
    for left, right in pairwise(order):
        sign = ">" if at[left][1] > at[right][2] else "≈"
        words.append(f"{sign} {label(right)} ({at[right][0]:.1f})")
    return " ".join(words)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def fall(result: dict[str, Any], model: str) -> str:
    """What became of one model between its best group and the longest sentences."""
    mean, low, high = band(result, model)
    words = _words(result)
    top = int(np.argmax(mean))
    kept = mean[-1] / mean[top] if mean[top] > 0 else 0.0
    path = (
        f"{label(model)} goes from {mean[top]:.1f} at {words[top]:.0f} words to {mean[-1]:.1f} at "
        f"{words[-1]:.0f} ({kept:.0%} of its best)"
    )
    if top == len(words) - 1:
        return f"{label(model)} is at its best, {mean[-1]:.1f}, on the longest sentences"
    return f"{path}: it falls" if low[top] > high[-1] else f"{path}: no fall outside the band"


def _lengths(result: dict[str, Any]) -> Section:
    words = _words(result)
    series = [Series(label(m), words, *band(result, m), style=_style(m)) for m in _present(result)]
    best = max(_present(result), key=lambda model: band(result, model)[0].mean())
    wrong = [
        np.mean([row["lengths"][place]["wrong"] for row in trained(result, best)])
        for place in range(len(words))
    ]
    control = Series(f"{label(best)}, wrong sentence", words, wrong, style=6)
    whole = [_whole(result, model) for model in _present(result)]
    pairs = result["pairs"]
    source = "a made-up language pair" if result["corpus"] is None else "the corpus given"
    return Section(
        "BLEU against length",
        [
            f"All models learnt from {pairs['train']} pairs of {source}; no source sentence of the "
            f"test part was among them. Shortest sentences ({words[0]:.0f} words): "
            f"{ranking(result, 0)}. Longest ({words[-1]:.0f} words): "
            f"{ranking(result, len(words) - 1)}. Here > means that the bands are apart.",
            _sentence("; ".join(fall(result, model) for model in _present(result))),
            Figure(
                "BLEU against source length",
                lines([*series, control], "words in the source", "BLEU", y_range=_room(result)),
                f"BLEU of the test part by length of the source. {_spread(result)} Wrong sentence: "
                "the control, translations held against the references of another sentence of "
                "like length.",
                [
                    {"model": label(model), "seed": row["seed"], **group}
                    for model in _present(result)
                    for row in trained(result, model)
                    for group in row["lengths"]
                ],
            ),
            Table(
                "The whole test part",
                ["model", "parameters", "BLEU", "chrF", "loss", "training s"],
                whole,
                "Mean over seeds, lowest to highest in brackets. Loss: nats per target token. "
                f"Signatures: {'; '.join(trained(result, best)[0]['signatures'])}.",
            ),
        ],
    )


def _whole(result: dict[str, Any], model: str) -> list[Cell]:
    rows = trained(result, model)

    def span(name: str, digits: int) -> str:
        values = [row[name] for row in rows]
        mean = f"{np.mean(values):.{digits}f}"
        if len(values) == 1:
            return f"{mean} ± {rows[0]['spread']:.1f}" if name == "bleu" else mean
        return f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"

    seconds = float(np.mean([row["seconds"] for row in rows]))
    size = result["models"][model]["parameters"]
    return [label(model), size, span("bleu", 1), span("chrf", 1), span("loss", 3), seconds]


def _states(result: dict[str, Any]) -> Section:
    series, rows = [], []
    for model in _present(result):
        mean, low, high = band(result, model)
        groups = trained(result, model)[0]["lengths"]
        carried = [round(group["bytes"]) for group in groups]
        series.append(Series(label(model), carried, mean, low, high, _style(model)))
        rows += [
            {
                "model": label(model),
                "words": g["words"],
                "bytes": round(g["bytes"]),
                "bleu": float(b),
            }
            for g, b in zip(groups, mean, strict=True)
        ]
    ends = {m: trained(result, m)[0]["lengths"] for m in _present(result)}
    said = "; ".join(
        f"{label(m)} {g[0]['bytes']:,.0f} to {g[-1]['bytes']:,.0f} bytes" for m, g in ends.items()
    )
    return Section(
        "What lies between",
        [
            "The state is all that goes from the encoder to the decoder, measured as the bytes of "
            f"state of one sentence. From the shortest to the longest group: {said}.",
            Figure(
                "BLEU against bytes of state",
                lines(
                    series,
                    "bytes of state per sentence",
                    "BLEU",
                    log_x=True,
                    y_range=_room(result),
                ),
                "Each point is a group of lengths, short sentences first: an upright line carries "
                f"as much whatever it read. {_spread(result)}",
                rows,
            ),
        ],
    )


def _alignments(result: dict[str, Any], runs: Path) -> Section:
    parts: list[str | Figure | Table] = [
        "To say a word, the decoder looks back at the source. Each row of a picture is one token "
        "said and adds up to one; ∎ is the end of a sentence, ▁ the space before a word. "
        "The first seed, the last layer, mean over heads; the model is made to say the reference.",
    ]
    middle = result["shown"][len(result["shown"]) // 2]
    for model in _present(result):
        if model == "vector":
            continue
        translator = Run.open(runs / trained(result, model)[0]["run"]).translator()
        lens = Alignment()
        for pair in [*result["shown"], middle]:
            lens.observe(translator, pair["source"], pair["reference"])
        seen = lens.result()
        parts += [
            f"{label(model)}: the token looked at most gets {seen.sharpness[-1]:.0%} of the "
            f"weight, mean over {len(result['shown'])} sentences; even weights would give it "
            f"{seen.even:.0%}.",
            Figure(
                f"Alignment of {label(model)}",
                seen.figure(),
                f"Source: {middle['source']}",
                seen.table(),
            ),
        ]
    return Section("Where it looks", parts)


def _mask(result: dict[str, Any], runs: Path) -> list[Section]:
    """The masked self-attention of the Transformer, as its gradient shows it."""
    if "encoder_decoder" not in _present(result):
        return []
    run = Run.open(runs / trained(result, "encoder_decoder")[0]["run"])
    pair = result["shown"][len(result["shown"]) // 3]
    seen = Reach().observe(run.translator(), pair["source"], pair["reference"])
    words, said = len(seen.source), len(seen.said)
    own = seen.influence[:, words:]
    later = own[np.triu_indices(said, 1)]
    blind = int((seen.influence[:, :words] == 0).sum())
    return [
        Section(
            "What each position can see",
            [
                "In training the Transformer's decoder reads the whole reference at once; a mask "
                "keeps each position from looking at later ones, or it would copy the answer. "
                "The picture asks the gradient: how much does what is said at each place depend "
                "on each token read? Of the "
                f"{later.size} places after the one that speaks, {np.count_nonzero(later)} have "
                f"any influence; of the {words * said} in the source, {blind} have none.",
                Figure(
                    "What each position can see",
                    seen.figure(),
                    "Share of the gradient, row by row; the target is read one behind, after a "
                    "start ▷. The first seed.",
                    seen.table(),
                ),
            ],
        )
    ]


def _examples(result: dict[str, Any]) -> Section:
    models = _present(result)
    rows: list[list[Cell]] = []
    for place, pair in enumerate(result["shown"]):
        said = [trained(result, model)[0]["said"][place] for model in models]
        rows.append([pair["source"], pair["reference"], *said])
    return Section(
        "Read for yourself",
        [
            Table(
                "Translations",
                ["source", "reference", *(label(model) for model in models)],
                rows,
                "Sentences of the test part, evenly by length, beam of 4, as they came.",
            )
        ],
    )


def _rates(result: dict[str, Any]) -> Section:
    rows: list[list[Cell]] = [
        [label(row["model"]), f"{row['lr']:g}", row.get("valid_loss"), row.get("diverged", "")]
        for row in result["trials"]
        if row["seed"] == 0
    ]
    best = ", ".join(f"{label(m)} {facts['lr']:g}" for m, facts in result["models"].items())
    return Section(
        "The learning rate",
        [
            f"Chosen for every model by the validation loss of its first seed: {best}. "
            f"{_edge(result)}",
            Table(
                "Validation loss by learning rate",
                ["model", "learning rate", "validation loss", "diverged"],
                rows,
                "First seed; nats per token, without smoothing.",
            ),
        ],
    )


def _edge(result: dict[str, Any]) -> str:
    """Say whose best rate lies at an end of what was tried."""
    rates = sorted({row["lr"] for row in result["trials"]})
    if len(rates) < 2:
        return "There was one rate only: nothing was swept."
    if len(rates) == 2:
        return "With two rates every best one is at an end: beyond it there may be a better one."
    ends = [
        label(m) for m, facts in result["models"].items() if facts["lr"] in rates[:: len(rates) - 1]
    ]
    if not ends:
        return "No best rate lies at an end of the sweep."
    return f"That of {' and '.join(ends)} is at an end of the sweep; there may be a better one."
