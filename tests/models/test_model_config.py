from typing import Any

import pytest
from pydantic import ValidationError

from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.memories.config import ModelConfig
from mnemoscope.memories.gru import GRU
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.lstm import LSTM
from mnemoscope.memories.rnn import RNN
from mnemoscope.memories.transformer.config import Transformer


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UserError, match="GRU has no option 'widht'; did you mean 'width'"):
        GRU.make(vocab=5, widht=8)
    with pytest.raises(UserError, match="GRU has no option 'zzz'; known: dropout, layers, memory"):
        GRU.make(vocab=5, zzz=8)
    with pytest.raises(UserError, match="RNN has no option 'heads'"):
        RNN.make(vocab=5, heads=2)


def test_a_missing_value_is_named() -> None:
    with pytest.raises(UserError, match="LSTM needs a value for 'vocab'"):
        LSTM.make()


def test_options_that_follow_from_a_wrong_one_are_no_mistakes_of_their_own() -> None:
    """The penalty of an ∞-former depends on its fit: without one it cannot be found."""
    with pytest.raises(UserError) as refused:
        Infinite.make(vocab=5, width=-1)
    assert str(refused.value) == "width: input should be greater than or equal to 1 (got -1)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": "wide"}, "width: .*valid integer.*'wide'"),
        ({"width": 2.5}, r"width: .*integer.*2\.5"),
        ({"width": 0}, r"width: .*greater than or equal to 1 \(got 0\)"),
        ({"vocab": 1}, "vocab: .*greater than or equal to 2"),
        ({"dropout": 1.0}, "dropout: .*less than 1"),
        ({"readout": "first"}, "readout: .*'every' or 'last'.*'first'"),
        ({"memory": "lstm"}, "memory: .*'gru'"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_given(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        GRU.make(**{"vocab": 5, **options})


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(UserError) as caught:
        GRU.make(vocab="many", widht=8)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert "vocab" in lines[0]
    assert "widht" in lines[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10, "heads": 4}, "width 10 is not a multiple of heads 4"),
        ({"width": 12, "heads": 4}, "rotary positions turn pairs: width / heads = 3 is odd"),
        ({"tied": True, "outputs": 3}, "leave outputs unset"),
        ({"positions": "alibi"}, "positions: .*'rotary'.*'alibi'"),
    ],
)
def test_heads_and_widths_that_do_not_fit_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Transformer.make(vocab=5, **options)


def test_heads_and_widths_that_just_fit() -> None:
    assert Transformer.make(vocab=5, width=12, heads=4, positions="none").heads == 4
    assert Transformer.make(vocab=5, tied=True, outputs=5).tied


def test_a_feed_forward_layer_may_be_a_fraction_of_a_width() -> None:
    config = Transformer.make(vocab=5, width=16, heads=2, mlp_ratio=2.25)
    assert config.inner == config.build().layers[0].expand.out_features == 36
    with pytest.raises(UserError, match=r"mlp_ratio 0\.01 leaves no feed-forward layer"):
        Transformer.make(vocab=5, width=16, heads=2, mlp_ratio=0.01)


def test_values_typed_on_a_command_line_are_understood() -> None:
    config = Transformer.make(vocab="20", width="32", dropout="0.1", tied="true", outputs=None)
    assert config == Transformer(vocab=20, width=32, dropout=0.1, tied=True)


@pytest.mark.parametrize("kind", [RNN, LSTM, GRU, Transformer])
def test_a_config_is_frozen_and_survives_json(kind: Any) -> None:
    config = kind(vocab=9, width=8, layers=3)
    with pytest.raises(ValidationError, match="frozen"):
        config.width = 16
    assert kind.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("kind", [RNN, LSTM, GRU, Transformer])
def test_every_option_of_a_model_is_explained(kind: type[ModelConfig]) -> None:
    rows = {name: (type_, default, meaning) for name, type_, default, meaning in kind.options()}
    assert rows["vocab"] == ("int", "required", "how many token ids it reads")
    assert rows["width"][1] == "64"
    assert all(meaning for name, (_, _, meaning) in rows.items() if name != "memory")


def test_only_learned_positions_have_an_end() -> None:
    limits = [
        Transformer(vocab=5, positions=positions, context=77).limit
        for positions in ("learned", "rotary", "sinusoidal", "none")
    ]
    assert limits == [77, None, None, None]
    assert GRU(vocab=5).limit is None


def test_unknown_names_get_suggestions() -> None:
    assert suggestion("lsmt", ["lstm", "gru"]) == "did you mean 'lstm'?"
    assert suggestion("q", ["lstm", "gru"]) == "known: gru, lstm"
    assert suggestion("q", []) == "there are none"
