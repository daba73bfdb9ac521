"""The part of the page of `dialogue` on how models were trained, and their sizes."""

from __future__ import annotations

from mnemoscope.report.document import Cell, Section, Table
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import DialogueResult
from mnemoscope.studies.sentences import best_rates, mean_or_none
from mnemoscope.studies.study import Diverged

# States whose sizes differ by more than this factor are not called equal.
EQUAL = 1.1


def training_section(found: Recovered) -> Section:
    """How rates were chosen."""
    result = found.result
    rates = sorted({one.lr for one in result.trials})
    best = {facts.label: facts.lr for facts in result.models.values()}
    rows: list[list[Cell]] = []
    for model, facts in result.models.items():
        first = {
            one.lr: one.outcome for one in result.trials if (one.model, one.seed) == (model, 0)
        }
        losses: list[Cell] = [
            None if lr not in first or isinstance(one := first[lr], Diverged) else one.valid
            for lr in rates
        ]
        rows.append([facts.label, *losses])
    words = (
        "Every rate was tried with the first seed and chosen by the loss on the valid part; the "
        f"other seeds were trained with it. Chosen: {best_rates(best, rates)}"
    )
    table = Table(
        "Loss by learning rate",
        ["model", *(f"{rate:g}" for rate in rates)],
        rows,
        "Nats per token on the valid part, first seed.",
    )
    return Section("How they were trained", [*_running_text(result), words, table])


def _running_text(result: DialogueResult) -> list[str]:
    """What was read before conversations."""
    if not result.warmed:
        return []
    losses = [one.valid for one in result.warmed.values()]
    other = f" and {result.texts}" if result.texts else ""
    return [
        f"Before conversations every model read running text for {result.warm_steps} steps, the "
        f"documents to train on{other}, with every seed anew; floor and ceiling begin with the "
        f"same weights. Held-out pieces then cost {min(losses):.2f} to {max(losses):.2f} nats per "
        "token."
    ]


def sizes_section(found: Recovered) -> Section:
    """Sizes of models and states."""
    rows: list[list[Cell]] = []
    for model, label in found.labels.items():
        facts = found.result.models[model]
        time = mean_or_none([one.seconds for one in found.trials[model]])
        rows.append([label, facts.parameters, facts.width, facts.state_bytes, time])
    held = {m: found.result.models[m].state_bytes for m in found.contestants}
    usual = held.get("transformer_xl") or max(held.values(), default=0)
    other = [
        found.labels[m] for m, size in held.items() if not usual / EQUAL <= size <= usual * EQUAL
    ]
    words = (
        "All have the same parameters, to one unit of a feed-forward layer, and as many vectors in "
        "their state where they can: half for the last tokens, half for what is older."
    )
    if found.result.pretrained:
        words = (
            "One model, whose own attention reads what each memory holds: as many vectors a layer, "
            "and the first few keys of a text."
        )
    if (learnt := found.result.learnt) is not None:
        words += (
            f" The document memory learnt all {learnt.documents} documents ({learnt.tokens} "
            f"tokens) before any conversation, in {learnt.seconds:.0f} CPU seconds: their tokens "
            f"cost {learnt.none:.2f} nats without it and {learnt.right:.2f} with it, and "
            f"{learnt.recited} are recited. Its bytes are those of all documents together; it "
            "reads none, and knows which one is meant by its name."
        )
    if other:
        words += (
            f" Of another size: {', '.join(other)}. A window alone carries nothing, and a "
            "recurrent state has the size of its width."
        )
    table = Table(
        "Sizes",
        ["model", "parameters", "width", "state bytes", "training s"],
        rows,
        "State of one conversation at the end of the longest, measured at the end of a window; the "
        "ceiling's grows with what it reads. Time of one training on one thread.",
    )
    return Section("What each carries", [words, table])
