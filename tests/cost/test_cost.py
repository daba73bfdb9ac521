"""What a preset costs: what is planned, how few rows speak for all, what the page says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cost.attached import _reads, between
from cost.page import Cost, by_model, by_study, checked, cost, gpu_seconds, head, simulated, size
from cost.planned import Plan, planned
from cost.steps import Kind, Started, Step, along, at_all_rows, cut, step_of, timed_depths

from cost import steps
from mnemoscope.core.registry import find
from mnemoscope.studies.documents.study import DocumentsStudy
from mnemoscope.studies.sizes import count
from mnemoscope.training.config import RunConfig

DOCS = Path(__file__).parents[2] / "docs"


def kind(seconds: float, counts: tuple[int, ...], model: str = "gru, width 4") -> Kind:
    return Kind("lag", model, counts, 1000, Step(seconds, 2e9 * seconds, 100, 3 << 20))


def config(memory: str = "gru", **options: object) -> RunConfig:
    return RunConfig.of("copy", memory, {"width": 8, "batch": 8, "lag": 4, **options})


def test_a_study_says_all_that_it_would_train_and_trains_nothing(tmp_path: Path) -> None:
    options = find("study", "lag").preset("paper")
    found = planned("lag", tmp_path)
    assert len(found) == len(options.memories) * len(options.learning_rates) * options.seeds
    assert {one.training.steps for one in found} == {options.steps}
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.parametrize("study", ["books", "evolution"])
def test_what_needs_data_is_planned_on_made_up_ones(study: str, tmp_path: Path) -> None:
    options, found = find("study", study).preset("paper"), planned(study, tmp_path)
    assert {one.training.steps for one in found} == {options.steps}
    if study == "evolution":
        assert {one.model.vocab // 1000 for one in found} == {options.vocabulary_size // 1000}


def test_rows_are_multiplied_until_they_can_be_timed_and_then_lie_on_a_line() -> None:
    asked = []

    def timed(rows: int) -> float:
        asked.append(rows)
        return 0.1 + 0.01 * rows

    assert at_all_rows(timed, 256) == pytest.approx(0.1 + 2.56)
    assert asked == [1, 4, 16, 64]
    assert at_all_rows(timed, 3) == pytest.approx(0.13)  # all of them can be timed
    assert at_all_rows(lambda rows: 5.0 * rows, 16) == 80.0  # one is enough, and long


def test_a_line_does_not_fall_and_one_size_speaks_for_itself() -> None:
    assert along((1, 2), (3.0, 5.0), 12) == 25.0
    assert along((1, 2), (3.0, 2.9), 12) == 2.9
    assert along((7,), (3.0,), 12) == 3.0


def test_layers_of_large_models_are_timed_in_whole_turns_of_their_patterns() -> None:
    assert timed_depths(config("transformer", layers=12)) == (12,)
    large = {"layers": 12, "width": 1024, "lag": 4000, "context": 8192}
    assert timed_depths(config("sparse", **large)) == (1, 2)
    assert timed_depths(config("sparse", pattern="strided,dense", **large)) == (2, 4)


def test_a_step_is_timed_with_its_operations_and_scales_with_rows() -> None:
    one = config("transformer", layers=2)
    found = step_of(one)
    assert found.seconds > 0
    tokens = one.task.batch(0, 8, seed=0).tokens.size
    assert found.flops == 6 * count(one.model) * tokens
    # Twice the layers are about twice the operations, whatever the rows.
    deep = steps._started(cut(one, layers=4))
    assert found.started == steps._started(cut(one, rows=1))
    assert 1.3 * found.started < deep < 2 * found.started


def test_what_has_no_steps_cancels_out() -> None:
    import torch

    weights = torch.ones(8, 8)

    def run(count: int) -> None:
        torch.full((8, 8), 2.0)
        for _ in range(count):
            weights @ weights

    found = between(run)
    assert (found.flops, found.started) == (2 * 8**3, 1)
    with Started() as started:
        weights.view(64)
    assert started.count == 0


def test_memories_of_documents_read_wrong_ones_too_where_they_are_guided() -> None:
    study = DocumentsStudy.preset("paper")
    plain = {one.name: _reads(study, one) for one in study.settings()}
    steps_each = study.epochs * -(-study.documents * study.segments // study.batch)
    assert plain["tanh α=0.1"] == (2 * study.batch * study.segment, steps_each)
    assert plain["tanh α=0"] == (study.batch * study.segment, steps_each)


def test_a_cost_is_the_sum_of_its_steps_and_no_training_is_cut_into_parts() -> None:
    found = cost([kind(1.0, (10, 10, 30)), kind(4.0, (5,))])
    assert found == Cost(
        trainings=4, flops=2e9 * 70, bytes=3 << 20, seconds=70.0, longest=30.0, gpu=55 * 5e-4
    )
    assert [found.on_cores(cores) for cores in (1, 2, 64)] == [70.0, 35.0, 30.0]
    assert gpu_seconds(Step(0, 4e13, 100)) == 2.0


def test_the_page_says_what_was_found_and_why_something_was_not() -> None:
    kinds = [kind(1.0, (10, 10)), kind(7200.0, (3600,), "gru, width 8"), kind(9.0, (1,), "lstm")]
    table = by_study({"lag": kinds, "waves": "no text"})
    assert "| lag | 4 | 5.2e+16 | 3 MiB | 300 days | 300 days | 43 minutes |" in table
    assert "| waves | not estimated: no text | | | | | |" in table
    models = by_model(kinds)
    assert "gru, width 4" not in models  # the largest speaks for its memory
    assert "| lag | gru, width 8 | 1,000 | 1.4e+13 | 3 MiB | 7.2e+03 s | 0.72 s |" in models
    assert "lstm" in models
    assert (size(1), size(5 << 30)) == ("1 MiB", "5.0 GiB")


def test_the_page_says_how_far_estimates_were_from_whole_steps() -> None:
    said = checked([("lag, gru", 1.1, 1.0), ("waves", 1.9, 2.0)])
    assert "lag, gru 1.1 s, measured 1 s; waves 1.9 s, measured 2 s" in said
    assert "at most 10%" in said
    assert said in head("some processor", said)
    assert simulated() in (DOCS / "cost.md").read_text()


def test_a_plan_computes_nothing() -> None:
    from mnemoscope.core.errors import UserError

    with pytest.raises(UserError, match="not announced"):
        Plan().each([], 1)


def test_steps_that_are_timed_read_about_as_much_as_all_do() -> None:
    uneven = config(lag=200, shortest=1)
    mean = 8 * steps.tokens_of_a_row(uneven.task, uneven.stretch)
    one = steps.typical(uneven)
    for some in (steps.FIRST, steps.OTHERS):
        read = [one.task.batch(n, 8, seed=one.training.seed).tokens.size for n in some]
        assert sum(read) / len(read) == pytest.approx(mean, rel=0.2)
    even = config()
    assert steps.typical(even) == even
