"""Folders of Hugging Face models that are damaged, mixed up or made to do harm."""

from __future__ import annotations

import json
import logging
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from complaints import complaint
from hf_families import FAMILIES, build, save_whole, transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemoscope.huggingface.folder import find_folder
from mnemoscope.huggingface.loading import (
    architecture,
    load_bare,
    load_causal,
    load_model,
    load_tokenizer,
)
from mnemoscope.huggingface.quiet import quiet
from mnemoscope.open import open_reader

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    save_whole(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def change(folder: Path, **values: Any) -> None:
    """Change config.json; None takes a key out."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: v for key, v in config.items() if v is not None}))


def in_shards(folder: Path, name: str) -> None:
    """Say in an index that all weights are in a file of this name."""
    index = {"metadata": {}, "weight_map": {"model.norm.weight": name}}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))


def cut(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])


def pickled(folder: Path) -> None:
    torch.save({"a": torch.zeros(2)}, folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def without_weights(folder: Path) -> None:
    (folder / WEIGHTS).unlink()


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def missing_shard(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    in_shards(folder, "model-00001-of-00002.safetensors")


def shard_outside(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder.parent / WEIGHTS)
    in_shards(folder, f"../{WEIGHTS}")


def weights_outside(folder: Path) -> None:
    change(folder, transformers_weights=f"../{WEIGHTS}")


def config_says(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "config.json").write_text(text)

    return write


def changed(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder, **values)


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut weights": (cut, "model.safetensors is cut short"),
    "no weights": (without_weights, "has no weights"),
    "empty folder": (emptied, "neither a run (config.yaml) nor"),
    "pickle": (pickled, "only pytorch_model.bin, which can run code"),
    "missing shard": (missing_shard, "model-00001-of-00002.safetensors, which is not there"),
    "shard outside": (shard_outside, "is no file in its folder"),
    "weights outside": (weights_outside, "is no file in its folder"),
    "no JSON": (config_says("{"), "config.json is damaged"),
    "a list": (config_says("[]"), "not an object"),
    "deep": (config_says("[" * 100_000), "config.json is damaged"),
    "no model_type": (changed(model_type=None), "does not say its model_type"),
    "strange model_type": (changed(model_type="nobody"), "cannot load"),
    "odd names": (changed(architectures=[3]), "no list of names"),
    "other width": (changed(hidden_size=32), "do not fit its config.json"),
    "more layers": (changed(num_hidden_layers=3), "layers.2."),
    "layers without end": (changed(num_hidden_layers=10**9), "num_hidden_layers=1000000000"),
    "huge width": (changed(hidden_size=2 * 10**6), "describes"),
    "huger width": (changed(hidden_size=2 * 10**12), "describes"),
    "no heads": (changed(num_attention_heads=0), "cannot load"),
    "code of a hub": (changed(attn_implementation="some/kernel"), "asks for code from a hub"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_told_in_a_line(name: str, folder: Path) -> None:
    spoil, message = BROKEN[name]
    spoil(folder)
    for load in (load_causal, load_bare):
        said = complaint(lambda load=load: load(str(folder)))  # type: ignore[misc]
        assert said is not None
        assert message in said
        assert "\n" not in said
    assert complaint(lambda: open_reader(folder)) is not None


def test_an_adapter_is_no_model(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "../elsewhere"}')
    assert "holds an adapter" in str(complaint(lambda: load_causal(str(folder))))


def test_no_code_of_a_folder_is_run(folder: Path) -> None:
    marker = folder / "it-ran"
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    (folder / "evil.py").write_text(f"{code}class Evil: pass\n")
    for name in ("config.json", "tokenizer_config.json"):
        kinds: dict[str, Any] = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
        kinds |= {"AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
        said = json.loads((folder / name).read_text()) | {"auto_map": kinds}
        (folder / name).write_text(json.dumps(said))
    load_model(str(folder))
    open_reader(folder)
    # Nor when nothing but that code would know the model.
    change(folder, model_type="evil")
    assert complaint(lambda: load_model(str(folder))) is not None
    assert not marker.exists()


def test_tokenizers_that_are_missing_damaged_or_too_large(folder: Path, whole: Path) -> None:
    for path in folder.glob("token*"):
        path.unlink()
    assert "has no tokenizer" in str(complaint(lambda: load_model(str(folder))))
    assert "has no tokenizer" in str(complaint(lambda: open_reader(folder)))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    assert "has no tokenizer" in str(complaint(lambda: load_tokenizer(str(folder))))
    for text in ("{", "[]", '{"model": {"type": "BPE"}}', ""):
        (folder / "tokenizer.json").write_text(text)
        assert "the tokenizer of" in str(complaint(lambda: load_model(str(folder))))
    shutil.copy(whole / "tokenizer.json", folder)
    shutil.copy(whole / "tokenizer_config.json", folder)
    known = load_tokenizer(str(folder)).vocab_size
    small = save_whole(folder / "small", vocab_size=100)
    said = str(complaint(lambda: load_model(str(folder / "small"))))
    assert f"has {known} words but the model only {small.config.vocab_size}" in said
    assert said == str(complaint(lambda: open_reader(folder / "small")))


def test_an_added_token_is_refused_only_where_a_text_holds_it(folder: Path) -> None:
    model, tokenizer = load_model(str(folder))
    tokenizer.add_tokens(["<image>"])
    with quiet():
        tokenizer.save_pretrained(folder)
    reader = open_reader(folder)
    assert reader.encode is not None
    reader.encode(["the kettle"])
    words = model.config.vocab_size
    with pytest.raises(Exception, match=f"holds token id {words}, but .* reads 0 to {words - 1}"):
        reader.encode(["the <image>"])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_what_is_whole_loads_to_the_same_numbers(family: str, tied: bool, tmp_path: Path) -> None:
    model = build(family, tie_word_embeddings=tied)
    with quiet():
        model.save_pretrained(tmp_path)
        tokens = torch.arange(3, 12)[None]
        loaded, bare = load_causal(str(tmp_path)), load_bare(str(tmp_path))
        assert torch.equal(loaded(tokens).logits, model(tokens).logits)
        want = model(tokens, output_hidden_states=True).hidden_states[-1]
        assert torch.equal(bare(tokens).last_hidden_state, want)
    # Nothing lies where a file happens to have it: last bits would depend on that place.
    assert all(weight.data_ptr() % 64 == 0 for weight in loaded.parameters())
    (tmp_path / WEIGHTS).write_bytes(b"")
    with quiet():
        assert torch.equal(loaded(tokens).logits, model(tokens).logits)


def test_weights_may_lie_in_shards_and_an_encoder_may_lack_its_pooler(tmp_path: Path) -> None:
    model = build("llama")
    with quiet():
        model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
        assert not (tmp_path / "shards" / WEIGHTS).exists()
        loaded = load_causal(str(tmp_path / "shards"))
        assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
        shape: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 9}
        shape |= {"num_attention_heads": 1, "intermediate_size": 8}
        config = transformers.BertConfig(**shape)
        transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    assert load_bare(str(tmp_path / "bert")).pooler is not None
    assert architecture(str(tmp_path / "bert")) == "BertForMaskedLM"


def test_a_folder_that_was_meant_is_never_asked_of_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    Path("file").touch()
    for name in ("here/small", "./small", "a/b/c", str(tmp_path / "no"), "file", "", " ",
                 "a b", "x" * 5000, "nul\0", "../x", "runs/gone", "models/x", "memories/notes",
                 "checkpoints/1", "~/no-such-model", "~nobody-at-all/x"):  # fmt: skip
        assert complaint(lambda name=name: find_folder(name)) is not None  # type: ignore[misc]
        assert complaint(lambda name=name: load_causal(name)) is not None  # type: ignore[misc]
    assert find_folder("here") == Path("here")
    assert find_folder("EleutherAI/pythia-1b") is None
    assert find_folder("gpt2") is None


def test_a_folder_at_home_is_found(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(whole, tmp_path / "small")
    model, tokenizer = load_model("~/small")
    assert tokenizer.vocab_size == model.config.vocab_size


def test_loading_is_silent_and_leaves_the_library_as_it_was(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.utils import logging as own

    monkeypatch.delenv("CI", raising=False)
    own.set_verbosity_info()
    own.enable_progress_bar()
    try:
        load_model(str(folder))
        open_reader(folder).encode(["the kettle " * 200])  # type: ignore[misc]
        change(folder, num_hidden_layers=3)
        complaint(lambda: load_model(str(folder)))
        said = capfd.readouterr()
        assert (said.out, said.err) == ("", "")
        assert own.get_verbosity() == logging.INFO
        assert own.is_progress_bar_enabled()
        with pytest.warns(UserWarning, match="still here"):
            warnings.warn("still here", stacklevel=1)
    finally:
        own.set_verbosity_warning()


FILES = (
    "config.json",
    WEIGHTS,
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_give_a_model_or_a_complaint(data: st.DataObject, folder: Path) -> None:
    path = folder / data.draw(st.sampled_from(FILES))
    before = path.read_bytes()
    # Mostly where the structure is; damage inside the numbers of weights is still weights.
    place = data.draw(st.integers(0, min(len(before), 4000) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "fill", "replace"]))
    after = {
        "flip": before[:place] + bytes([data.draw(st.integers(0, 255))]) + before[place + 1 :],
        "cut": before[:place],
        "fill": before[:place] + data.draw(st.binary(max_size=40)) + before[place:],
        "replace": data.draw(st.binary(max_size=200)),
    }[how]
    try:
        path.write_bytes(after)
        complaint(lambda: load_model(str(folder)))
    finally:
        path.write_bytes(before)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.text(max_size=5), st.floats(),
    st.lists(st.integers(0, 3), max_size=2), st.dictionaries(st.text(max_size=2), st.integers()),
)  # fmt: skip


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_a_config_gives_a_model_or_a_complaint(
    data: st.DataObject, folder: Path
) -> None:
    path = folder / "config.json"
    before = path.read_bytes()
    config = json.loads(before)
    config[data.draw(st.sampled_from(sorted(config)))] = data.draw(VALUES)
    try:
        path.write_text(json.dumps(config))
        complaint(lambda: load_causal(str(folder)))
    finally:
        path.write_bytes(before)


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(folder: Path) -> None:
    for name in ("tokenizer.json", WEIGHTS, "config.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert complaint(lambda: load_model(str(folder))) is not None
