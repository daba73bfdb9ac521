"""Parts of the page of `sorting`: how models were trained, and what each option is worth."""

from __future__ import annotations

from mnemoscope.plots.figure import Reference, Series, bars
from mnemoscope.report.claims import Claim, claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.sentences import bands_of, best_rates, said
from mnemoscope.studies.sorting.claims import LEAST, asked_at, gates_of
from mnemoscope.studies.sorting.contestants import VARIANTS
from mnemoscope.studies.sorting.result import SortingResult

# What the ablation changes one thing of.
WHOLE = "equal"


def training_sections(result: SortingResult) -> list[Section]:
    """How every model was trained, and how its learning rate was chosen."""
    if not result.steps:  # an older result does not say
        return []
    words: list[str | Table] = []
    if result.curriculum:
        begun = " then ".join(map(str, result.curriculum))
        words.append(
            f"All trainings have {result.steps} steps. All begin with shorter streams, "
            f"{result.curriculum_steps} steps each of {begun} tokens: on long ones alone a model "
            "stays for long with what it can see."
        )
    if result.swept:
        rates = sorted({one.lr for one in result.swept})
        best = {f.label: f.lr for f in result.models.values() if f.lr is not None}
        words.append(
            f"Rates were chosen for every model by one training of {result.sweep_steps} steps "
            "each, on streams and with a seed that are not reported. Chosen: "
            f"{best_rates(best, rates)}"
        )
        rows: list[list[Cell]] = [
            [
                facts.label,
                *(
                    next((s.loss for s in result.swept if (s.model, s.lr) == (name, lr)), None)
                    for lr in rates
                ),
            ]
            for name, facts in result.models.items()
        ]
        words.append(
            Table(
                "Loss by learning rate",
                ["model", *(f"{rate:g}" for rate in rates)],
                rows,
                "On held-out streams, in nats per answer, at the end of the short training.",
            )
        )
    return [Section("How they were trained", words)] if words else []


def turned(result: SortingResult) -> list[str]:
    """Models that are the whole ∞-former with one option changed, and have it to compare with."""
    if WHOLE not in result.models:
        return []
    return [name for name, facts in result.models.items() if facts.knob]


def ablation_figure(result: SortingResult) -> Figure:
    """Accuracy of every variant, at the trained length and at the longest."""
    trained = result.trained[-1]
    names = {name: _short(name) for name in (WHOLE, *turned(result))}
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for length in dict.fromkeys((asked_at(result, trained), result.tested[-1])):
        scores = result.scores_at(trained, length)
        found = [scores[result.models[name].label] for name in names]
        series.append(bands_of(f"{length} tokens", list(names.values()), found))
        rows += [
            {"variant": variant, "length": length, "seed": seed, "accuracy": float(value)}
            for variant, seeds in zip(names.values(), found, strict=True)
            for seed, value in enumerate(seeds)
        ]
    return Figure(
        "Ablation",
        bars(
            series,
            "what is changed",
            "share of symbols right",
            references=[Reference(result.chance, "chance")],
            y_range=(0, 1.03),
        ),
        f"The ∞-former with equal shares, and with one option changed. Teacher-forced, trained at "
        f"{trained}. Bar: mean of seeds; whisker: lowest to highest.",
        rows,
    )


def ablation_sections(result: SortingResult) -> list[Section]:
    """What becomes of the accuracy when one option of the ∞-former is changed."""
    names = turned(result)
    if not names:
        return []
    trained, longest = result.trained[-1], result.tested[-1]
    last, gates = result.scores_at(trained, longest), gates_of(result, trained)
    whole = result.models[WHOLE].label
    rows: list[list[Cell]] = []
    claims = []
    for name in names:
        facts = result.models[name]
        more = (last[facts.label][:, None] - last[whole]).ravel()
        rows.append([facts.knob, _short(name), said(last[facts.label]), float(more.mean())])
        text = f"{_short(name)}: more is right in its place, at {longest}"
        claims.append(Claim(text, more, LEAST, "", [gates[facts.label], gates[whole]]))
    words = (
        "One thing at a time is changed of the ∞-former with equal shares, N vectors and no "
        f"cache, which has {said(last[whole])} of the symbols right at {longest}. What counts is "
        f"{LEAST} of the answers, of every seed against every seed; opposite: as much less."
    )
    columns = ["option", "variant", f"accuracy at {longest}", "more than equal shares"]
    table = Table("Options", columns, rows, "Mean over seeds, lowest to highest.")
    judged = claims_table("What an option changes", claims)
    return [Section("What each option changes", [words, judged, table])]


def _short(name: str) -> str:
    return VARIANTS[name].said if name in VARIANTS else name
