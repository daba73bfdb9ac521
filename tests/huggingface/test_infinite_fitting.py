"""An attached long-term memory learns, and its worth has its controls."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hf_families import LONG_TERM as OPTIONS
from hf_families import WORDS, build, prompt, speaking

import mnemoscope as ms
from mnemoscope.huggingface.infinite.fitting import MemoryWorth
from mnemoscope.huggingface.infinite.streams import stretches


def test_only_the_memory_learns_or_all() -> None:
    # Every stream repeats one symbol of its own: only the past tells a window's first tokens which.
    generator = torch.Generator().manual_seed(0)
    streams = torch.randint(3, WORDS, (8, 8), generator=generator).repeat(1, 24)
    for learn, horizon in (("memory", 2), ("memory", 1), ("all", 2)):
        model = build("gpt_neox", layers=1)
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        memory = ms.attach(model, "infinite", gate=horizon > 1, **OPTIONS)
        losses = memory.fit(streams, steps=12, learn=learn, tbptt=horizon, lr=1e-2)
        assert losses[-1] < losses[0]
        same = all(torch.equal(before[name], w) for name, w in model.state_dict().items())
        assert same is (learn == "memory")
        assert all(weight.requires_grad for weight in model.parameters())


def test_densities_become_as_narrow_as_asked() -> None:
    """KL enters the loss of training, and only that."""
    streams = torch.randint(3, WORDS, (4, 80), generator=torch.Generator().manual_seed(0))
    apart = {}
    for kl in (0.0, 3.0):
        memory = ms.attach(build("gpt_neox", layers=1), "infinite", kl=kl, kl_width=0.2, **OPTIONS)
        memory.eval()  # whatever it was, training is training, and then it is as before
        losses = memory.fit(streams, steps=25, lr=1e-2)
        assert not memory.readers.training
        assert losses[0] < 10  # the cross-entropy alone
        seen: list[torch.Tensor] = []
        reader: Any = memory.reader(0)
        reader.longterm.maps.register_forward_hook(lambda _, given, out, to=seen: to.append(out))
        assert not memory(streams[:, :24]).losses
        variances = torch.cat([one.detach()[..., 1].flatten() for one in seen])
        apart[kl] = float((variances.log() - math.log(0.2**2)).abs().mean())
    assert apart[3.0] < apart[0.0] / 2


def test_what_signals_ask_for_is_a_mean_over_tokens() -> None:
    memory = ms.attach(build("llama", layers=1), "infinite", kl=1.0, **OPTIONS)
    tokens = prompt(2, 24)
    state = memory(tokens[:, :8]).state
    whole = memory(tokens[:, 8:], state).losses["kl"]
    one = memory(tokens[:, 8:16], state)
    two = memory(tokens[:, 16:], one.state)
    torch.testing.assert_close(whole, (one.losses["kl"] + two.losses["kl"]) / 2)


def test_the_worth_of_a_past_has_its_controls() -> None:
    memory = ms.attach(build("gpt2"), "infinite", **OPTIONS)
    streams = torch.randint(3, WORDS, (3, 33))
    worth = memory.worth(streams)
    assert worth.own.shape == worth.none.shape == worth.other.shape == (3, 3, 7)
    # What has learnt nothing says nothing, whoever's past it is.
    np.testing.assert_allclose(worth.own, worth.none, atol=1e-5)
    np.testing.assert_allclose(worth.own, worth.other, atol=1e-5)
    assert "another text" in str(worth)
    alone = memory.worth(streams[:1])
    np.testing.assert_allclose(alone.own, worth.own[:1], atol=1e-5)
    assert "another text    there is one text only" in str(alone)


def test_texts_of_any_length_are_read_to_their_ends() -> None:
    memory = speaking(ms.attach(build("llama"), "infinite", **OPTIONS))
    texts = [prompt(1, length, seed=length)[0].tolist() for length in (17, 45, 30)]
    worth = memory.worth(texts)
    read = np.isfinite(worth.own[..., 0])
    assert read.sum(1).tolist() == [1, 4, 2]
    # Where one text is left there is no other.
    assert np.isfinite(worth.other[..., 0]).sum(1).tolist() == [1, 2, 2]
    for row, text in enumerate(texts):
        alone = memory.worth([text])
        np.testing.assert_allclose(
            alone.own[0], worth.own[row, : alone.own.shape[1]], atol=1e-4, rtol=1e-4
        )
    # The mean over windows that were read with all three states, and an interval around it.
    gain, low, high = worth.gain()
    assert low < gain < high
    assert gain == pytest.approx(float((worth.none - worth.own)[worth.windows].mean()))
    assert worth.by_position()["own"].shape == (7,)


def test_every_row_reads_one_text_after_another() -> None:
    texts = [torch.arange(10 * n, 10 * n + length) for n, length in enumerate((5, 9, 4, 3))]
    read = list(islice(stretches(texts, rows=2, length=4), 5))
    following: dict[int, list[int]] = {}
    for row in range(2):
        heard: list[int] = []
        for one in read:
            if one.starts[row] and heard:
                following.setdefault(heard[0] // 10, heard)
                heard = []
            real = one.targets[row] != -100
            assert (one.targets[row][real] - one.tokens[row][real] == 1).all()
            heard += one.tokens[row][real].tolist()
    # All of a text but its last token, which predicts nothing; then another text.
    for number, heard in following.items():
        assert heard == texts[number][:-1].tolist()
    assert [one.starts.tolist() for one in read[:3]] == [[True, True], [True, False], [True, True]]


def test_the_past_of_a_text_is_not_learnt_from_with_another() -> None:
    """A step on a text's first window is the same, whatever was read before in that row."""
    texts = [prompt(1, 17, seed=seed)[0].tolist() for seed in range(4)]

    def losses(order: list[int]) -> list[float]:
        memory = speaking(ms.attach(build("llama"), "infinite", **OPTIONS))
        memory.requires_grad_(False)
        return memory.fit([texts[one] for one in order], steps=4, lr=1e-12, rows=1, silent=True)

    first, second = losses([0, 1]), losses([2, 1])
    assert first[0] != pytest.approx(second[0])
    # The second text begins at the third step.
    assert first[2:] == pytest.approx(second[2:], abs=1e-5)


def test_all_means_are_over_the_same_windows() -> None:
    """The long text goes on alone, where it is easy: that must not come into one mean only."""
    loss = np.full((2, 4, 3), np.nan)
    loss[0, :], loss[1, :2] = 1.0, 3.0
    loss[0, 2:] = 0.1
    other = np.where(np.arange(4)[None, :, None] < 2, loss + 0.5, np.nan)
    found = MemoryWorth(own=loss, none=loss + 0.25, other=other)
    assert found.windows.tolist() == [[True, True, False, False]] * 2
    means = {name: float(values.mean()) for name, values in found.by_position().items()}
    assert means == {"own": 2.0, "none": 2.25, "other": 2.5}
    for over in ("none", "other"):
        assert found.gain(over)[0] == pytest.approx(means[over] - means["own"])
    said = str(found)
    assert "mean loss of 4 windows" in said
    assert "another text    2.5000   the own text saves +0.5000" in said
    assert "not distinguishable" not in said
    noise = np.where(np.arange(4)[None, :, None] % 2, loss + 0.5, loss - 0.5)
    same = str(MemoryWorth(own=loss, none=noise, other=other))
    assert same.count("not distinguishable from 0") == 1
    alone = MemoryWorth(own=loss[:1], none=loss[:1] + 0.25, other=np.full((1, 4, 3), np.nan))
    assert alone.windows.all()
    assert math.isnan(alone.gain("other")[0])


class Letters:
    """A tokenizer of letters."""

    def encode(self, text: str) -> list[int]:
        return [3 + ord(letter) % (WORDS - 3) for letter in text]


def test_texts_are_taken_as_they_come() -> None:
    """One text, several, with names, ids: and what is too short or no text is said."""
    text = "the kettle sang on the stove while rain ran down the dark window" * 4
    ids = Letters().encode(text)
    memory = ms.attach(build("llama", layers=1), "infinite", tokenizer=Letters(), **OPTIONS)
    streams = torch.tensor(ids[: len(ids) // 8 * 8]).view(8, -1)
    whole = memory.fit(streams, steps=3, silent=True)
    assert len(whole) == 3
    for given in (text, [text], {"one": text}, ids, torch.tensor(ids), streams.tolist()):
        again = ms.attach(build("llama", layers=1), "infinite", tokenizer=Letters(), **OPTIONS)
        assert again.fit(given, steps=3, silent=True) == whole
    assert memory.worth(text).own.shape == memory.worth([ids]).own.shape == (1, 31, 7)
    assert memory.worth([text, text[:40]], most=24).own.shape == (2, 2, 7)
    # Too short for eight streams, but not for two.
    assert len(memory.fit(text[:20], steps=1, silent=True)) == 1
    wrong: tuple[tuple[Any, str], ...] = (
        ("short", "9 tokens are needed; give more text, or a smaller window"),
        ("", "9 tokens are needed"),
        (3, "3 cannot be read: give a text, token ids"),
    )
    for no_text, message in wrong:
        with pytest.raises(ms.UserError, match=message):
            memory.fit(no_text, steps=1, silent=True)
    with pytest.raises(ms.UserError, match="give the tokenizer of the model"):
        ms.attach(build("llama", layers=1), "infinite", **OPTIONS).fit("one text")
