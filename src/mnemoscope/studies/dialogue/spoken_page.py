"""The part of the page of `dialogue` on what models say themselves, beside what was published."""

from __future__ import annotations

import numpy as np

from mnemoscope.report.document import Cell, Section, Table
from mnemoscope.studies.dialogue.recovered import Recovered

_SCORES = ("f1", "rouge_1", "rouge_l", "meteor", "bleu")
# Of the ∞-former with sticky memories on CMU-DoG, in percent, as leaderboards give them from the
# paper (Martins 2022); its other rows were found nowhere but in the paper.
_PUBLISHED = {"f1": 9.01, "rouge_1": 15.37, "rouge_l": 12.56, "meteor": 7.55}


def spoken_section(found: Recovered) -> list[Section]:
    """How like the true replies those are that models give themselves."""
    rows: list[list[Cell]] = []
    greedy: list[list[Cell]] = []
    stems = True
    for model, label in found.labels.items():
        for place, first in enumerate(found.trials[model][0].replies):
            seeds = [one.replies[place] for one in found.trials[model]]
            scores = {
                name: float(np.mean([getattr(one, name) for one in seeds])) for name in _SCORES
            }
            rows.append([label, first.how, first.count, *scores.values()])
            stems &= all(one.stems for one in seeds)
            if first.how == "greedy":
                ours = [100 * scores[name] for name in _PUBLISHED]
                size = found.result.models[model].parameters
                greedy.append([f"{label}, greedy", size, *ours])
    if not rows:
        return []
    words = (
        "Each model gave one reply in each of some conversations, having read all before it. What "
        "was really said is one of many good answers, so these scores are low for everybody; they "
        "are here because the field reports them."
    )
    meteor = "METEOR (stems)" if stems else "METEOR (exact)"
    columns = ["model", "replies", "count", "F1", "ROUGE-1", "ROUGE-L", meteor, "BLEU"]
    matches = "words and stems, no synonyms" if stems else "exact words alone"
    caption = f"Mean of the seeds. METEOR matches {matches}; BLEU is sacreBLEU's."
    parts: list[str | Table] = [words, Table("Replies", columns, rows, caption)]
    if found.result.corpus == "cmu_dog":
        parts += _beside(found, greedy)
    return [Section("What they say", [*parts])]


def _beside(found: Recovered, greedy: list[list[Cell]]) -> list[str | Table]:
    """The published row and ours, and why they are not one contest."""
    result = found.result
    published: list[Cell] = ["∞-former (sticky), published", None, *_PUBLISHED.values()]
    first = next(iter(found.trials.values()))[0].replies[0]
    ours = f"{result.pretrained}, not trained" if result.pretrained else "models from scratch"
    return [
        "Beside what was published, which is no contest: there a pretrained GPT-2 with a signal of "
        f"512 functions (as in the released code) was trained on these conversations; here {ours}, "
        f"with {result.vectors} vectors a layer, a window of {result.window}, and "
        f"{first.count} replies scored.",
        Table(
            "Beside the published scores",
            ["model", "parameters", "F1", "ROUGE-1", "ROUGE-L", "METEOR"],
            [published, *greedy],
            "In percent. Which words, stems and synonyms the published scores count, and how its "
            "replies were drawn, is not known here; perplexities are per token of another "
            "vocabulary there, and not set side by side.",
        ),
    ]
