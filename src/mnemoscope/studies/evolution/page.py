"""The page of the study `evolution`: every figure and sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference, lines
from mnemoscope.report.claims import Claim, claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.evolution.claims import PAIRS, claims, gates
from mnemoscope.studies.evolution.finding import sentences
from mnemoscope.studies.evolution.result import (
    FATES,
    OBJECTIVES,
    Apart,
    ByFrequency,
    Curve,
    EvolutionResult,
    Examined,
)
from mnemoscope.studies.findings import lead
from mnemoscope.studies.sentences import Banded, banded
from mnemoscope.studies.study import Diverged

BAND = "Line: mean over trainings; band: lowest to highest."
SEEDS = f"{BAND} Layer 0 is the embeddings."


def page(result: EvolutionResult) -> list[Section]:
    """Say and draw what was seen."""
    judged = claims(result)
    told = sentences(result, [claim for claim, _ in judged])
    parts = (_information, _distances, _change, _influence, _neighbours, _models)
    return [
        lead(told, _of_token_read(result)),
        _claims(result, judged),
        *(part(result) for part in parts),
    ]


def _claims(result: EvolutionResult, found: Sequence[tuple[Claim, str]]) -> Section:
    source = result.corpus or "sentences from a made-up grammar"
    return Section(
        "What was seen",
        [
            "Voita, Sennrich and Titov (2019) had models of 512 × 6 trained on millions of "
            f"sentences. Those here are {result.width} wide, {result.layers} layers deep and read "
            f"{source}.",
            " ".join(f"{gate}." for gate in gates(result)),
            claims_table(
                "Orderings of the paper",
                [claim for claim, _ in found],
                more={claim.text: numbers for claim, numbers in found},
            ),
        ],
    )


def _over_layers(
    name: str, values: Floats, columns: tuple[str, str, str], first: int = 0, style: int = 0
) -> Banded:
    """A curve over layers from the ``first`` one; values are (trainings or pairs, layers).

    ``columns`` says what the name is of, what is counted, and what the values are.
    """
    layers = range(first, first + values.shape[1])
    return banded(name, layers, values, ("layer", columns[2]), columns[:2], style)


def _objectives(
    result: EvolutionResult,
    of: Callable[[Examined], ArrayLike],
    among: Sequence[str] = OBJECTIVES,
    first: int = 0,
) -> list[Banded]:
    """The same curve of several objectives, each in its own style."""
    columns = ("objective", "training", "value")
    return [
        _over_layers(one, result.curves(one, of), columns, first, OBJECTIVES.index(one))
        for one in among
    ]


def _by_layer(
    name: str, curves: list[Banded], y: str, caption: str, references: Sequence[Reference] = ()
) -> Figure:
    figure = lines([series for series, _ in curves], "layer", y, references=references)
    figure.update_xaxes(dtick=1)
    return Figure(name, figure, caption, [row for _, rows in curves for row in rows])


def _known(
    result: EvolutionResult, target: str, word: str, caption: str, *references: Reference
) -> Figure:
    means = [result.curves(o, lambda one: one.null[target]).mean() for o in OBJECTIVES]
    return _by_layer(
        f"What layers know of the token {word}",
        _objectives(result, lambda one: one.information[target]),
        "nats about the token" + (f" {word}" if target != "token" else ""),
        caption,
        [*references, Reference(float(np.mean(means)), "null: shuffled")],
    )


def _of_token_read(result: EvolutionResult) -> Figure:
    seen = result.examined()
    references = [Reference(seen[0].entropy["token"], "all there is to know")]
    most = min((min(one.cluster_entropy) for one in seen if one.cluster_entropy), default=np.inf)
    if most < np.inf:
        references.append(Reference(most, "ceiling of the clusters"))
    return _known(result, "token", "read", SEEDS, *references)


def _information(result: EvolutionResult) -> Section:
    seen = result.examined()
    masked = result.curves("MLM", lambda one: one.masked.null if one.masked else ())
    unread = f"{SEEDS} An LM has not read what is to come, MT and MLM have."
    return Section(
        "What is known of what was read",
        [
            "Vectors of a layer are put into clusters; the figures show how many nats the cluster "
            f"tells about the token that was read ({result.clusters} clusters, one recipe for all, "
            f"{seen[0].tokens} tokens). Clustering with another seed moves a value by at most "
            f"{max(one.clustering_spread['token'] for one in seen):.2f} nats.",
            *_probed(result),
            _known(result, "next", "to come", unread),
            _known(result, "previous", "before", unread),
            _by_layer(
                "What layers know of a hidden token",
                _objectives(
                    result, lambda one: one.masked.label if one.masked else (), ("LM", "MLM")
                ),
                "nats about the hidden token",
                f"{SEEDS} Words are hidden as in the training of the MLM; the LM, which never saw "
                "a hidden word, is the control.",
                [Reference(float(masked.mean()), "null: shuffled")],
            ),
            *_by_fate(
                result,
                "What the MLM knows of the word that stood there",
                "nats about the word",
                lambda one: one.word,
            ),
            *_by_fate(
                result,
                "What the MLM knows of the word that is read",
                "nats about the word",
                lambda one: one.read,
            ),
        ],
    )


def _probed(result: EvolutionResult) -> list[Figure]:
    """What a linear reader finds of the token read; older results do not say."""
    if not all(one.probe for one in result.examined()):
        return []
    return [
        _by_layer(
            "What a linear probe finds of the token read",
            _objectives(result, lambda one: one.probe["token"]),
            "nats at least",
            f"{SEEDS} Fitted on half of the sentences, judged on a quarter: layers know at least "
            "this, whatever clusters tell.",
        )
    ]


def _by_fate(
    result: EvolutionResult, name: str, y: str, of: Callable[[Apart], Curve], first: int = 0
) -> list[Figure]:
    """What the MLM makes of words hidden, replaced, kept and untouched; older results pooled."""
    seen = [one.masked.apart for one in result.examined("MLM") if one.masked]
    fates = [fate for fate in FATES if seen and all(fate in one for one in seen)]
    columns = ("fate", "training", "value")
    curves = [
        _over_layers(fate, np.array([of(one[fate]) for one in seen]), columns, first, number)
        for number, fate in enumerate(fates)
    ]
    caption = f"{SEEDS} Sentences are masked as in training, {result.samples} words of every fate."
    return [_by_layer(name, curves, y, caption)] if fates else []


def _distances(result: EvolutionResult) -> Section:
    named = [(f"{a} – {b}", a, b) for a, b in PAIRS]
    named += [(f"{o}, seeds only", o, o) for o in OBJECTIVES]
    found = [(name, result.between(left, right)) for name, left, right in named]
    null = float(np.mean([one.null for one in result.distances]))
    tokens = result.examined()[0].tokens
    return Section(
        "How far apart objectives are",
        [
            "PWCCA distance between the same layer of two models over the same tokens. Two "
            "trainings of one objective with different seeds are the floor: what differs between "
            "them is nothing that was asked for.",
            _by_layer(
                "Distance between objectives",
                [
                    _over_layers(name, values, ("pair", "number", "pwcca"), style=number)
                    for number, (name, values) in enumerate(found)
                    if len(values)
                ],
                "PWCCA distance",
                f"Line: mean over pairs of trainings; band: lowest to highest. {tokens} tokens, "
                f"{tokens / result.width:.0f} for each dimension; tokens paired at random would "
                f"be at {null:.2f}.",
            ),
        ],
    )


def _change(result: EvolutionResult) -> Section:
    return Section(
        "How much tokens change on their way",
        [
            "PWCCA distance between a layer and the one below it, over all tokens, and over "
            f"{result.samples} tokens of each group of frequency.",
            _by_layer(
                "Change from layer to layer",
                _objectives(result, lambda one: one.change, first=1),
                "PWCCA distance to the layer below",
                SEEDS,
            ),
            *_by_frequency(result, "change", lambda one: one.change_by_group),
            *_by_fate(
                result,
                "Change of words by what became of them in MLM",
                "PWCCA distance to the layer below",
                lambda one: one.change,
                first=1,
            ),
        ],
    )


def _influence(result: EvolutionResult) -> Section:
    return Section(
        "How much tokens change each other",
        [
            "In one layer a token is hidden from all others; its influence is the PWCCA distance "
            "between what those that could see it become there with and without it. Hiding "
            "nothing gives exactly zero.",
            *_by_frequency(result, "influence", lambda one: one.influence),
        ],
    )


def _by_frequency(
    result: EvolutionResult, what: str, of: Callable[[Examined], ByFrequency]
) -> list[Figure]:
    """One figure for every objective, with a curve for every group of tokens."""
    groups = of(result.examined()[0]).groups
    figures = []
    for objective in OBJECTIVES:
        # (trainings, groups, layers)
        values = result.curves(objective, lambda one: of(one).distance)
        figures.append(
            _by_layer(
                f"{what.capitalize()} by frequency in {objective}",
                [
                    _over_layers(group, values[:, n], ("group", "training", what), first=1, style=n)
                    for n, group in enumerate(groups)
                ],
                f"{what} (PWCCA distance)",
                f"{BAND} Rank 1 is the most frequent token.",
            )
        )
    return figures


def _neighbours(result: EvolutionResult) -> Section:
    first = result.examined()[0]

    def shared(name: str, what: str, unit: str, *references: Reference) -> Figure:
        return _by_layer(
            name,
            _objectives(result, lambda one: one.neighbours[what]),
            unit,
            SEEDS,
            [Reference(first.neighbours_null[what], "null: at random"), *references],
        )

    best = Reference(first.ceiling, "best possible")
    return Section(
        "What lies near",
        [
            f"The {result.k} nearest neighbours of a token in a layer's space: among all tokens "
            "for the first figure, among occurrences of the same token for the others.",
            shared("Neighbours that are the same token", "token", "share", best),
            shared("Distance in position of neighbours", "position", "tokens"),
            shared("Neighbours with the same token to the left", "left", "share"),
            shared("Neighbours with the same token to the right", "right", "share"),
        ],
    )


def _models(result: EvolutionResult) -> Section:
    diverged = [one.objective for one in result.trials if isinstance(one.outcome, Diverged)]
    rows: list[list[Cell]] = [
        [
            objective,
            result.parameters[objective],
            float(result.curves(objective, lambda one: one.valid_loss).mean()),
            float(result.curves(objective, lambda one: one.seconds).mean()),
            diverged.count(objective),
        ]
        for objective in OBJECTIVES
    ]
    return Section(
        "The models",
        [
            "The layers that read are the same; a translator has as many layers more that speak. "
            "Losses are of different questions and cannot be compared with each other.",
            Table(
                "What was trained",
                ["objective", "parameters", "validation loss", "training s", "diverged"],
                rows,
                "Means over seeds; losses in nats per predicted token.",
            ),
        ],
    )
