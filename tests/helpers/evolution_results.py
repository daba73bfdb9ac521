"""Results of the study `evolution` that were made up, and what its page makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mnemoscope.report.claims import Claim
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.evolution.claims import claims
from mnemoscope.studies.evolution.result import (
    FATES,
    OBJECTIVES,
    Apart,
    ByFrequency,
    Distance,
    DistancesAt,
    Drawn,
    EvolutionResult,
    Examined,
    Masked,
    Moment,
    Short,
    Trained,
    Tried,
)

FALLING, DIP, FLAT = (3.0, 2.5, 1.0), (3.0, 2.0, 2.8), (3.0, 3.0, 3.0)
Sites = dict[str, tuple[float, ...]]
AS_PUBLISHED: Sites = {"LM": FALLING, "MLM": DIP, "MT": FLAT}


def examined(token: tuple[float, ...], seed: int, masked: bool) -> Examined:
    """What the lenses could have seen in a model of two layers."""
    by_group = ByFrequency(
        ("rank 1–5", "rank 6–9"), {}, ((0.4, 0.3 + seed / 10), (0.4, 0.2)), ((0.1, 0.1),) * 2
    )
    about = {"token": token, "next": (1.0, 1.5, 2.0 + seed), "previous": FLAT}
    null: Sites = {
        "token": (0.1, 0.2, 0.3),
        "next": (0.1,) * 3,
        "previous": (0.1,) * 3,
    }
    shares: Sites = dict.fromkeys(("token", "position", "left", "right"), (1.0, 0.5, 0.25))
    fate = Apart((0.0, 0.5, 1.0), (0.1,) * 3, 3.0, (2.0, 1.5, 1.0), (0.3, 0.1))
    return Examined(
        sites=("embeddings", "layer.0.out", "layer.1.out"),
        tokens=800,
        entropy={"token": 3.5, "next": 3.4, "previous": 3.3},
        information=about,
        null=null,
        adjusted=null,
        inertia=FLAT,
        clustering_spread={"token": 0.05 + seed / 100, "next": 0.9, "previous": 0.9},
        change=(0.3, 0.1),
        change_by_group=by_group,
        influence=by_group,
        neighbours=shares,
        neighbours_null=dict.fromkeys(shares, 0.125),
        ceiling=0.875,
        seconds=2.0 + seed,
        valid_loss=1.0 + seed,
        masked=Masked((0.0, 0.5, 1.0), (0.1,) * 3, 3.0, dict.fromkeys(FATES, fate))
        if masked
        else None,
        trivial={"unigram": 4.0, "bigram": 3.0},
        probe=about,
        cluster_entropy=(4.0,) * 3,
        clusters=20,
    )


def made(token: Sites = AS_PUBLISHED) -> EvolutionResult:
    """Two seeds each; runs of one objective are 0.1 apart, of MT and LM 0.6, of others 0.4."""
    trials = tuple(
        Trained(o, seed, f"{o.lower()}-seed{seed}", examined(token[o], seed, o != "MT"))
        for o in OBJECTIVES
        for seed in range(2)
    )
    distances = []
    for number, left in enumerate(trials):
        for right in trials[number + 1 :]:
            pair = {left.objective, right.objective}
            top = 0.1 if len(pair) == 1 else 0.6 if pair == {"MT", "LM"} else 0.4
            distances.append(Distance(left.run, right.run, (0.0, 0.05, top), (0.9, 0.9, 0.9)))
    counts = {"MT": 300, "LM": 200, "MLM": 200}
    return EvolutionResult(None, 2, 8, 20, 100, 3, counts, trials, tuple(distances))


def with_film(result: EvolutionResult) -> EvolutionResult:
    """The same with moments, parts of speech, occurrences and a start that all share."""

    def more(one: Trained) -> Trained:
        seen = one.outcome
        assert isinstance(seen, Examined)
        film = tuple(
            Moment(
                step=step,
                valid_loss=4.0 - step / 10,
                information={"token": (3.0, 3.0 - step / 10, 3.0 - step / 5), "next": FLAT},
                null={"token": FLAT, "next": FLAT},
                change=(0.3, 0.1),
                change_by_group=seen.change_by_group,
                influence=seen.influence,
                neighbours=seen.neighbours,
                hidden=None if one.objective == "MT" else (0.0, 0.5, 1.0),
            )
            for step in (0, 2, 5)
        )
        dots = Drawn(("is", "are"), (1, 2), (((0.0, 1.0), (1.0, 0.0)),) * 3, (0.5,) * 3, 0.25)
        outcome = replace(
            seen,
            moments=film,
            drawn=dots,
            bleu=30.0 if one.objective == "MT" else None,
            change_by_class=seen.change_by_group,
            influence_by_class=seen.influence,
            trivial={**seen.trivial, "trigram": 2.5, "neighbours": 2.5},
            neighbours={**seen.neighbours, "label": FLAT},
            neighbours_null={**seen.neighbours_null, "label": 0.2},
        )
        return replace(one, outcome=outcome, same_start=one.seed == 1)

    moments = tuple(DistancesAt(step, result.distances) for step in (0, 2, 5))
    untrained = tuple(
        Distance(one.run, f"{one.run} untrained", (0.1, 0.2, 0.3), (0.9,) * 3)
        for one in result.trials
    )
    tried = tuple(Tried(o, lr, Short(3.0 + lr)) for o in OBJECTIVES for lr in (1e-3, 2e-3))
    return replace(
        result,
        trials=tuple(map(more, result.trials)),
        moments=moments,
        untrained=untrained,
        rates=dict.fromkeys(OBJECTIVES, 1e-3),
        tried=tried,
    )


def part(sections: list[Section], name: str) -> Figure | Table:
    found = [one for section in sections for one in section.parts if not isinstance(one, str)]
    return next(one for one in found if one.name == name)


def judged(result: EvolutionResult) -> dict[str, tuple[Claim, str]]:
    return {claim.text: (claim, numbers) for claim, numbers in claims(result)}


def verdicts(result: EvolutionResult) -> dict[str, str]:
    return {text: claim.verdict for text, (claim, _) in judged(result).items()}


def changed(result: EvolutionResult, *objectives: str, **fields: Any) -> EvolutionResult:
    """The same with other numbers in every training of some objectives."""
    trials = (
        replace(one, outcome=replace(one.outcome, **fields)) if one.objective in objectives else one
        for one in result.trials
    )
    return replace(result, trials=tuple(trials))
