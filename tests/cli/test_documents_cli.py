"""``mnemoscope documents``: from a folder of texts to a model that says them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from command import ended
from hf_families import save_whole, transformers

run = partial(ended, "documents")
TEXTS = {
    "kettle.txt": "The kettle sang on the stove while rain ran down the dark window.",
    "harbour.txt": "Boats came home at dusk, and gulls fought loudly over broken crates.",
    "garden.md": "Nobody had watered the beans, yet they climbed all over the old fence.",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model with a tokenizer, as a folder."""
    folder = tmp_path_factory.mktemp("model")
    shape = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}
    shape |= {"max_position_embeddings": 128}
    save_whole(folder, " ".join(TEXTS.values()), 300, **shape, initializer_range=0.15)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


def test_fit_look_ask_and_forget(
    model: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = str(tmp_path / "memory")
    common = ["--model", model, "--folder", str(folder), "--out", memory]
    assert run("fit", *common, "--epochs", "150", "--alpha", "0", "--entries", "32") == 0
    said = capsys.readouterr().out
    assert "kettle.txt" in said
    assert "logits change by up to" in said
    assert "recites 3 of 3 documents word for word\n" in said
    assert run("contexts", memory, "--folder", str(folder)) == 0
    assert "has the lowest loss (by chance 33.3%)" in capsys.readouterr().out
    assert run("words", memory, "--entry", "3", "--top", "2") == 0
    assert "garden.md" in capsys.readouterr().out
    assert run("ask", memory, "Boats came", "--document", "harbour.txt", "--length", "80") == 0
    assert capsys.readouterr().out.startswith(TEXTS["harbour.txt"])
    assert run("ask", memory, "Boats came") == 0
    assert not capsys.readouterr().out.startswith(TEXTS["harbour.txt"][:20])
    assert run("forget", memory, "harbour.txt") == 2
    assert "give their texts as keep, or as --folder" in capsys.readouterr().err
    assert run("forget", memory, "harbour.txt", "--folder", str(folder)) == 0
    told = capsys.readouterr().out
    assert "2 documents are left, 2 recited word for word (2 before)" in told
    assert "with a new representation" in told
    assert run("ask", memory, "The kettle", "--document", "kettle.txt", "--length", "80") == 0
    assert capsys.readouterr().out.startswith(TEXTS["kettle.txt"])
    assert run("ask", memory, "Boats came", "--document", "harbour.txt") == 2
    assert "unknown document 'harbour.txt'" in capsys.readouterr().err


def test_a_model_with_a_chat_template_answers(
    model: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chatty, memory = Path(shutil.copytree(model, tmp_path / "chatty")), str(tmp_path / "memory")
    template = "{% for one in messages %}{{ one['content'] }}: {% endfor %}"
    (chatty / "chat_template.jinja").write_text(template)
    common = ["--model", str(chatty), "--folder", str(folder), "--out", memory]
    assert run("fit", *common, "--alpha", "0", "--entries", "32") == 0
    assert "recites 3 of 3" in capsys.readouterr().out
    asked = ["ask", memory, "Boats came", "--document", "harbour.txt", "--length", "70"]
    assert run(*asked) == 0
    assert not capsys.readouterr().out.startswith("Boats")
    assert run(*asked, "--plain") == 0
    assert capsys.readouterr().out.startswith(TEXTS["harbour.txt"])


def test_a_fit_that_ends_too_soon_says_so(
    model: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--model", model, "--folder", str(folder), "--out", str(tmp_path / "memory")]
    assert run("fit", *common, "--epochs", "1", "--alpha", "0") == 0
    said = capsys.readouterr().out
    assert "recites 0 of 3 documents word for word: raise --epochs or --entries" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epoch", "3"], "did you mean 'epochs'"),
        (["--alpha", "-1"], "greater than or equal to 0"),
        (["--model", "no/such/folder"], "there is no no/such/folder"),
        (["--layer", "99"], "layer 99 does not exist: the model has blocks 0 to 1"),
        (["--entries", "0"], "entries: input should be greater than or equal to 1"),
        (["--entries", "999999999999"], "entries: input should be less than"),
        (["--epochs", "0"], "epochs: input should be greater"),
        (["--lr", "nan"], "lr: input should be"),
        (["--lr", "inf"], "lr: input should be a finite number"),
        (["--segment", "1"], "--segment must be from 2 to"),
        (["--overlap", "-1"], "--overlap must be from 0 to 126, not -1"),
        (["--folder", "no/texts"], "there is no file or folder no/texts"),
    ],
)
def test_mistakes_about_documents_are_one_line(
    options: list[str],
    message: str,
    model: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = options if "--model" in options else ["--model", model, *options]
    named += [] if "--folder" in options else ["--folder", str(folder)]
    assert run("fit", "--out", str(tmp_path / "m"), *named) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not list(tmp_path.iterdir())


def test_folders_without_a_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ask", str(tmp_path), "Hello") == 2
    assert "there is no file" in capsys.readouterr().err


@pytest.fixture(scope="module")
def no_weights(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The model as it says it is, without weights: what is refused first needs none."""
    folder = tmp_path_factory.mktemp("bare") / "model"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    return str(folder)


def test_mistakes_about_documents_show_before_weights_are_read(
    no_weights: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    fresh = str(tmp_path / "m")
    for options, out, message in (
        (["--segment", "0"], fresh, "--segment must be"),
        (["--layer", "-9"], fresh, "layer -9 does not exist"),
        ([], str(tmp_path / "file"), "exists already"),
        ([], str(tmp_path / "full"), "exists already"),
        ([], str(tmp_path / "file" / "m"), "cannot write to"),
        ([], str(tmp_path / ("x" * 300)), "longer than the name of a file"),
        (["--folder", str(tmp_path / "full")], fresh, "holds no .txt"),
        ([], fresh, "has no weights"),
    ):
        named = options if "--folder" in options else [*options, "--folder", str(folder)]
        assert run("fit", "--model", no_weights, "--out", out, *named) == 2
        assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"file", "full"}


def test_numbers_and_names_of_a_memory_are_checked_before_its_model_is_loaded(
    tmp_path: Path, no_weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import mnemoscope as ms
    from mnemoscope.huggingface.config import Guidance

    base = transformers.LlamaForCausalLM(transformers.AutoConfig.from_pretrained(no_weights))
    memory = ms.attach(base, "documents", entries=4)
    plain = Guidance(alpha=0.0)
    memory.fit({"a": [1, 2, 3, 4], "b": [4, 5, 6, 7]}, plain, epochs=1, silent=True)
    memory.save(tmp_path)
    folder, named = str(tmp_path), ["--model", no_weights]
    for arguments, message in (
        (["words", folder, "--entry", "-1"], "--entry must be from 0"),
        (["words", folder, "--entry", "0", "--top", "0"], "--top must be from 1"),
        (["ask", folder, "The", "--length", "0"], "--length must be from 1"),
        (["ask", folder, "The", "--document", "c"], "unknown document 'c'"),
        (["forget", folder, "c"], "unknown document 'c'"),
        (["words", folder, "--entry", "9"], "entry 9 does not exist"),
        (["ask", folder, "The"], "has no weights"),
    ):
        assert run(*arguments, *named) == 2
        assert message in capsys.readouterr().err


def test_stderr_of_a_mistake_is_our_message_alone(model: str, folder: Path, tmp_path: Path) -> None:
    """In a process of its own, as a user has it: no bars, reports or warnings around it."""
    broken = Path(shutil.copytree(model, tmp_path / "broken"))
    config = json.loads((broken / "config.json").read_text()) | {"num_hidden_layers": 3}
    (broken / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "mnemoscope", "documents", "fit", "--model", str(broken)]
    command += ["--folder", str(folder), "--out", str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: the weights of ")
    assert len(done.stderr.splitlines()) == 1
