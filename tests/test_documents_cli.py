"""``mnemoscope documents``: from a folder of texts to a model that says them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemoscope.cli import main

transformers = pytest.importorskip("transformers")

TEXTS = {
    "kettle.txt": "The kettle sang on the stove while rain ran down the dark window.",
    "harbour.txt": "Boats came home at dusk, and gulls fought loudly over broken crates.",
    "garden.md": "Nobody had watered the beans, yet they climbed all over the old fence.",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model with a tokenizer, as a folder."""
    import torch

    from mnemoscope.data.vocabulary import Merges

    folder = tmp_path_factory.mktemp("model")
    vocabulary = Merges.learn(" ".join(TEXTS.values()), 300)
    transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary._tokenizer).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary.size,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.15,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


def run(*arguments: str) -> int:
    try:
        main(["documents", *arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_fit_look_ask_and_forget(
    model: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = str(tmp_path / "memory")
    common = ["--model", model, "--folder", str(folder), "--out", memory]
    assert run("fit", *common, "--epochs", "150", "--alpha", "0", "--entries", "32") == 0
    said = capsys.readouterr().out
    assert "kettle.txt" in said
    assert "logits change by up to" in said
    assert run("contexts", memory, "--folder", str(folder)) == 0
    assert "chance of naming: 33.3%" in capsys.readouterr().out
    assert run("words", memory, "--entry", "3", "--top", "2") == 0
    assert "garden.md" in capsys.readouterr().out
    assert run("ask", memory, "Boats came", "--document", "harbour.txt", "--length", "80") == 0
    assert capsys.readouterr().out.startswith(TEXTS["harbour.txt"])
    assert run("ask", memory, "Boats came") == 0
    assert not capsys.readouterr().out.startswith(TEXTS["harbour.txt"][:20])
    assert run("forget", memory, "harbour.txt") == 0
    assert "2 documents are left" in capsys.readouterr().out
    assert run("ask", memory, "Boats came", "--document", "harbour.txt") == 2
    assert "unknown document 'harbour.txt'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epoch", "3"], "did you mean 'epochs'"),
        (["--alpha", "-1"], "greater than or equal to 0"),
        (["--model", "no/such/folder"], "cannot load 'no/such/folder'"),
    ],
)
def test_mistakes_are_one_line(
    options: list[str],
    message: str,
    model: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = options if "--model" in options else ["--model", model, *options]
    assert run("fit", "--folder", str(folder), "--out", str(tmp_path / "m"), *named) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


def test_folders_without_a_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ask", str(tmp_path), "Hello") == 2
    assert "there is no file" in capsys.readouterr().err
