"""The folder of a study: claimed by one, never mixed, nothing in it believed unchecked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from complaints import complaint
from hypothesis import given, settings
from hypothesis import strategies as st

import mnemoscope as ms
from mnemoscope.api import Published
from mnemoscope.core.bounded import read_sealed
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import held

TINY = "tiny_study:Tiny"
ANYTHING = st.binary(max_size=120) | st.text(alphabet='{}[]":,&*! \nstudy: 0.1e', max_size=60).map(
    str.encode
)


def tiny(folder: Path, **options: Any) -> Published:
    return ms.study(TINY, out=folder, jobs=1, trust="tiny_study", **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return tiny(tmp_path_factory.mktemp("tiny") / "study")


def numbers(published: Published) -> Any:
    return published.result.losses


def copied(done: Published, place: Path) -> Path:
    return Path(shutil.copytree(done.page.parent, place / "study"))


def models(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("model.safetensors"))}


def test_what_was_done_again_is_said_on_the_page(done: Published, tmp_path: Path) -> None:
    folder = copied(done, tmp_path)
    (folder / "runs" / "rnn" / "examined.json").write_text("{}")
    assert "done again" not in tiny(folder).page.read_text()  # the result stands without it
    (folder / "result.json").unlink()
    found = tiny(folder)
    assert numbers(found) == numbers(done)
    said = "1 of 2 trials was examined again because what was kept of it was damaged: rnn."
    assert said in found.page.read_text()
    assert said in tiny(folder).page.read_text()


def changed_number(content: bytes) -> bytes:
    result = json.loads(content)
    result["result"]["losses"]["rnn"]["loss"] /= 2
    return json.dumps(result).encode()


def without_seal(content: bytes) -> bytes:
    result = json.loads(changed_number(content))
    del result["seal"]
    return json.dumps(result).encode()


@pytest.mark.parametrize(
    "change", [lambda content: b"{}", lambda content: content[:-9], changed_number, without_seal]
)
def test_a_damaged_result_is_computed_again_from_the_trials(
    done: Published, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    folder = copied(done, tmp_path)
    result = folder / "result.json"
    result.write_bytes(change(result.read_bytes()))
    before = models(folder)
    found = tiny(folder)
    assert numbers(found) == numbers(done)
    assert models(folder) == before
    page = found.page.read_text()
    assert "result.json is damaged" in page
    assert "computed again from the trials" in page


def test_a_result_of_other_options_is_not_taken(done: Published, tmp_path: Path) -> None:
    other = tiny(tmp_path / "other", lr=0.1)
    shutil.copy(done.page.parent / "result.json", tmp_path / "other" / "result.json")
    assert numbers(tiny(tmp_path / "other", lr=0.1)) == numbers(other) != numbers(done)


def aged(folder: Path) -> None:
    """Make a folder what versions without seals left."""
    for path in folder.glob("runs/*/examined.json"):
        path.write_text(json.dumps(read_sealed(path, "")["values"]))
    result = json.loads((folder / "result.json").read_text())
    flat = {**result["result"], "made": result["made"]}
    (folder / "result.json").write_text(json.dumps(flat))


def test_a_study_of_an_older_version_opens_and_goes_on(done: Published, tmp_path: Path) -> None:
    folder = copied(done, tmp_path)
    aged(folder)
    before = models(folder)
    old = tiny(folder)
    assert numbers(old) == numbers(done)
    assert models(folder) == before
    assert "2 of 2 trials were examined again" in old.page.read_text()
    assert "is of another version" in old.page.read_text()


def test_an_older_result_that_no_page_can_be_made_of_is_computed_again(
    done: Published, tmp_path: Path
) -> None:
    folder = copied(done, tmp_path)
    aged(folder)
    result = folder / "result.json"
    changes: list[dict[str, Any]] = [
        {"losses": 3},
        {"made": {}},
        {"version": 1, "result": {"losses": {"rnn": {}}}},
    ]
    for change in changes:
        result.write_text(json.dumps(json.loads(result.read_text()) | change))
        assert numbers(tiny(folder)) == numbers(done)


@pytest.mark.parametrize(
    ("file", "examples"), [("result.json", 12), ("study.yaml", 40), ("runs/rnn/examined.json", 6)]
)
def test_any_bytes_in_a_file_give_the_true_numbers_or_a_user_error(
    done: Published, tmp_path: Path, file: str, examples: int
) -> None:
    folder = copied(done, tmp_path)
    if file.startswith("runs"):
        (folder / "result.json").unlink()
    true = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    @settings(max_examples=examples)
    @given(ANYTHING)
    def holds(content: bytes) -> None:
        for path, known in true.items():
            path.write_bytes(known)
        (folder / file).write_bytes(content)
        found: list[Published] = []
        said = complaint(lambda: found.append(tiny(folder)))
        if said is None:
            assert numbers(found[0]) == numbers(done)
        else:
            assert file == "study.yaml"
            assert str(folder) in said

    holds()


def test_the_same_options_in_another_layout_are_the_same_study(
    done: Published, tmp_path: Path
) -> None:
    folder = copied(done, tmp_path)
    mark = folder / "study.yaml"
    options = yaml.safe_load(mark.read_text())
    mark.write_text("# mine\n" + yaml.safe_dump(options, sort_keys=True, indent=8))
    assert tiny(folder).result == done.result
    # An option that a later version added has its default where it is not named.
    del options["refused"]
    mark.write_text(yaml.safe_dump(options))
    assert numbers(tiny(folder)) == numbers(done)
    mark.write_text(yaml.safe_dump(options | {"steps": 3}))
    with pytest.raises(UserError, match="other options"):
        tiny(folder)


def test_a_damaged_mark_can_be_deleted(done: Published, tmp_path: Path) -> None:
    folder = copied(done, tmp_path)
    before = models(folder)
    for content in (b"study: [", b"\xff", b"3", b"&a [*a]", b"1: 2"):
        (folder / "study.yaml").write_bytes(content)
        said = complaint(lambda: tiny(folder)) or ""
        assert str(folder / "study.yaml") in said
        assert "Delete that file" in said
    (folder / "study.yaml").unlink()
    assert tiny(folder).result == done.result
    assert models(folder) == before
    # With other options nothing of it is taken.
    (folder / "study.yaml").unlink()
    other = tiny(folder, lr=0.1)
    assert numbers(other) == numbers(tiny(tmp_path / "fresh", lr=0.1))
    assert "2 of 2 trials were trained again" in other.page.read_text()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    for name in ("letter.txt", "runs/mine/config.yaml", "result.json/x"):
        home = tmp_path / name.replace("/", "-")
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("mine")
        if not name.startswith("result"):
            with pytest.raises(UserError, match="not a study"):
                tiny(home)
        assert [path.name for path in home.rglob("*") if path.is_file()] == [Path(name).name]


def refusals(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Studies that are refused before their first training, with options that are wrong."""
    missing = str(tmp_path / "missing")
    return {
        "option": {"name": TINY, "stepps": 3},
        "value": {"name": TINY, "steps": 0},
        "preset": {"name": TINY, "preset": "huge"},
        "jobs": {"name": TINY, "jobs": 0},
        "in run": {"name": TINY, "refused": True},
        "memory": {"name": TINY, "memories": "rnnn"},
        "study": {"name": "tinny"},
        "books": {"name": "books", "source": missing},
        "patterns": {"name": "patterns", "source": missing},
        "images": {"name": "images", "source": missing},
        "translation": {"name": "translation", "corpus": missing},
        "evolution": {"name": "evolution", "corpus": missing},
        "waves": {"name": "waves", "source": missing},
        "waves model": {"name": "waves", "real": missing},
        "documents": {"name": "documents", "source": missing, "base_steps": 1},
        "documents model": {"name": "documents", "model": missing},
        "past window": {"name": "past", "topic_window": 400},
        "past read": {"name": "past", "topic_read": 100},
        "heads": {"name": "waves", "width": 63},
        "many": {"name": "lag", "learning_rates": "0.001,0.0010000001"},
        "device": {"name": "lag", "device": "abacus"},
        "size": {"name": "lag", "parameters": 10},
    }


REFUSALS = tuple(refusals(Path()))


@pytest.mark.parametrize("case", REFUSALS)
def test_a_study_that_is_refused_leaves_nothing_behind(tmp_path: Path, case: str) -> None:
    call = refusals(tmp_path)[case]
    out = tmp_path / "a" / "b" / "study"
    assert complaint(lambda: ms.study(**{"out": out, "jobs": 1, "trust": "tiny_study", **call}))
    assert list(tmp_path.iterdir()) == []
    out.mkdir(parents=True)
    assert complaint(lambda: ms.study(**{"out": out, "jobs": 1, "trust": "tiny_study", **call}))
    assert list(out.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_where_nothing_can_be_written_nothing_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        assert "cannot write" in (complaint(lambda: tiny(tmp_path / "study")) or "")
        assert "cannot write" in (complaint(lambda: tiny(tmp_path)) or "")
    finally:
        tmp_path.chmod(0o755)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["letter/study", "letter", "x" * 300, "a\0b"])
def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "letter").write_text("mine")
    assert complaint(lambda: tiny(tmp_path / place))
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_study_that_is_worked_on_is_left_alone(done: Published, tmp_path: Path) -> None:
    folder = copied(done, tmp_path)
    with held(folder, "busy"), pytest.raises(UserError, match="another process is working on"):
        tiny(folder)
    tiny(folder)


START = """
import sys
import mnemoscope as ms
import tiny_study, torch
from mnemoscope.core.errors import UserError
print("ready", flush=True)
for line in sys.stdin:
    try:
        ms.study("tiny_study:Waiting", out=line.strip(), jobs=1, trust="tiny_study")
    except UserError as error:
        if str(error) != "enough":
            print(error, flush=True)
            sys.stdin.readline()
    print("done", flush=True)
"""


def test_of_two_that_start_at_once_exactly_one_works(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [
        subprocess.Popen([sys.executable, "-c", START], env=environment, **pipes) for _ in range(2)
    ]

    def say(word: str) -> None:
        for one in both:
            assert one.stdin is not None
            one.stdin.write(f"{word}\n")
            one.stdin.flush()

    def heard() -> list[str]:
        return sorted(one.stdout.readline().strip() for one in both if one.stdout is not None)

    assert heard() == ["ready", "ready"]
    for number in range(100):
        folder = tmp_path / str(number)
        say(str(folder))
        told = heard()
        assert told[1] == "works", told
        assert told[0].startswith(f"another process is working on {folder}"), told
        say("")
        assert heard() == ["done", "done"]
        # One may have made the folder that the other held: then it is left, with nothing in it.
        assert not folder.exists() or not any(folder.iterdir())
    for one in both:
        one.communicate()
