from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES
from mnemoscope.data.sorting import Sorting
from mnemoscope.models.model import build
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.rates import Tried, TriedRate, best_rate
from mnemoscope.studies.sizes import count
from mnemoscope.studies.sorting.attention import measure_attention
from mnemoscope.studies.sorting.contestants import ABLATION
from mnemoscope.studies.sorting.measure import free_running
from mnemoscope.studies.sorting.oracles import chance, counting_oracle, in_sight
from mnemoscope.studies.sorting.page import page
from mnemoscope.studies.sorting.result import (
    PARTS,
    SIGMA_EDGES,
    Attention,
    Examined,
    SortingModel,
    SortingResult,
    SortingTrial,
)
from mnemoscope.studies.sorting.study import SortingStudy
from mnemoscope.studies.study import Diverged
from mnemoscope.training.loop import _Trainer
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

CONTENDERS = ("transformer_xl", "compressive", "fixed", "sticky", "equal")

TINY: dict[str, Any] = {
    "symbols": 4,
    "trained": (32,),
    "tested": (16, 32, 64),
    "width": 8,
    "heads": 2,
    "segment": 8,
    "carried": 8,
    "curriculum": (16,),
    "curriculum_steps": 1,
    "steps": 3,
    "learning_rates": (1e-3, 3e-3),
    "sweep_steps": 2,
    "batch": 4,
    "seeds": 2,
    "episodes": 8,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ms.api.Published]:
    folder = tmp_path_factory.mktemp("study") / "sorting"
    return folder, ms.study("sorting", out=folder, jobs=1, **TINY)


def test_the_page_has_every_figure_and_who_took_part(
    finished: tuple[Path, ms.api.Published],
) -> None:
    folder, published = finished
    page = published.page.read_text()
    for facts in published.result.models.values():
        assert facts.label in page
    assert set(published.result.models) == set(CONTENDERS)
    names = {path.stem for path in (folder / "figures").glob("*.csv")}
    assert {
        "teacher-forced-trained-at-32",
        "speaking-freely-trained-at-32",
        "attention-by-age",
        "means-of-densities",
        "widths-of-densities",
        "sticky-attention-over-time",
    } <= names
    assert len(published.result.trials) == 2 * len(CONTENDERS)


def test_states_have_the_same_size(finished: tuple[Path, ms.api.Published]) -> None:
    sizes = {m: f.state_bytes for m, f in finished[1].result.models.items()}
    vectors = 2 * 8 * 8 * 4  # layers, vectors, width, bytes
    assert sizes["transformer_xl"] == sizes["compressive"] == vectors
    assert sizes["equal"] == sizes["fixed"] == vectors + 2 * 8  # and a count in each layer
    paper = SortingStudy.preset("paper")
    short = {name: paper._memory(name)[1] for name in CONTENDERS}
    assert {sum(v for k, v in m.items() if k in ("mem_len", "compressed_len", "basis"))
            for m in short.values()} == {1536}  # fmt: skip


def test_a_second_run_trains_nothing(finished: tuple[Path, ms.api.Published]) -> None:
    folder, published = finished
    marks = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/examined.json")}
    (folder / "result.json").unlink()
    again = ms.study("sorting", out=folder, jobs=1, **TINY)
    assert again.result == published.result
    assert {path: path.stat().st_mtime_ns for path in marks} == marks


def test_attention_by_age_is_a_distribution_and_a_cache_ends(
    finished: tuple[Path, ms.api.Published],
) -> None:
    folder, _ = finished
    for name in CONTENDERS:
        (home,) = folder.glob(f"runs/{name}-32-lr*-seed0")
        model = Run.open(home).model()
        inside = measure_attention(model, Sorting.make(symbols=4, length=66), 4, 8)
        assert inside is not None
        assert len(inside.by_age) == 9
        assert sum(inside.by_age) == pytest.approx(1)
        if name == "transformer_xl":  # the two tokens before the answers, and the queue
            assert inside.by_age[1] > 0
            assert sum(inside.by_age[:2]) == pytest.approx(1)
        seen = measure_attention(model, Sorting.make(symbols=4, length=64), 4, 8)
        assert seen is not None
        by_age = np.array(seen.by_age)
        assert by_age.shape == (8,)
        assert by_age.sum() == pytest.approx(1)
        if name == "transformer_xl":
            assert by_age[0] == pytest.approx(1)  # the queue holds one segment
            assert not seen.mu
        if name == "equal":
            assert (by_age > 0.02).all()  # every segment has its part
            assert sum(seen.mu) == pytest.approx(1)
        assert len(seen.written) == (8 if name == "sticky" else 0)
        assert all(sum(row) == pytest.approx(1) and len(row) == PARTS for row in seen.written)


def signal_model(density: str) -> Any:
    vocab = Sorting.make(symbols=4).vocab
    shape: dict[str, Any] = {
        "vocab": vocab,
        "width": 8,
        "layers": 1,
        "heads": 2,
        "basis": 8,
        "chunk": 8,
    }
    return ms.build("infinite", **shape, mem_len=0, density=density)


def test_attention_by_age_is_of_the_density_that_a_model_has() -> None:
    model, task = signal_model("sparse"), Sorting.make(symbols=4, length=64)
    with torch.no_grad():  # every query has the same density: μ = ½ and σ² = softplus(0) + floor
        model.layers[0].attention.signal.weights.zero_()
    seen = measure_attention(model, task, 4, 8)
    assert seen is not None
    variance = (1.5 * (math.log(2) + model.config.floor)) ** (2 / 3) / 5  # a² / 5 of a parabola
    assert seen.sigma[int(np.digitize(variance**0.5, SIGMA_EDGES)) - 1] == 1
    model.config = model.config.model_copy(update={"density": "gaussian"})
    other = measure_attention(model, task, 4, 8)
    assert other is not None
    assert other.by_age != seen.by_age


@pytest.mark.parametrize("name", ABLATION)
def test_attention_of_every_part_of_the_ablation_can_be_measured(name: str) -> None:
    study = SortingStudy.preset("ablation", width=8, carried=16, symbols=4, heads=2)
    seen = measure_attention(build(study._model(name)), Sorting.make(symbols=4, length=300), 2, 128)
    assert (seen is None) == (name == "gibbs")
    assert seen is None or sum(seen.by_age) == pytest.approx(1)


def test_attention_without_mean_and_variance_is_left_out() -> None:
    assert (
        measure_attention(signal_model("gibbs"), Sorting.make(symbols=4, length=64), 4, 8) is None
    )


@pytest.mark.parametrize(
    ("length", "tokens", "expected"),
    [(4000, 4000, 0.981), (4000, 2048, 0.447), (4000, 1024, 0.369), (8000, 1024, 0.339)],
)
def test_counting_oracles_are_where_simulation_put_them(
    length: int, tokens: int, expected: float
) -> None:
    task = Sorting.make(length=length)
    assert counting_oracle(task, [tokens] * task.symbols, 200) == pytest.approx(expected, abs=0.025)


@pytest.mark.parametrize(
    ("length", "sight"), [(32, [8] * 3), (35, [11] * 3), (38, [14, 14, 6]), (5, [5] * 3)]
)
def test_a_window_is_what_attention_over_a_cache_takes_in(length: int, sight: list[int]) -> None:
    """One layer, segments of 8, a cache of 8: older tokens change no answer, the oldest seen do."""
    task = Sorting.make(symbols=3, length=length)
    assert in_sight(task, 8, 8) == sight
    torch.manual_seed(0)
    model = ms.build("transformer_xl", vocab=4, width=8, heads=2, layers=1, mem_len=8).eval()
    tokens = torch.from_numpy(task.batch(0, 1, seed=0).tokens)

    def answers(place: int | None) -> torch.Tensor:
        read = tokens.clone()
        if place is not None:
            read[0, place] = (read[0, place] + 1) % 3
        state: Any = None
        logits: list[torch.Tensor] = []
        with torch.no_grad():
            for part in read.split(8, 1):
                out = model(part, state)
                state, logits = out.state, [*logits, out.logits]
        return torch.cat(logits, 1)[0, length:]

    whole = answers(None)
    for answer, seen in enumerate(sight):
        assert not torch.equal(answers(length - seen)[answer], whole[answer])
        if seen < length:
            assert torch.equal(answers(length - seen - 1)[answer], whole[answer])


def test_streams_end_inside_a_segment_as_in_the_paper() -> None:
    for preset in SortingStudy.presets:
        study = SortingStudy.preset(preset)
        for length in (*study.trained, *study.tested):
            assert 0 < length % study.segment <= study.segment - study.symbols


def test_guessing_among_what_is_left_gives_chance() -> None:
    assert chance(20) == pytest.approx(0.18, abs=0.001)
    rng, right, episodes = np.random.default_rng(0), 0, 4000
    for _ in range(episodes):
        left = list(range(5))
        for correct in rng.permutation(5):
            right += int(rng.choice(left) == correct)
            left.remove(correct)
    assert right / (5 * episodes) == pytest.approx(chance(5), abs=0.015)


def test_a_free_running_model_reads_its_own_answers() -> None:
    """A model that says one thing whatever it reads is right once a stream."""
    model = ms.build("transformer_xl", vocab=5, width=8, heads=2, mem_len=8).eval()
    with torch.no_grad():
        model.readout.weight.zero_()
        model.readout.bias.copy_(torch.tensor([0.0, 9.0, 0.0, 0.0, 0.0]))
    assert free_running(model, Sorting.make(symbols=4, length=20), 2, 8, 8) == pytest.approx(0.25)


TESTED, CHANCE = (8, 16, 32), 0.3
# Accuracy of the two seeds by model and length tested.
ACCURACY = {
    "transformer_xl": [(0.5, 0.4, 0.35), (0.6, 0.35, 0.3)],
    "equal": [(0.9, 0.8, 0.7), (0.8, 0.85, 0.6)],
    "lstm": [(0.45, 0.4, 0.2)],
}


def attention_of(model: str) -> Attention | None:
    if model == "lstm":
        return None
    if model == "transformer_xl":
        return Attention((0.9, 0.1), (), (), ())
    even = (1 / PARTS,) * PARTS
    peak = (0.5, *(0.5 / (PARTS - 1),) * (PARTS - 1))
    return Attention((0.4, 0.6), (0.05,) * 20, (1 / 30,) * 30, (even, peak))


def result_by_hand() -> SortingResult:
    """Two seeds of a queue and of a signal; the second seed of the LSTM diverged."""
    trials = [
        SortingTrial(
            model,
            16,
            seed,
            f"{model}-16-seed{seed}",
            Examined(forced, tuple(one / 2 for one in forced), attention_of(model), 2.0 + seed),
        )
        for model, seeds in ACCURACY.items()
        for seed, forced in enumerate(seeds)
    ]
    trials.append(SortingTrial("lstm", 16, 1, "lstm-16-seed1", Diverged("nan")))
    return SortingResult(
        trained=(16,),
        tested=TESTED,
        segment=8,
        window=12,
        chance=CHANCE,
        counting_all=(1.0, 0.99, 0.98),
        counting_window=(0.7, 0.65, 0.5),
        models={
            "transformer_xl": SortingModel("Transformer-XL", 100, 512, (0.7, 0.65, 0.5)),
            "equal": SortingModel("∞-former, equal shares", 120, 528, (0.5, 0.45, 0.4)),
            "lstm": SortingModel("LSTM", 90, 64),
        },
        trials=tuple(trials),
        windows=(8, 12, 12),
    )


def ablated_by_hand() -> SortingResult:
    """The same with a variant, its rates, and attention after the longest stream."""
    result = result_by_hand()
    models = dict(result.models)
    models["gate"] = SortingModel("∞-former, gate", 130, 528, (), 6e-3, "gate")
    models["equal"] = replace(models["equal"], lr=3e-3)
    trials = [
        replace(one, outcome=replace(one.outcome, afar=one.outcome.attention))
        for one in result.trials
        if isinstance(one.outcome, Examined)
    ]
    trials += [
        replace(one, model="gate", outcome=replace(one.outcome, forced=(0.9, 0.9, 0.4 + one.seed)))
        for one in trials
        if one.model == "equal" and isinstance(one.outcome, Examined)
    ]
    swept = (
        TriedRate("equal", 3e-3, Tried(1.5)),
        TriedRate("equal", 6e-3, Diverged("nan")),
        TriedRate("gate", 3e-3, Tried(1.7)),
        TriedRate("gate", 6e-3, Tried(1.6)),
    )
    return replace(
        result, models=models, trials=tuple(trials), swept=swept, steps=9, sweep_steps=4,
        curriculum=(4, 8), curriculum_steps=3,
    )  # fmt: skip


def test_the_page_says_how_it_was_trained_and_what_an_option_is_worth() -> None:
    result = ablated_by_hand()
    assert [best_rate(result.swept, name, 1.0) for name in ("equal", "gate", "lstm")] == [
        3e-3,
        6e-3,
        1.0,
    ]
    assert from_plain(SortingResult, json.loads(json.dumps(to_plain(result)))) == result
    sections = page(result)
    said = " ".join(part for one in sections for part in one.parts if isinstance(part, str))
    assert "3 steps each of 4 then 8 tokens" in said
    assert "Chosen: ∞-former, equal shares 0.003, ∞-former, gate 0.006." in said
    tables = parts_of(sections, Table)
    assert tables["Loss by learning rate"].rows[1] == ["∞-former, equal shares", 1.5, np.inf]
    assert tables["Options"].rows == [
        ["gate", "gate", "0.90 (0.40 to 1.40)", pytest.approx(0.25)],
    ]
    # Every seed against every seed: 0.4 and 1.4 against 0.7 and 0.6.
    judged = tables["What an option changes"].rows
    assert judged == [
        [
            "gate: more is right in its place, at 32",
            "unclear",
            "0.25 (-0.3 to 0.8) against 0.02; 2 of 4",
        ]
    ]
    bars = parts_of(sections, Figure)["Ablation"].data
    assert [row["accuracy"] for row in bars if row["variant"] == "gate"] == [0.9, 0.9, 0.4, 1.4]
    # Trained at 16, read at 32: the oldest half is older than anything was in training.
    assert "of which the oldest 50% are older" in said
    claims = {row[0]: row[1] for row in tables["What is claimed, trained at 16"].rows}
    assert claims["Transformer-XL is ahead at 8, as in the paper"] == "not judged"
    assert claims["∞-former is ahead at 32, as in the paper"] == "not judged"


def test_an_option_is_worth_nothing_that_can_be_said_of_a_model_that_did_not_learn() -> None:
    result = ablated_by_hand()
    models = {**result.models, "gate": replace(result.models["gate"], counting=(0.7, 0.95, 0.9))}
    judged = parts_of(page(replace(result, models=models)), Table)["What an option changes"]
    assert judged.rows[0][1] == "not judged"


def parts_of(sections: list[Section], kind: type) -> dict[str, Any]:
    return {part.name: part for one in sections for part in one.parts if isinstance(part, kind)}


def test_a_result_by_hand_goes_to_json_and_back_and_draws_the_same_page() -> None:
    result = result_by_hand()
    again = from_plain(SortingResult, json.loads(json.dumps(to_plain(result))))
    assert again == result
    first, second = page(result), page(again)
    assert [one.title for one in first] == [one.title for one in second]
    for kind in (Figure, Table):
        old, new = parts_of(first, kind), parts_of(second, kind)
        assert {name: repr(getattr(one, "data", one)) for name, one in old.items()} == {
            name: repr(getattr(one, "data", one)) for name, one in new.items()
        }


def test_the_page_says_the_numbers_of_its_result() -> None:
    sections = page(result_by_hand())
    said = " ".join(part for one in sections for part in one.parts if isinstance(part, str))
    # At 16, the trained length: 0.825, 0.375, and 0.35 with a diverged seed at chance.
    best = "∞-former, equal shares"
    orders = [
        f"after 16 tokens: {best} (0.82); not passed: Transformer-XL (0.38), LSTM (0.35)",
        f"after 32 tokens: {best} (0.65); not passed: Transformer-XL (0.32), LSTM (0.25)",
    ]
    assert "; ".join(orders) in said
    assert "one model is seen to remember more than a window: ∞-former (equal shares)" in said
    claims = parts_of(sections, Table)["What is claimed, trained at 16"].rows
    verdicts = {str(row[0]): row[1:] for row in claims}
    assert verdicts[
        "∞-former, equal shares remembers more than the last 8 to 12 tokens, at 16"
    ] == [
        "seen",
        "0.175 (0.15 to 0.2) against 0.02; 2 of 2",
    ]
    failed = verdicts["Transformer-XL remembers more than the last 8 to 12 tokens, at 16"]
    assert failed[0] == "not judged"
    gate = "Transformer-XL reaches its own window's line, to 0.02 (0.63): passed by 0 of 2"
    assert gate in str(failed[1])
    assert "between 64 and 528 bytes" in said
    assert "not of one size" in said
    assert "older half of the stream: Transformer-XL 10%, ∞-former, equal shares 60%" in said
    assert "nothing there attends by distance: LSTM" in said
    assert "would be 0.031 everywhere; the most that one part got is 0.500" in said
    rows = parts_of(sections, Figure)["Teacher-forced, trained at 16"].data
    values = [
        row["accuracy"] for row in rows if row["model"] == "Transformer-XL" and row["length"] == 8
    ]
    assert values == [0.5, 0.6]
    assert [row["accuracy"] for row in rows if row["model"] == "counts the last 8 to 12"] == [
        0.7,
        0.65,
        0.5,
    ]
    free = parts_of(sections, Figure)["Speaking freely, trained at 16"].data
    assert free[0]["accuracy"] == 0.25
    table = parts_of(sections, Table)["Sizes"]
    assert table.rows[0] == ["Transformer-XL", 100, 512, pytest.approx(0.325), 2.5]


def test_a_diverged_training_counts_as_chance() -> None:
    scores = result_by_hand().scores("lstm", 16, "forced")
    assert scores.tolist() == [[0.45, 0.4, 0.2], [CHANCE] * 3]


@pytest.mark.parametrize("name", MEMORIES)
def test_any_memory_takes_part_by_its_own_name(name: str, tmp_path: Path) -> None:
    options = {**TINY, "memories": (name,), "seeds": 1, "steps": 1, "episodes": 2}
    options["learning_rates"] = (1e-3,)
    result = ms.study("sorting", out=tmp_path / "study", jobs=1, **options).result
    assert result.models[name].state_bytes > 0
    assert len(result.examined(name, 32)) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"memories": "xl,stickyy"}, "did you mean 'sticky'"),
        ({"memories": "luong"}, "cannot take part"),
        ({"tested": "8,4"}, "increasing"),
        ({"recent": 99}, "leaves nothing"),
        # Streams of 288 and their answers are three segments: of two and one, one is learnt from.
        ({"memories": "equal,gate", "tbptt": 2}, "set tbptt=3"),
    ],
)
def test_mistyped_options_of_sorting_are_said_before_anything_runs(
    options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=says):
        ms.study("sorting", out=tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", sorted({*CONTENDERS, *ABLATION}))
def test_every_weight_of_a_contender_is_reached_by_the_gradient(name: str) -> None:
    """Only answers are learnt from: what is done to tokens segments before can be out of reach."""
    options = {**TINY, "trained": (36,), "curriculum": (), "tested": (16, 36)}
    options["tbptt"] = SortingStudy.preset("ablation").tbptt
    study = SortingStudy.preset(memories=(name,), **options)
    trial = study._trial(name, 36, 0, 1e-3)
    run = Run(Path(), trial.config)
    trainer = _Trainer(run, run.fresh(), join("cpu"), silent=True)
    trainer.step(0)
    unreached = {
        weight
        for weight, value in trainer.model.named_parameters()
        if value.grad is None or not bool(value.grad.any())
    }
    assert unreached == set()


def test_rates_are_tried_on_streams_of_which_something_was_written() -> None:
    for preset in SortingStudy.presets:
        study = SortingStudy.preset(preset)
        task = study._sweep_trial("equal", 1e-3).config.task
        assert isinstance(task, Sorting)
        assert task.length > study.segment


def test_every_contender_of_every_preset_can_be_built() -> None:
    for preset in SortingStudy.presets:
        study = SortingStudy.preset(preset)
        for name in {*CONTENDERS, *ABLATION}:
            assert count(study._model(name)) > 0
