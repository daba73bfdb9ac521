"""Beam search over cached states: exact where it can be, the same alone and in a batch."""

import math

import pytest
import torch

from mnemoscope.core.errors import UserError
from mnemoscope.models.beam import search
from mnemoscope.models.generation import generate

END = 10


def speaker(make, kind):
    """A model for which the end is as likely as other tokens are, in half of all places."""
    model = make(kind)
    generator = torch.Generator().manual_seed(2)
    source, tokens = (torch.randint(11, (50, 4), generator=generator) for _ in range(2))
    with torch.no_grad():
        logits = model(tokens, model.encode(source)).logits.flatten(0, 1)
        model.readout.bias[END] += (logits.amax(1) - logits[:, END]).median()
    return model


def hear(model, source, mask=None, most=12, **options):
    with torch.no_grad():
        state = model.encode(source, mask)
    return search(model, state, [most] * len(source), end=END, **options)


def recomputed(model, source, hypothesis):
    """Log-probability of tokens and end, read at once."""
    tokens = torch.tensor([[*hypothesis.tokens, END]])
    read = torch.cat((torch.tensor([[END]]), tokens[:, :-1]), 1)
    with torch.no_grad():
        chances = model(read, model.encode(source)).logits.log_softmax(-1)
    return float(chances[0].gather(1, tokens[0][:, None]).sum())


def test_a_beam_of_one_is_greedy(kind, make, draw):
    model = speaker(make, kind)
    source = draw(24, 4, vocab=13)
    with torch.no_grad():
        state = model.encode(source)
    said = generate(
        model, torch.full((24, 1), END), 12, state=state, temperature=0, stop=END
    ).tokens.tolist()
    ends = 0
    for row, (hypothesis,) in enumerate(hear(model, source, beam=1)):
        tokens = said[row][: said[row].index(END)] if END in said[row] else said[row]
        assert list(hypothesis.tokens) == tokens
        ends += END in said[row]
    assert ends > 0  # the comparison is not of endless babble alone


@pytest.mark.parametrize("beam", [1, 3])
def test_together_equals_one_by_one(kind, make, padded, beam):
    model = speaker(make, kind)
    source, mask = padded
    together = hear(model, source, mask, beam=beam)
    for row, expected in enumerate(together):
        alone = source[row : row + 1, : int(mask[row].sum())]
        (found,) = hear(model, alone, beam=beam)
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_scores_are_what_the_model_says_when_asked_again(kind, make, draw, penalty):
    model = speaker(make, kind)
    source = draw(3, 4, vocab=13)
    for row, hypotheses in enumerate(hear(model, source, beam=4, penalty=penalty)):
        scores = [one.score for one in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({one.tokens for one in hypotheses}) == len(hypotheses)
        for one in hypotheses:
            total = recomputed(model, source[row : row + 1], one)
            assert one.log_probability == pytest.approx(total, abs=1e-9)
            length = len(one.tokens) + 1
            assert one.score == pytest.approx(total / ((5 + length) / 6) ** penalty, abs=1e-9)


def test_a_beam_that_holds_everything_finds_the_best(make, draw):
    model = speaker(make, "bahdanau")
    source = draw(1, 3, vocab=13)
    (found,) = hear(model, source, most=2, beam=11 * 11, penalty=0.0)
    everything = [()] + [(a,) for a in range(10)] + [(a, b) for a in range(10) for b in range(10)]
    scores = {}
    for tokens in everything:
        one = type(found[0])(tokens, 0.0, 0.0)
        scores[tokens] = recomputed(model, source, one)
    best = max(scores, key=scores.__getitem__)
    assert found[0].tokens == best
    assert found[0].log_probability == pytest.approx(scores[best], abs=1e-9)
    # All there is was found, so that the probabilities of what ends in time add up.
    assert {one.tokens for one in found} <= set(everything)
    assert math.fsum(math.exp(one.log_probability) for one in found) <= 1


def test_limits_hold_for_each_row(make, draw):
    model = make("luong")
    source = draw(3, 4, vocab=13)
    with torch.no_grad():
        state = model.encode(source)
    found = search(model, state, [1, 5, 9], end=END, beam=2)
    for limit, hypotheses in zip([1, 5, 9], found, strict=True):
        assert hypotheses
        assert all(len(one.tokens) <= limit for one in hypotheses)


def test_beams_that_make_no_sense_are_refused(make, draw):
    model = make("vector")
    source = draw(2, 3, vocab=13)
    with pytest.raises(UserError, match="beam must be at least 1"):
        hear(model, source, beam=0)
    with pytest.raises(UserError, match="2 rows need as many limits"):
        search(model, model.encode(source), [4], end=END)
