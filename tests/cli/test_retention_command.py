from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import ended as run

import mnemoscope as ms

FEW = (
    "--ages 1,4,8 --items 1,2 --overwrites 0,1 --pairs 2 --rest 8 --episodes 8 --keys 4 --values 4"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on recall, one on text, and a Hugging Face model."""
    transformers = pytest.importorskip("transformers")
    home = tmp_path_factory.mktemp("retention")
    shape: dict[str, Any] = {
        "keys": 4,
        "values": 4,
        "pairs": 2,
        "queries": 2,
        "length": 12,
        "width": 8,
    }
    ms.train("recall", "gru", home / "recall", steps=1, **shape)
    (home / "text.txt").write_text("the cat saw the dog and the dog saw the cat again " * 400)
    ms.train("text", "lstm", home / "text", source=str(home / "text.txt"), steps=1, width=8,
             segment=16)  # fmt: skip
    config = transformers.GPT2Config(
        vocab_size=60, n_embd=8, n_layer=1, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(home / "gpt2")
    return home


@pytest.mark.parametrize("name", ["recall", "text", "gpt2"])
def test_any_model_can_be_asked(name: str, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "seen"
    source = str(home / name)
    assert run("lens", "retention", "--model", source, "--out", str(out), *FEW.split()) == 0
    page = (out / "report.html").read_text()
    asked = "on the task it was trained on" if name == "recall" else "in context, without training"
    assert asked in page
    assert "bits per byte" in page
    for figure in ("recall-by-age", "recall-by-items", "recall-by-overwrites", "yardstick"):
        assert (out / "figures" / f"{figure}.csv").is_file()


def test_models_are_asked_side_by_side(home: Path, tmp_path: Path) -> None:
    models = ["--model", str(home / "recall"), "--model", str(home / "recall")]
    assert run("lens", "retention", *models, "--out", str(tmp_path / "s"), *FEW.split()) == 0
    assert "recall (2)" in (tmp_path / "s" / "figures" / "recall-by-age.csv").read_text()


def test_retention_refuses_wrong_options_and_models_in_one_message(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recall, out = str(home / "recall"), str(tmp_path / "o")
    assert run("lens", "retention", "--model", recall, "--out", out, "--aegs", "1,2") == 2
    assert "did you mean 'ages'" in capsys.readouterr().err
    text = str(home / "text.txt")
    assert run("lens", "retention", "--model", recall, "--out", out, "--text", text) == 2
    assert "reads no text" in capsys.readouterr().err
    assert run("lens", "information", "--model", recall, "--out", out) == 2
    assert "--text FILE" in capsys.readouterr().err
    arguments = ["--model", recall, "--out", out, "--text", text, "--ages", "1,2"]
    assert run("lens", "information", *arguments) == 2
    assert "has no option 'ages'" in capsys.readouterr().err
    for option in ("ages", "items", "keys", "values", "episodes", "batch", "segment", "resamples"):
        for number in ("0", "-1", "99999999999999"):
            given = f"1,{number}" if option in ("ages", "items") else number
            asked = ["lens", "retention", "--model", "nobody", "--out", out, f"--{option}", given]
            assert run(*asked) == 2
            assert option in capsys.readouterr().err
    assert run("lens", "retention", "--model", str(home), "--out", out) == 2
    assert "neither a run" in capsys.readouterr().err
    assert not Path(out).exists()


def test_the_command_state_shows_what_is_carried(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = ["lstm", str(home / "recall"), str(home / "gpt2")]
    assert run("state", *sources, "--tokens", "20", "--segment", "7") == 0
    said = capsys.readouterr().out
    assert said.count("bit for bit") == 3
    assert "512" in said
    assert f"{2 * 20 * 8 * 4:,}" in said
    assert run("state", "gru", "--tokens", "5", "--width", "16") == 0
    said = capsys.readouterr().out
    assert "layers.0.hidden  float32 (1, 16)  64 bytes" in said
    assert run("state", "gru", "--wdith", "16") == 2
    assert "did you mean 'width'" in capsys.readouterr().err
    assert run("state", "no/such/folder") == 2
    assert run("state", "--tokens", "0") == 2


def test_mistyped_options_show_before_torch_is_imported() -> None:
    code = (
        "import sys\nfrom mnemoscope.cli import main\n"
        "try: main(['lens', 'retention', '--model', 'x', '--out', 'y', '--aegs', '1'])\n"
        "except SystemExit: assert 'torch' not in sys.modules\n"
        "try: main(['study', 'retention', '--memories', 'gruu'])\n"
        "except SystemExit: assert 'torch' not in sys.modules\n"
        "try: main(['state', 'sparse', '--wdith', '1'])\n"
        "except SystemExit: assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error:") == 3


def test_the_list_shows_the_options_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "retention") == 0
    said = capsys.readouterr().out
    assert "study retention" in said
    assert "lens retention" in said
    assert "--token-widths" in said
    assert "--resamples" in said
