"""The page of the study `evolution`: every figure and sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference
from mnemoscope.report.claims import Claim, claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.evolution.claims import PAIRS, PAPER, claims, gates
from mnemoscope.studies.evolution.curves import (
    SEEDS,
    by_group,
    by_layer,
    by_objective,
    over_layers,
)
from mnemoscope.studies.evolution.finding import sentences
from mnemoscope.studies.evolution.moments_page import of_moments
from mnemoscope.studies.evolution.result import (
    FATES,
    OBJECTIVES,
    Apart,
    Curve,
    EvolutionResult,
)
from mnemoscope.studies.evolution.words_page import of_words
from mnemoscope.studies.findings import lead
from mnemoscope.studies.sentences import best_rates
from mnemoscope.studies.study import Diverged


def page(result: EvolutionResult) -> list[Section]:
    """Say and draw what was seen."""
    judged = claims(result)
    told = sentences(result, [claim for claim, _ in judged])
    parts = (_information, _distances, _change, _influence, _neighbours)
    return [
        lead(told, _of_token_read(result)),
        _claims(result, judged),
        *(part(result) for part in parts),
        *of_words(result),
        *of_moments(result),
        _models(result),
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
            _beside_the_paper(
                claims_table(
                    "Orderings of the paper",
                    [claim for claim, _ in found],
                    more={claim.text: numbers for claim, numbers in found},
                )
            ),
        ],
    )


def _beside_the_paper(table: Table) -> Table:
    """The same with a column of what the paper reports."""
    columns = [*table.columns, "paper"]
    rows = [[*row, PAPER.get(str(row[0]), "")] for row in table.rows]
    caption = f"{table.caption} Numbers of the paper are read off its figures."
    return Table(table.name, columns, rows, caption)


def _known(
    result: EvolutionResult, target: str, word: str, caption: str, *references: Reference
) -> Figure:
    means = [result.curves(o, lambda one: one.null[target]).mean() for o in OBJECTIVES]
    return by_layer(
        f"What layers know of the token {word}",
        by_objective(result, lambda one: one.information[target]),
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
            by_layer(
                "What layers know of a hidden token",
                by_objective(
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
        by_layer(
            "What a linear probe finds of the token read",
            by_objective(result, lambda one: one.probe["token"]),
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
        over_layers(fate, np.array([of(one[fate]) for one in seen]), columns, first, number)
        for number, fate in enumerate(fates)
    ]
    caption = f"{SEEDS} Sentences are masked as in training, {result.samples} words of every fate."
    return [by_layer(name, curves, y, caption)] if fates else []


def _distances(result: EvolutionResult) -> Section:
    named = [(f"{a} – {b}", a, b) for a, b in PAIRS]
    named += [(f"{o}, seeds only", o, o) for o in OBJECTIVES]
    found = [(name, result.between(left, right)) for name, left, right in named]
    alike = [(f"{a} – {b}", result.between(a, b, same_start=True)) for a, b in PAIRS]
    null = float(np.mean([one.null for one in result.distances]))
    tokens = result.examined()[0].tokens
    return Section(
        "How far apart objectives are",
        [
            "PWCCA distance between the same layer of two models over the same tokens. Two "
            "trainings of one objective with different seeds are the floor: what differs between "
            "them is nothing that was asked for.",
            by_layer(
                "Distance between objectives",
                [
                    over_layers(name, values, ("pair", "number", "pwcca"), style=number)
                    for number, (name, values) in enumerate(found)
                    if len(values)
                ],
                "PWCCA distance",
                f"Line: mean over pairs of trainings; band: lowest to highest. {tokens} tokens, "
                f"{tokens / result.width:.0f} for each dimension; tokens paired at random would "
                f"be at {null:.2f}.",
            ),
            *_from_one_start([(name, values) for name, values in alike if len(values)]),
            *_from_untrained(result),
        ],
    )


def _from_one_start(pairs: Sequence[tuple[str, Floats]]) -> list[Figure]:
    """Distances of objectives that began with the same weights; not every result has any."""
    if not pairs:
        return []
    columns = ("pair", "number", "pwcca")
    curves = [over_layers(*one, columns, style=number) for number, one in enumerate(pairs)]
    caption = (
        "One training of each objective, all of which begin with the same embeddings and the same "
        "layers that read, as in the paper. Layer 0 is the embeddings."
    )
    name = "Distance between objectives from one initialisation"
    return [by_layer(name, curves, "PWCCA distance", caption)]


def _from_untrained(result: EvolutionResult) -> list[Figure]:
    """Distances of models from what they were before their first step; older results have none."""
    objective = {one.run: one.objective for one in result.trials}
    curves = []
    for number, name in enumerate(OBJECTIVES):
        found = [one.pwcca for one in result.untrained if objective[one.left] == name]
        if found:
            columns = ("objective", "training", "pwcca")
            curves.append(over_layers(name, np.array(found), columns, style=number))
    if not curves:
        return []
    caption = f"{SEEDS} The same tokens, read by the same model before its first step."
    return [by_layer("Distance from untrained models", curves, "PWCCA distance", caption)]


def _change(result: EvolutionResult) -> Section:
    return Section(
        "How much tokens change on their way",
        [
            "PWCCA distance between a layer and the one below it, over all tokens, and over "
            f"{result.samples} tokens of each group of frequency.",
            by_layer(
                "Change from layer to layer",
                by_objective(result, lambda one: one.change, first=1),
                "PWCCA distance to the layer below",
                SEEDS,
            ),
            *by_group(result, "change", "frequency", lambda one: one.change_by_group),
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
            *by_group(result, "influence", "frequency", lambda one: one.influence),
        ],
    )


def _neighbours(result: EvolutionResult) -> Section:
    first = result.examined()[0]

    def shared(name: str, what: str, unit: str, *references: Reference) -> Figure:
        return by_layer(
            name,
            by_objective(result, lambda one: one.neighbours[what]),
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
            *(
                [shared("Neighbours of other kinds with the same part of speech", "label", "share")]
                if "label" in first.neighbours
                else []
            ),
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
            *_rates(result),
            Table(
                "What was trained",
                ["objective", "parameters", "validation loss", "training s", "diverged"],
                rows,
                "Means over seeds; losses in nats per predicted token.",
            ),
        ],
    )


def _rates(result: EvolutionResult) -> list[str]:
    """Which learning rates were chosen; where one was given, nothing is said of it."""
    if not result.tried:
        return []
    rates = best_rates(result.rates, [one.lr for one in result.tried])
    return [f"Learning rates with the lowest validation loss after short trainings: {rates}"]
