"""What holds for every model that reads a source, one vector or many."""

from pathlib import Path

import pytest
import torch

from mnemoscope.core.errors import UserError
from mnemoscope.memories.state import State


def test_the_target_in_segments_equals_the_target_at_once(kind, make, draw, padded):
    model, tokens = make(kind), draw(3, 7)
    state = model.encode(*padded)
    whole = model(tokens, state).logits
    for cuts in ([1] * 7, [3, 4], [6, 1]):
        pieces, now = [], state
        for part in tokens.split(cuts, 1):
            out = model(part, now)
            pieces.append(out.logits)
            now = out.state
        torch.testing.assert_close(torch.cat(pieces, 1), whole)


def test_translators_read_the_same_without_gradients(kind, make, draw, padded):
    model, tokens = make(kind), draw(3, 7)
    whole = model(tokens, model.encode(*padded)).logits
    with torch.no_grad():
        state, pieces = model.encode(*padded), []
        for part in tokens.split(1, 1):
            out = model(part, state)
            state = out.state
            pieces.append(out.logits)
    torch.testing.assert_close(torch.cat(pieces, 1), whole)


def test_a_padded_batch_equals_one_by_one(kind, make, draw, padded):
    model, tokens = make(kind), draw(3, 4)
    source, mask = padded
    together = model(tokens, model.encode(source, mask)).logits
    for row in range(3):
        alone = source[row : row + 1, : int(mask[row].sum())]
        one = model(tokens[row : row + 1], model.encode(alone)).logits
        torch.testing.assert_close(one[0], together[row])


def test_a_mask_on_the_target_keeps_padding_out(kind, make, draw, padded):
    model = make(kind)
    tokens, after = draw(3, 5), draw(3, 2, seed=3)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False], [True] * 3 + [False] * 2])
    state = model(tokens, model.encode(*padded), mask).state
    goes_on = model(after, state).logits
    source, source_mask = padded
    for row, length in enumerate(mask.sum(1).tolist()):
        begun = model.encode(source[row : row + 1], source_mask[row : row + 1])
        short = model(tokens[row : row + 1, :length], begun).state
        expected = model(after[row : row + 1], short).logits
        torch.testing.assert_close(goes_on[row], expected[0])


def test_rows_can_be_selected_and_come_twice(kind, make, draw, padded):
    model, tokens = make(kind), draw(3, 3)
    state = model(tokens, model.encode(*padded)).state
    rows = [2, 0, 2]
    after = draw(3, 2, seed=5)
    expected = model(after, state).logits
    found = model(after[rows], state.select(rows)).logits
    torch.testing.assert_close(found, expected[rows])


def test_a_reset_row_knows_nothing_of_its_source(kind, make, draw, padded):
    model, tokens = make(kind), draw(3, 3)
    other = draw(3, 5, vocab=13, seed=9)
    fresh = [
        model(tokens, model.encode(source, padded[1]).reset([1])).logits
        for source in (padded[0], other)
    ]
    torch.testing.assert_close(fresh[0][1], fresh[1][1])
    assert torch.isfinite(fresh[0]).all()
    assert not torch.allclose(fresh[0][0], fresh[1][0])


def test_a_saved_state_goes_on_bit_for_bit(kind, make, draw, padded, tmp_path: Path):
    model, tokens = make(kind, torch.float32), draw(3, 3)
    with torch.no_grad():
        state = model(tokens, model.encode(*padded)).state
        state.save(tmp_path / "state")
        loaded = State.load(tmp_path / "state")
        assert loaded.nbytes == state.nbytes
        assert torch.equal(model(tokens, loaded).logits, model(tokens, state).logits)


def test_every_weight_of_a_translator_learns(kind, make, draw, padded):
    model = make(kind, embeddings="separate").train()
    logits = model(draw(3, 4), model.encode(*padded)).logits
    logits.square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0 or name.endswith("qkv.bias"), name


def test_translators_run_in_bfloat16(kind, make, draw, padded):
    model = make(kind, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        near = model(draw(3, 4), model.encode(*padded)).logits
    exact = model(draw(3, 4), model.encode(*padded)).logits
    assert torch.isfinite(near).all()
    assert (near.float() - exact).abs().mean() < 0.1 * exact.abs().mean()


def test_the_state_of_one_vector_stays_small_and_that_of_attention_grows(make, draw):
    def size(kind: str, words: int) -> int:
        return make(kind, torch.float32).encode(draw(1, words, vocab=13)).nbytes

    assert size("vector", 3) == size("vector", 30) == 8 * 4
    assert size("vector lstm", 3) == size("vector lstm", 30) == 2 * 2 * 8 * 4
    assert size("bahdanau", 30) == size("luong", 30) == (1 + 30) * 8 * 4
    layers, count = 2, 8
    assert size("encoder_decoder", 30) == layers * 2 * 30 * 8 * 4 + count


def test_shared_embeddings_are_one_matrix(make):
    for choice, matrices in (("separate", 3), ("tied", 2), ("shared", 1)):
        model = make("encoder_decoder", source_vocab=11, embeddings=choice)
        weights = (model.embedding.weight, model.source_embedding.weight, model.readout.weight)
        assert len({id(weight) for weight in weights}) == matrices


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([[False] * 5, [True] * 5, [True] * 5], "row 0 of the source is empty or padded on"),
        ([[True, False, True, True, True]] * 3, "padded on the right only"),
        ([[True] * 4] * 3, r"must be boolean of shape \(3, 5\)"),
    ],
)
def test_a_source_mask_that_cannot_be(make, padded, mask, message):
    with pytest.raises(UserError, match=message):
        make("luong").encode(padded[0], torch.tensor(mask))


def test_sources_that_make_no_sense_are_refused(make, draw, padded):
    model = make("bahdanau")
    with pytest.raises(UserError, match="reads a source first"):
        model(draw(3, 4))
    with pytest.raises(UserError, match="source id 13 is outside the vocabulary"):
        model.encode(torch.full((1, 2), 13))
    with pytest.raises(UserError, match="a source must be int64 or int32"):
        model.encode(torch.zeros(1, 0, dtype=torch.long))
    with pytest.raises(UserError, match="the state belongs to another model: memory is luong"):
        model(draw(3, 4), make("luong").encode(*padded))
    with pytest.raises(UserError, match="shared embeddings need one vocabulary"):
        make("vector", embeddings="shared")
    with pytest.raises(UserError, match="width 9 is odd"):
        make("vector", width=9)
    with pytest.raises(UserError, match="width 8 is not a multiple of heads 3"):
        make("encoder_decoder", heads=3)
