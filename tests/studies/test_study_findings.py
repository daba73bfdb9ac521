"""What pages of studies lead with: computed from the shipped results, and from ones gone wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from mnemoscope.core.registry import find
from mnemoscope.core.statistics import Estimate
from mnemoscope.report.claims import Claim, Gate
from mnemoscope.report.document import Figure, Finding
from mnemoscope.shipped import load
from mnemoscope.studies.books.losses import Losses
from mnemoscope.studies.books.result import BooksResult
from mnemoscope.studies.documents.claims import of_negatives
from mnemoscope.studies.documents.result import DocumentsResult
from mnemoscope.studies.documents.settings import ALL_ON, FREE, GUIDED, RANDOM
from mnemoscope.studies.evolution.result import EvolutionResult
from mnemoscope.studies.findings import counted, how_often, listed
from mnemoscope.studies.infinite.result import Attached, InfiniteResult, best_without_past
from mnemoscope.studies.waves.result import Examined, WavesResult

NAMES = ("books", "documents", "evolution", "infinite", "waves")
LONGEST = 260


@cache
def shipped(name: str) -> Any:
    found = load(name).result
    # The page of a real model stands below and takes longest to draw.
    return replace(found, real=None) if name == "waves" else found


def finding(name: str, result: Any) -> Finding:
    """What the page of a result leads with; its sentences are as short and plain as all must be."""
    found = find("study", name).page(result)[0]
    assert isinstance(found, Finding)
    for sentence in found.parts[:-1]:
        assert isinstance(sentence, str)
        assert sentence.endswith(".")
        assert len(sentence) < LONGEST
        assert "nan" not in sentence
        assert not {">", "<", "≈"} & set(sentence)
    return found


def told(name: str, result: Any) -> str:
    return " ".join(str(part) for part in finding(name, result).parts[:-1])


def shown(name: str, result: Any) -> Figure:
    figure = finding(name, result).parts[-1]
    assert isinstance(figure, Figure)
    return figure


def values(figure: Figure, column: str, **where: Any) -> Any:
    """What a figure shows in the rows that are so."""
    return np.array([row[column] for row in figure.data if where.items() <= row.items()])


@pytest.mark.parametrize("name", NAMES)
def test_a_page_leads_with_a_finding_whose_figure_is_drawn_once(name: str) -> None:
    figure = shown(name, shipped(name))
    sections = find("study", name).page(shipped(name))
    names = [part.name for one in sections for part in one.parts if isinstance(part, Figure)]
    assert names.count(figure.name) == 1
    assert figure.figure.layout.height < 350
    assert not any(isinstance(one, Finding) for one in sections[1:])


def books_of(result: BooksResult, *models: str, **changes: Any) -> BooksResult:
    """The same with some of the models only."""
    trials = tuple(one for one in result.trials if one.model in models)
    known = {name: one for name, one in result.models.items() if name in models}
    return replace(result, models=known, trials=trials, **changes)


def books_without_a_ceiling() -> BooksResult:
    """As older studies had it: memories against none."""
    result = shipped("books")
    names = [name for name in result.models if name != "ceiling"]
    return books_of(result, *names, context=None)


def test_books_says_who_saves_and_whether_by_its_state() -> None:
    result = books_without_a_ceiling()
    losses = Losses(result)
    words = told("books", result)
    gain, cost = (
        losses.gain("transformer_xl", losses.all), losses.cost("transformer_xl", "shuffled")
    )  # fmt: skip
    spent = {
        name: np.mean([np.sum(t.outcome.bits) for t in result.trials if t.model == name])
        for name in ("none", "transformer_xl")
    }
    assert gain.mean == pytest.approx(
        (spent["none"] - spent["transformer_xl"]) / sum(sum(one.bytes) for one in result.passages)
    )
    assert (
        f"Transformer-XL saves {gain.mean:.3f} (95 %: {gain.low:.3f} to {gain.high:.3f})" in words
    )
    assert "no other memory surely does." in words
    assert f"another passage Transformer-XL needs {cost.mean:.3f}" in words
    bars = {row["model"]: row["bits per byte saved"] for row in shown("books", result).data}
    assert bars["Transformer-XL"] == gain.mean
    # Who needs more than counted pairs is not ranked.
    worst = max(
        (np.sum(one.outcome.bits) / sum(map(sum, (p.bytes for p in result.passages))), one.model)
        for one in result.trials
    )
    strict = replace(result, bigram=worst[0] - 1e-9)
    label = result.models[worst[1]].label
    assert f"Not ranked: {label} did not beat counted pairs of bytes" in told("books", strict)
    assert label not in {row["model"] for row in shown("books", strict).data}


def test_books_that_cannot_tell_says_why() -> None:
    result = books_without_a_ceiling()
    why = "Whether memory helps cannot be told: "
    alone = books_of(result, "none")
    assert told("books", alone) == f"{why}no model with a memory came to its end."
    assert shown("books", alone).name == "Bits per byte by model"
    without = books_of(result, "infinite")
    assert told("books", without) == f"{why}no model without memory came to its end."
    lazy = books_of(result, "none", "infinite", bigram=1.0)
    failed = "no memory and ∞-former did not beat counted pairs of bytes in every seed."
    assert told("books", lazy) == why + failed
    doubtful = told("books", books_of(result, "none", "infinite"))
    assert doubtful.startswith(
        "No memory surely lowers the loss on unseen books: the most is saved"
    )
    assert "Not ranked" not in doubtful
    sure = replace(result, bigram=None, trials=tuple(one for one in result.trials if one.seed == 1))
    assert "Not ranked" not in told("books", sure)
    one_seed = replace(result, trials=tuple(one for one in result.trials if one.seed == 0))
    assert "bits per byte against no memory" in told("books", one_seed)


def test_documents_says_right_wrong_and_what_guidance_gives() -> None:
    result = shipped("documents")
    words = told("documents", result)

    def mean(setting: Any, key: str) -> float:
        return float(np.mean([getattr(fit, key) for fit in result.of(setting)]))

    right, wrong, none = (mean(GUIDED, key) for key in ("right", "wrong", "none"))
    assert f"{right:.2f} nats per token, with another document {wrong:.2f}, without" in words
    assert f"without memory {none:.2f}; in 100 % of segments" in words
    apart, free, random, every_on = (
        mean(one, "wrong") - mean(one, "right") for one in (GUIDED, FREE, RANDOM, ALL_ON)
    )
    assert (
        f"Of the {apart:.2f} nats between wrong and right, guidance gives {apart - free:.2f};"
        in (words)
    )
    assert f"nobody learnt give {random:.2f}, all entries on {every_on:.2f}." in words
    lost = mean(GUIDED, "later_right") - mean(GUIDED, "later_none")
    assert f"a text, not its topic: what follows it loses {lost:.2f} nats" in words
    drawn = values(shown("documents", result), "right", setting=GUIDED.name)
    assert drawn.mean() == pytest.approx(right)


def with_guided(result: DocumentsResult, **numbers: Any) -> DocumentsResult:
    """The same with other numbers in every guided training."""
    trained = tuple(
        replace(one, fits=tuple(replace(fit, **numbers) for fit in one.fits))
        if one.setting == GUIDED
        else one
        for one in result.trained
    )
    return replace(result, trained=trained)


def test_documents_that_were_not_learnt_are_not_praised() -> None:
    result = shipped("documents")
    for numbers in ({"right": 9.0}, {"named": 0.0}):
        words = told("documents", with_guided(result, **numbers))
        assert words.startswith("Whether the model keeps texts by name cannot be told: not every")
        assert "Yes" not in words
    topic = told("documents", with_guided(result, later_none=3.0, later_right=2.5))
    assert "keeps its topic too: what follows a learnt text gains 0.50 nats" in topic
    neither = told("documents", with_guided(result, later_none=3.0, later_right=2.99))
    assert "that its topic is kept cannot be said (+0.01 nats" in neither


def changed(result: EvolutionResult, objective: str, **fields: Any) -> EvolutionResult:
    trials = (
        replace(one, outcome=replace(one.outcome, **fields)) if one.objective == objective else one
        for one in result.trials
    )
    return replace(result, trials=tuple(trials))


def test_evolution_says_what_each_objective_keeps() -> None:
    result = shipped("evolution")
    words = told("evolution", result)

    def known(objective: str, layer: int) -> str:
        seen = [one.outcome for one in result.trials if one.objective == objective]
        return f"{np.mean([one.information['token'][layer] for one in seen]):.2f}"

    assert f"top layer tells {known('LM', -1)} nats, the embeddings {known('LM', 0)}, sh" in words
    assert f"keep more: {known('MT', -1)} and {known('MLM', -1)} nats in their top" in words
    assert "Of 11 orderings that Voita, Sennrich and Titov (2019) report, " in words
    assert shown("evolution", result).name == "What layers know of the token read"


def test_evolution_of_models_that_learnt_nothing_or_lose_nothing() -> None:
    result = shipped("evolution")
    lazy = told("evolution", changed(result, "LM", valid_loss=99.0))
    assert "loses what it reads with depth cannot be told: not every training passed" in lazy
    assert "keep more" not in lazy
    (first, *_) = result.examined("LM")
    flat = {**first.information, "token": (3.0,) * len(first.sites)}
    same = told("evolution", changed(result, "LM", information=flat))
    assert "The language model (LM) does not lose what it reads with depth" in same
    few = changed(result, "LM", cluster_entropy=(3.0,) * len(first.sites))
    clusters = f"cannot be told: {result.clusters} clusters tell nearly all that so many can"
    assert clusters in told("evolution", few)


def test_infinite_says_what_the_own_past_saves_on_both_texts() -> None:
    result = shipped("infinite")
    made_up, topics, bound = finding("infinite", result).parts[:-1]
    for attached, words in ((result.made_up, made_up), (result.topics, topics)):
        fits = [one.fits["signal"] for one in attached.seeds]
        for past in ("none", "other"):
            gain = np.mean([fit.loss(past) - fit.loss("own") for fit in fits])
            assert f"{abs(gain):.2f}" in words
    own = np.mean([one.fits["signal"].loss("own") for one in result.made_up.seeds])
    best = np.mean(best_without_past(result.vocab_size, result.own, result.window)[1:])
    assert f"made-up texts, {own:.2f} nats per token, is above the {best:.2f} that" in bound
    losses = values(shown("infinite", result), "loss", past="its own state")
    assert losses.mean() == pytest.approx(own)


def signal(attached: Attached, change: Callable[[Any], Any], **of_seed: Any) -> Attached:
    """The same with another signal in every seed."""
    return Attached(
        tuple(
            replace(one, fits={**one.fits, "signal": change(one.fits["signal"])}, **of_seed)
            for one in attached.seeds
        )
    )


def test_infinite_says_when_nothing_can_be_told() -> None:
    result: InfiniteResult = shipped("infinite")
    same = signal(result.topics, lambda fit: fit, trivial=None)
    words = told("infinite", replace(result, topics=same))
    assert "On help topics nothing can be said of an attached memory: not every training" in words
    # An interval that holds zero is neither a gain nor a loss, however far its lower end lies.
    doubt = Estimate(-0.03, -0.08, 0.02)
    unsure = signal(result.topics, lambda fit: replace(fit, over_none=doubt))
    words = told("infinite", replace(result, topics=unsure))
    assert (
        "On help topics the attached ∞-former saves nothing that counts over no state (-0" in words
    )
    lazy = signal(result.made_up, lambda fit: fit, trivial=0.0)
    assert "perfect reader" not in told("infinite", replace(result, made_up=lazy))
    # A mean below the bound is not below it when one seed is above.
    best = float(np.mean(best_without_past(result.vocab_size, result.own, result.window)[1:]))
    near = iter([best - 0.3, best - 0.3, best + 0.1])

    def moved(fit: Any) -> Any:
        loss = next(near)
        return replace(fit, losses={**fit.losses, "own": (loss,) * len(fit.losses["own"])})

    torn = told("infinite", replace(result, made_up=signal(result.made_up, moved)))
    assert "is not told apart from the" in torn


def test_documents_judge_which_negatives_come_nearest_to_what_was_asked() -> None:
    (claim,) = of_negatives(shipped("documents"))
    assert claim.gates
    assert claim.least > 0
    assert len(claim.effects) == 3
    assert claim.text.startswith("other negatives bring")


def test_waves_says_what_positions_do_and_what_is_unclear() -> None:
    result = shipped("waves")
    words = told("waves", result)
    added = [
        one.examined for one in result.trials if one.positions in ("learned", "sinusoidal")
    ]  # fmt: skip
    fit = np.mean([np.array(one.last.fit)[one.last.strongest] for one in added])
    moved = np.mean([np.array(one.final.shift.moved)[(..., *one.last.strongest)] for one in added])
    assert f"Positions alone predict where the strongest head attends (R² {fit:.2f})" in words
    assert (
        f"they move {100 * moved:.0f} % of its attention by k; both seen in all 12 train" in words
    )
    shares = {
        kind: np.mean([np.max(one.last.relative) for one in result.examined("MLM", kind)])
        for kind in result.positions
    }
    assert "explains {learned:.2f}, {sinusoidal:.2f} and {rotary:.2f} of".format(**shares) in words
    assert f"without positions, the control, {shares['none']:.2f}." in words
    assert "become waves is unclear: seen in 4 of 6 trainings." in words
    none = values(shown("waves", result), "value", step=result.steps, positions="none")
    assert none.mean() == pytest.approx(shares["none"])


def kinds(result: WavesResult, *positions: str) -> WavesResult:
    """The same with some kinds of positions only."""
    trials = tuple(one for one in result.trials if one.positions in positions)
    return replace(result, positions=positions, trials=trials)


def with_entropy(one: Examined, entropy: float) -> Examined:
    filters = replace(one.final.filters, entropy=entropy)
    return replace(one, final=replace(one.final, filters=filters))


def test_waves_of_a_few_kinds_or_of_models_that_learnt_nothing() -> None:
    result = shipped("waves")
    assert told("waves", kinds(result, "none")).startswith("Without positions the offset explains")
    alone = told("waves", kinds(result, "learned"))
    assert alone.count("With learned positions the offset alone explains 0.") == 1
    assert "the control" not in alone
    lazy = replace(
        result,
        trials=tuple(replace(t, examined=with_entropy(t.examined, 0.0)) for t in result.trials),
    )
    assert "How heads look back cannot be told: not every training passed" in told("waves", lazy)


def test_verdicts_as_words() -> None:
    passed, failed = Gate("it learns", [1.0]), Gate("it learns", [1.0, -1.0])
    assert how_often(Claim("", [1.0, 2.0], 1.0)) == "seen in all 2 trainings"
    assert how_often(Claim("", [1.0], 1.0, gates=[passed])) == "seen in the one training"
    assert how_often(Claim("", [0.0], 1.0)) == "not seen in the one training"
    assert how_often(Claim("", [0.0, 0.5], 1.0)) == "seen in none of 2 trainings"
    assert how_often(Claim("", [-1.0, -2.0], 1.0)) == "contradicted in all 2 trainings"
    assert how_often(Claim("", [1.0, 0.0], 1.0)) == "unclear: seen in 1 of 2 trainings"
    assert how_often(Claim("", [1.0], 1.0, gates=[failed])) == (
        "not judged: not every training passed its gate (it learns)"
    )
    assert how_often(Claim("", [], 1.0)) == "not judged: not measured in every training"
    claims = [Claim("", effects, 1.0) for effects in ([1.0], [2.0], [0.0], [1.0, 0.0])]
    assert counted(claims) == "2 are seen, 1 not seen and 1 unclear"
    assert counted(claims[2:3]) == "1 is not seen"
    assert listed(["a"]) == "a"
    assert listed("abc") == "a, b and c"
