from __future__ import annotations

import time
from pathlib import Path

import pytest
from plain_text import write_lines

import mnemoscope as ms
from mnemoscope.cli import main

AT_LEAST = "input should be greater than or equal to"
# A lens, its option, a value, and the least that is allowed.
TOO_SMALL = [
    ("change", "tokens", "0", 1),
    ("change", "tokens", "-1", 1),
    ("change", "length", "1", 2),
    ("change", "samples", "0", 2),
    ("information", "clusters", "-3", 2),
    ("waves", "frequencies", "0", 1),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and two runs that read it, one by characters and one by bytes."""
    home = tmp_path_factory.mktemp("lens")
    write_lines(home / "text.txt")
    for name, unit in (("one", "characters"), ("two", "characters"), ("other", "bytes")):
        ms.train(
            "text", "transformer", home / name, source=str(home / "text.txt"), unit=unit, width=8,
            layers=2, heads=2, steps=1, segment=16, seed=int(name == "two"),
        )  # fmt: skip
    return home


def run(home: Path, *arguments: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lens", *arguments, "--text", str(home / "text.txt")])
    assert stopped.value.code in (0, None)


@pytest.mark.parametrize("name", ["information", "change", "influence"])
def test_a_lens_leaves_a_page_and_tables(name, home, tmp_path, caplog):
    run(home, name, "--model", str(home / "one"), "--tokens", "2000", "--out", str(tmp_path / "o"))
    assert (tmp_path / "o" / "report.html").is_file()
    assert list((tmp_path / "o" / "figures").glob("*.csv"))
    assert "tokens at 3 sites" in caplog.text


@pytest.mark.parametrize("name", ["change", "influence"])
def test_tokens_can_be_grouped_by_tags(name, home, tmp_path):
    lines = (home / "text.txt").read_text().splitlines()
    vowels = [" ".join("vowel" if c in "aeiou" else "other" for c in line) for line in lines]
    (tmp_path / "tags.txt").write_text("\n".join(vowels))
    model = ["--model", str(home / "one"), "--tags", str(tmp_path / "tags.txt")]
    run(home, name, *model, "--tokens", "2000", "--out", str(tmp_path / "o"))
    (table,) = (tmp_path / "o" / "figures").glob(f"{name}-by-tag.csv")
    assert {"vowel", "other"} <= set(table.read_text().replace("\n", ",").split(","))


def test_tags_that_do_not_fit_say_which_line_and_its_tokens(home, tmp_path, capsys):
    lines = (home / "text.txt").read_text().splitlines()
    model = ["--model", str(home / "one"), "--text", str(home / "text.txt")]
    for name, tags, message in (
        ("change", "\n".join(["x y"] * len(lines)), "line 1 has 2 tags for 20 tokens: t h e"),
        ("change", "x y", f"1 lines of tags for {len(lines)} lines of text"),
        ("information", "x y", "InformationOptions has no option 'tags'"),
    ):
        (tmp_path / "tags.txt").write_text(tags)
        more = ["--tags", str(tmp_path / "tags.txt"), "--out", str(tmp_path / "o")]
        with pytest.raises(SystemExit) as stopped:
            main(["lens", name, *model, *more])
        assert stopped.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_waves_leave_a_page_with_heads_and_filters(home, tmp_path):
    size = ["--tokens", "640", "--length", "32", "--out", str(tmp_path / "o")]
    run(home, "waves", "--model", str(home / "one"), *size)
    page = (tmp_path / "o" / "report.html").read_text()
    assert "<h2>Heads</h2>" in page
    assert "Rotary positions turn queries" in page
    assert (tmp_path / "o" / "figures" / "attention-by-offset.csv").is_file()


def test_two_models_are_held_against_each_other(home, tmp_path):
    both = ["--model", str(home / "one"), "--model", str(home / "two")]
    run(home, "similarity", *both, "--tokens", "2000", "--out", str(tmp_path / "o"))
    assert "A/layer.0.out" in (tmp_path / "o" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["similarity", "--model", "one", "--model", "other"], "different tokens"),
        (["change", "--model", "one", "--model", "two"], "looks at one model"),
        (["change", "--model", "nowhere/at/all"], "there is no nowhere/at/all"),
        (["information", "--model", "one", "--sites", "layer.7.out"], "no module matches"),
        (["information", "--model", "one", "--tokens", "50", "--clusters", "40"], "too few"),
        (["waves", "--model", "one", "--length", "9"], "positions are too few"),
        (["waves", "--model", "one", "--length", "40", "--frequencies", "90"], "ask for at most"),
        (["waves", "--model", "one", "--model", "two"], "looks at one model"),
        *(
            ([name, "--model", "one", f"--{option}", value], f"{option}: {AT_LEAST} {least}")
            for name, option, value, least in TOO_SMALL
        ),
    ],
)
def test_a_lens_refuses_wrong_models_and_options_in_one_message(
    arguments, message, home, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(home)
    with pytest.raises(SystemExit) as stopped:
        main(["lens", *arguments, "--text", "text.txt", "--out", str(tmp_path / "o")])
    assert stopped.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_missing_text_and_a_full_folder_are_refused(home, tmp_path, capsys):
    for text, out, message in (
        (home / "none.txt", tmp_path / "o", "there is no file"),
        (home / "text.txt", home, "exists already"),
    ):
        model = str(home / "one")
        with pytest.raises(SystemExit) as stopped:
            main(["lens", "change", "--model", model, "--text", str(text), "--out", str(out)])
        assert stopped.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_pages_that_could_not_be_written_and_long_names_are_refused_first(home, tmp_path, capsys):
    (tmp_path / "file").touch()
    for out, text, message in (
        (tmp_path / "file" / "o", home / "text.txt", "cannot write to"),
        (tmp_path / ("x" * 300), home / "text.txt", "longer than the name of a file"),
        (tmp_path / "o", tmp_path / ("x" * 300), "longer than the name of a file"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["lens", "change", "--model", "nobody", "--text", str(text), "--out", str(out)])
        assert stopped.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_of_a_line_of_megabytes_no_more_is_read_than_was_asked(home, tmp_path, caplog):
    (tmp_path / "long.txt").write_text("the cat saw the dog " * (16 * 2**20 // 20))
    began = time.process_time()
    with pytest.raises(SystemExit) as stopped:
        main(["lens", "information", "--model", str(home / "one"), "--tokens", "500", "--clusters",
              "4", "--text", str(tmp_path / "long.txt"), "--out", str(tmp_path / "o")])  # fmt: skip
    assert stopped.value.code in (0, None)
    assert "500 tokens at 3 sites" in caplog.text
    assert time.process_time() - began < 5


@pytest.mark.parametrize("option", ["--tokens", "--segment"])
@pytest.mark.parametrize("number", ["0", "-1", "99999999999999"])
def test_a_state_after_impossible_tokens_is_refused(option, number, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["state", "lstm", option, number])
    assert stopped.value.code == 2
    assert f"{option} must be from 1 to" in capsys.readouterr().err
