from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS, TASKS, find
from mnemoscope.core.trust import trusting
from mnemoscope.training.config import RunConfig, Training

PAIRS = [(task, model) for task in TASKS for model in KINDS[find("task", task).models]]


def test_options_find_their_part_by_name() -> None:
    config = RunConfig.of("copy", "transformer", {"lag": 7, "heads": 2, "steps": 9})
    assert (config.task.lag, config.model.heads, config.training.steps) == (7, 2, 9)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("task", "memory"), PAIRS)
def test_no_name_belongs_to_two_parts(task: str, memory: str) -> None:
    kinds = (find("task", task), find(find("task", task).models, memory), Training)
    owners = Counter(name for kind in kinds for name in kind.model_fields)
    assert not [name for name, count in owners.items() if count > 1]


@pytest.mark.parametrize(
    ("task", "options", "wanted"),
    [
        ("text", {}, "set tbptt to 2 or more"),
        ("copy", {"tbptt": 2}, "set segment, and tbptt to 2 or more"),
        ("copy", {"segment": 8}, "set tbptt to 2 or more"),
    ],
)
def test_a_gate_that_would_stay_as_it_was_drawn_is_refused(
    task: str, options: dict[str, Any], wanted: str
) -> None:
    """What is written in a segment is read in later ones: only through them does a gate learn."""
    config = RunConfig.of(task, "infinite", {"gate": True, **options})
    with pytest.raises(UserError, match=wanted):
        config.check()


def test_options_by_their_full_names() -> None:
    config = RunConfig.of("copy", "gru", {"model.width": 24, "task.lag": 3, "training.steps": 5})
    assert (config.model.width, config.task.lag, config.training.steps) == (24, 3, 5)  # type: ignore[attr-defined]


def test_a_name_two_parts_share_must_be_written_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A task from elsewhere, named by its path, may well use a name that is taken.
    (tmp_path / "elsewhere.py").write_text(
        "from mnemoscope.data.copy import Copy\nclass Wide(Copy):\n    width: int = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with trusting("elsewhere"):
        with pytest.raises(UserError, match=r"'width' could mean task\.width or model\.width"):
            RunConfig.of("elsewhere:Wide", "gru", {"width": 4})
        config = RunConfig.of("elsewhere:Wide", "gru", {"task.width": 4, "model.width": 16})
        assert (config.task.width, config.model.width) == (4, 16)  # type: ignore[attr-defined]
        assert RunConfig.from_yaml(config.to_yaml()) == config
    assert config.modules == ("elsewhere",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stepz": 3}, "unknown option 'stepz'; did you mean 'steps'"),
        ({"training.stepz": 3}, "no option 'stepz'; did you mean 'steps'"),
        ({"model.widht": 3}, "no option 'widht'; did you mean 'width'"),
        ({"modle.width": 3}, "unknown option 'modle.width'"),
        ({"width": "abc"}, r"width: .*integer.*'abc'"),
        ({"steps": 0}, "steps: .*greater than or equal to 1"),
        ({"schedule": "linear"}, "schedule: .*'cosine'.*'linear'"),
        ({"batch": 10, "accumulate": 3}, "batch 10 cannot be cut into 3 equal parts"),
    ],
)
def test_mistakes_in_options_of_a_run_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.of("copy", "gru", options)


@pytest.mark.parametrize(
    ("task", "memory", "message"),
    [
        ("copi", "gru", "unknown task 'copi'; did you mean 'copy'"),
        ("copy", "grue", "unknown memory 'grue'; did you mean 'gru'"),
        ("copy", "encoder_decoder", "unknown memory 'encoder_decoder'"),
    ],
)
def test_mistakes_in_names_of_a_run_are_explained(task: str, memory: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.of(task, memory, {})


def test_strings_become_what_they_mean() -> None:
    typed = {"width": "64", "lr": "1e-4", "compile": "true", "tied": "false", "lag": "12"}
    meant = {"width": 64, "lr": 1e-4, "compile": True, "tied": False, "lag": 12}
    assert RunConfig.of("copy", "transformer", typed) == RunConfig.of("copy", "transformer", meant)


def test_the_vocabulary_comes_from_the_task_unless_given() -> None:
    assert RunConfig.of("copy", "gru", {"symbols": 5}).model.vocab == 7
    assert RunConfig.of("copy", "gru", {"symbols": 5, "vocab": 30}).model.vocab == 30


@pytest.mark.parametrize(("task", "memory"), PAIRS)
def test_yaml_of_every_pair_is_read_back_as_written(task: str, memory: str) -> None:
    config = RunConfig.of(task, memory, {})
    assert RunConfig.from_yaml(config.to_yaml()) == config


@given(
    st.fixed_dictionaries(
        {
            "lr": st.floats(1e-12, 1e6),
            "seed": st.integers(0, 2**63),
            "weight_decay": st.floats(0, 1),
            "segment": st.none() | st.integers(1, 999),
            "precision": st.sampled_from(["auto", "float32", "bfloat16"]),
            "lag": st.integers(0, 10**6),
            "dropout": st.floats(0, 0.99),
            "positions": st.sampled_from(["sinusoidal", "learned", "rotary", "none"]),
            "outputs": st.none() | st.integers(10, 99),
        }
    )
)
def test_a_run_config_survives_yaml(options: dict[str, Any]) -> None:
    config = RunConfig.of("copy", "transformer", options)
    assert RunConfig.from_yaml(config.to_yaml()) == config


def test_yaml_round_trip_of_lists_and_odd_text() -> None:
    recall = RunConfig.of("recall", "rnn", {"ages": (9, 11), "length": 40})
    assert RunConfig.from_yaml(recall.to_yaml()) == recall
    text = RunConfig.of("text", "rnn", {"source": "dür: 'ok' #1.txt", "vocab": 9})
    assert RunConfig.from_yaml(text.to_yaml()) == text


def test_yaml_by_hand_needs_only_what_differs() -> None:
    config = RunConfig.from_yaml(
        "task: {name: copy, lag: 3}\nmodel: {name: lstm}\ntraining: {lr: 1e-3}"
    )
    assert config == RunConfig.of("copy", "lstm", {"lag": 3, "lr": 0.001})
    assert RunConfig.from_yaml("task: {name: copy}\nmodel: {name: gru}").training == Training()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: [", "here.yaml is not valid YAML"),
        ("task: 2024-13-45", "here.yaml needs the parts task, model"),
        ("", "here.yaml needs the parts task, model"),
        ("just words", "here.yaml needs the parts task, model"),
        ("task: {name: copy}", "here.yaml needs the parts task, model"),
        ("task: {name: copy}\nmodel: {name: gru}\ntrainig: {}", "'trainig'; did you mean 'train"),
        ("task: {name: copy}\nmodel: {name: gru}\n3: {}\nx: {}", "unknown part '3'"),
        ("task: {name: copy}\nmodel: {name: gru, widht: 3}", "'widht'; did you mean 'width'"),
        ("task: {name: copy, 7: 3}\nmodel: {name: gru}", "Copy has no option '7'"),
        ("task: {name: copy}\nmodel: {name: gru}\ntraining: {name: x}", "no option 'name'"),
        ("task: copy\nmodel: {name: gru}", "here.yaml: task needs named values"),
        ("task: {name: copy}\nmodel: {width: 8}", "here.yaml: model needs named values"),
        ("task: {name: 3}\nmodel: {name: gru}", "here.yaml: task needs named values"),
        ("task: {name: [copy]}\nmodel: {name: gru}", "here.yaml: task needs named values"),
        ("task: {name: copy}\nmodel: {name: gru}\ntraining: [1]", "training needs named values"),
        ("task: {name: copi}\nmodel: {name: gru}", "unknown task 'copi'"),
    ],
)
def test_mistakes_in_yaml_of_a_run_are_explained(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.from_yaml(text, "here.yaml")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["task", "model", "training", "name", "width"])
                | st.integers()
                | st.text(max_size=3),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_the_yaml_holds_the_answer_is_a_config_or_an_explanation(content: Any) -> None:
    with suppress(UserError):
        assert isinstance(RunConfig.from_yaml(yaml.safe_dump(content)), RunConfig)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab": 5}, "uses 10 token ids .* only 5"),
        ({"outputs": 4}, "asks for 10 outputs, the model has 4"),
        ({"readout": "last"}, "readout='every'"),
        (
            {"positions": "learned", "context": 17, "lag": 16},
            "18 tokens, longer than the context of 17",
        ),
    ],
)
def test_parts_of_a_run_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.of("copy", "transformer", options).check()


def test_an_episode_as_long_as_the_context_fits() -> None:
    RunConfig.of("copy", "transformer", {"positions": "learned", "context": 18, "lag": 16}).check()


def test_an_endless_text_needs_endless_positions(small: Callable[..., RunConfig]) -> None:
    with pytest.raises(UserError, match="a text has no end but learned positions do"):
        small("text", "transformer", positions="learned").check()
    small("text", "transformer", positions="sinusoidal").check()


@pytest.mark.parametrize("options", [{"batch": 400}, {"segment": 900}, {"tbptt": 100}])
def test_a_text_too_short_for_the_batch(
    small: Callable[..., RunConfig], options: dict[str, int]
) -> None:
    with pytest.raises(UserError, match=r"the train text has .* too few"):
        small("text", **options).check()


def test_a_text_whose_held_out_part_is_too_short(small: Callable[..., RunConfig]) -> None:
    with pytest.raises(UserError, match=r"the valid text has .* too few"):
        small("text", held_out=0.01).check()


def test_a_config_is_made_without_torch() -> None:
    code = (
        "import sys; from mnemoscope.training.config import RunConfig;"
        "RunConfig.of('copy', 'transformer', {}).check(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
