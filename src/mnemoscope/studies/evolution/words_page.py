"""What the page of the study `evolution` says of words: by part of speech, and one by one."""

from __future__ import annotations

import numpy as np

from mnemoscope.lenses.occurrences.result import OccurrencesResult
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.evolution.curves import by_group
from mnemoscope.studies.evolution.parts_of_speech import CLOSED, OPEN
from mnemoscope.studies.evolution.result import OBJECTIVES, ByFrequency, EvolutionResult, Examined


def of_words(result: EvolutionResult) -> list[Section]:
    """Sections of a result that knows parts of speech; none of one that does not."""
    return [*_by_class(result), *_drawn(result)]


def _by_class(result: EvolutionResult) -> list[Section]:
    seen = result.examined()
    if any(one.change_by_class is None or one.influence_by_class is None for one in seen):
        return []

    def change(one: Examined) -> ByFrequency:
        assert one.change_by_class is not None
        return one.change_by_class

    def influence(one: Examined) -> ByFrequency:
        assert one.influence_by_class is not None
        return one.influence_by_class

    left_out = {name: count for one in seen for name, count in change(one).left_out.items()}
    few = ", ".join(f"{name} ({count})" for name, count in left_out.items())
    return [
        Section(
            "By part of speech",
            [
                f"Tokens are of a closed class ({', '.join(CLOSED)}), numbers, punctuation, or of "
                f"the {OPEN}: whatever is in no list. The lists were written for this study; a "
                "word that can be of several classes is in the one that it is most often of, and "
                "no tagger has looked at its sentence. Every piece of a word has the class of the "
                f"word. {result.samples} tokens of every class count."
                + (f" Classes with fewer are left out: {few}." if few else ""),
                *by_group(result, "change", "part of speech", change),
                *by_group(result, "influence", "part of speech", influence),
            ],
        )
    ]


def _drawn(result: EvolutionResult) -> list[Section]:
    figures = []
    for objective in OBJECTIVES:
        first = next((one for one in result.examined(objective) if one.drawn), None)
        if first is None or first.drawn is None:
            continue
        given = first.drawn
        found = OccurrencesResult(
            first.sites,
            given.words,
            np.array(given.positions),
            np.array(given.coordinates),
            np.array(given.explained),
            given.even,
        )
        figures.append(
            Figure(
                f"Occurrences in {objective}",
                found.figure(),
                "Two principal components of every layer, rotated to follow the layer before; the "
                "slider goes through the layers. In brackets: the share of the variance that they "
                "hold. The first training of the objective.",
                found.table(),
            )
        )
    if not figures:
        return []
    words = next(one.drawn.words for one in result.examined() if one.drawn)
    named = ", ".join(repr(word) for word in dict.fromkeys(words))
    return [
        Section(
            "Occurrences of a few words",
            [f"Every dot is one occurrence of {named} in a test sentence.", *figures],
        )
    ]
