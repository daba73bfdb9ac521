"""Every registered lens: through ``ms.lens``, on the command line, and as a page without torch."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import pickle
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_text import write_lines

import mnemoscope as ms
from mnemoscope import lenses
from mnemoscope.cli import main
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import LENSES, find, options_of
from mnemoscope.lenses.horizon import result as horizon
from mnemoscope.lenses.lens import Lens, Result
from mnemoscope.lenses.retention.result import RetentionComparison
from mnemoscope.memories.infinite import horizon as algebra
from mnemoscope.report.document import Figure, Finding, Table, slug

# Which of the models below a lens can look at, which it cannot, and options that make it quick.
TEXT = {"tokens": 1500, "length": 32}
EPISODES: dict[str, Any] = {
    "ages": (1, 4), "items": (1, 2), "overwrites": (0, 1), "pairs": 2, "rest": 8, "keys": 4,
    "values": 4, "episodes": 8, "resamples": 20,
}  # fmt: skip
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "retention": ("lstm", "translator", "reads a source first", EPISODES),
    "horizon": (
        "lstm",
        "gpt2",
        "horizon reads the states of models built here",
        {"window": 4, "windows": 3, "features": 8, "rows": 40, "batch": 10},
    ),
    "gates": ("lstm", "transformer", "gates are those of LSTM and GRU", TEXT),
    "attention_maps": ("sparse", "lstm", "attention maps are those of a sparse model", TEXT),
    "alignment": ("translator", "lstm", "alignment needs a translator", {"sentences": 3}),
    "information": ("transformer", "recall", "has no vocabulary", {**TEXT, "clusters": 8}),
    "change": ("transformer", "recall", "has no vocabulary", TEXT),
    "influence": ("transformer", "recall", "has no vocabulary", TEXT),
    "neighbours": ("transformer", "recall", "has no vocabulary", {**TEXT, "k": 3}),
    "occurrences": ("transformer", "recall", "has no vocabulary", {**TEXT, "words": "e,a"}),
    "similarity": ("transformer", "recall", "has no vocabulary", TEXT),
    "evolution": ("transformer", "recall", "has no vocabulary", {**TEXT, "clusters": 8}),
    "spectrum": ("transformer", "recall", "has no vocabulary", {**TEXT, "window": 16}),
    "heads": ("transformer", "lstm", "no layers with queries and keys", {**TEXT, "reach": 4}),
    "waves": ("transformer", "lstm", "no layers with queries and keys", {**TEXT, "filtered": 4}),
    "reach": ("translator", "lstm", "reach needs a translator", {"sentences": 3}),
}
PRIVATE = r"\b(place|under a document|goes on|worth|named|even)\b"
SENTENCES = ["the cat saw the dog\tder hund sah die katze", "the king met the fish"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, and runs of one step on it, on recall and on translation."""
    home = tmp_path_factory.mktemp("lenses")
    write_lines(home / "text.txt")
    shape: dict[str, Any] = {"width": 8, "steps": 1}
    text = {**shape, "source": str(home / "text.txt"), "unit": "characters", "segment": 32}
    ms.train("text", "lstm", home / "lstm", **text)
    ms.train("text", "transformer", home / "transformer", **text, layers=2, heads=2)
    ms.train("text", "sparse", home / "sparse", **text, layers=2, heads=2)
    ms.train("recall", "gru", home / "recall", **shape, keys=4, values=4, pairs=2, queries=2,
             length=12)  # fmt: skip
    ms.train("translation", "luong", home / "translator", **shape, sentences=300)
    return home


def given(name: str, home: Path) -> list[str] | Path | None:
    reads = find("lens", name).reads
    inputs: dict[str, list[str] | Path | None]
    inputs = {"texts": home / "text.txt", "pairs": SENTENCES, "nothing": None}
    return inputs[reads]


@pytest.fixture(scope="module")
def seen(home: Path) -> dict[str, Result]:
    """What every lens found, with its page in a folder of its name."""
    return {
        name: ms.lens(name, home / model, given(name, home), home / "pages" / name, **options)
        for name, (model, _, _, options) in CASES.items()
    }


def test_every_lens_is_tried_here() -> None:
    assert set(CASES) == set(LENSES)


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_has_the_parts_of_the_contract(name: str) -> None:
    lens = find("lens", name)
    assert issubclass(lens, Lens)
    assert lens.Options is options_of("lens", name)
    assert getattr(lenses, lens.__name__) is lens
    assert all(hasattr(lens, part) for part in ("title", "question", "observe", "result"))
    assert all(meaning for *_, meaning in lens.Options.options())


@pytest.mark.parametrize("name", LENSES)
def test_a_result_shows_itself(name: str, seen: dict[str, Result]) -> None:
    result = seen[name]
    assert dataclasses.is_dataclass(result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, dataclasses.fields(result)[0].name, None)
    assert result.figure().data
    rows = result.table()
    assert rows
    shown = result._repr_html_()
    assert "plotly" in shown
    assert all(escape(column) in shown for column in rows[0])


@pytest.mark.parametrize("name", LENSES)
def test_a_table_is_records_that_data_frames_take_as_they_are(
    name: str, seen: dict[str, Result]
) -> None:
    rows = seen[name].table()
    assert all(list(row) == list(rows[0]) for row in rows)
    cells = [cell for row in rows for cell in row.values()]
    assert {type(cell) for cell in cells} <= {str, int, float, bool, type(None)}
    # A column holds one kind of values, or numbers of both kinds.
    for column in rows[0]:
        kinds = {type(row[column]) for row in rows} - {type(None)}
        assert len(kinds) <= 1 or kinds == {int, float}
    for library in ("pandas", "polars"):
        if importlib.util.find_spec(library) is not None:
            frame = importlib.import_module(library).DataFrame(rows)
            assert frame.shape == (len(rows), len(rows[0]))


@pytest.mark.parametrize("name", LENSES)
def test_a_result_prints_shapes_and_not_its_numbers(name: str, seen: dict[str, Result]) -> None:
    assert len(repr(seen[name])) < 400
    assert "array(" not in repr(seen[name])


@pytest.mark.parametrize("name", LENSES)
def test_a_page_holds_the_numbers_of_the_result(
    name: str, seen: dict[str, Result], home: Path
) -> None:
    folder = home / "pages" / name
    page = unescape((folder / "report.html").read_text())
    for section in find("lens", name).page(seen[name]):
        for part in section.parts:
            assert part in page if isinstance(part, str) else part.name in page
            if isinstance(part, Figure | Table):
                assert (folder / "figures" / f"{slug(part.name)}.csv").is_file()
    assert f"ms.lens({name!r}, pathlib.Path({str(home / CASES[name][0])!r})" in page
    assert f"out=pathlib.Path({str(folder)!r})" in page


@pytest.mark.parametrize("name", sorted(LENSES))
def test_a_page_leads_with_a_plain_finding(name: str, seen: dict[str, Result]) -> None:
    lead, *evidence = find("lens", name).page(seen[name])
    assert isinstance(lead, Finding)
    sentences, figure = [str(part) for part in lead.parts[:-1]], lead.parts[-1]
    for said in sentences:
        assert len(said) < 260
        assert said[0].isupper() or said.startswith(tuple(CASES))
        assert said.endswith(".")
        assert not re.search(PRIVATE, said)
        assert not re.search("[<>≈]", said)
    assert any(re.search(r"\d", said) for said in sentences)
    assert figure not in [part for section in evidence for part in section.parts]


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_says_what_it_needs_of_a_model(name: str, home: Path) -> None:
    _, model, needs, options = CASES[name]
    source: Any = home / model
    if model == "gpt2":
        transformers = pytest.importorskip("transformers")
        config = transformers.GPT2Config(vocab_size=60, n_embd=8, n_layer=1, n_head=2)
        source = transformers.GPT2LMHeadModel(config)
    with pytest.raises(UserError, match=needs):
        ms.lens(name, source, given(name, home), **options)


@pytest.mark.parametrize("name", LENSES)
def test_help_shows_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lens", name, "--help"])
    assert ended.value.code in (0, None)
    said = capsys.readouterr().out
    assert LENSES[name].line in " ".join(said.split())
    for option, *_ in options_of("lens", name).options():
        assert f"--{option.replace('_', '-')}" in said


def test_help_lists_every_lens(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lens", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {entry.line}" in said for name, entry in LENSES.items())


def test_options_and_pages_need_no_torch(seen: dict[str, Result], tmp_path: Path) -> None:
    (tmp_path / "seen").write_bytes(pickle.dumps(seen))
    code = (
        "import pickle, sys\n"
        "sys.modules['torch'] = None\n"
        "from mnemoscope.core.registry import LENSES, options_of\n"
        "from mnemoscope.lenses.lens import Lens\n"
        "assert all(options_of('lens', name) for name in LENSES)\n"
        "for name, result in pickle.load(open(sys.argv[1], 'rb')).items():\n"
        "    assert Lens.page(result) and result.figure() and result.table(), name\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "seen")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def same(left: Any, right: Any) -> bool:
    """Whether values are equal, arrays and what is not a number included."""
    if dataclasses.is_dataclass(left):
        return type(left) is type(right) and same(vars(left), vars(right))
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray | float):
        return bool(np.array_equal(left, right, equal_nan=True))
    return bool(left == right)


@pytest.mark.parametrize("name", LENSES)
def test_a_result_of_a_lens_goes_to_json_and_back(name: str, seen: dict[str, Result]) -> None:
    plain = json.loads(json.dumps(to_plain(seen[name])))
    again: Any = from_plain(find("lens", name).Result, plain)
    assert same(seen[name], again)


@pytest.mark.parametrize("name", LENSES)
def test_a_page_is_drawn_again_from_its_result(
    name: str, seen: dict[str, Result], home: Path, tmp_path: Path
) -> None:
    made = home / "pages" / name
    with pytest.raises(SystemExit) as ended:
        main(["show", str(made), "--out", str(tmp_path), "--no-open"])
    assert ended.value.code in (0, None)
    page = unescape((tmp_path / "report.html").read_text())
    assert find("lens", name).asked([CASES[name][0]]) in page
    for file in (made / "figures").glob("*.csv"):
        assert file.read_bytes() == (tmp_path / "figures" / file.name).read_bytes()


def test_a_comparison_goes_to_json_and_back(seen: dict[str, Result]) -> None:
    one: Any = seen["retention"]
    both = RetentionComparison({"a": one, "b": one})
    assert same(both, from_plain(find("lens", "retention").Result, to_plain(both)))


def test_a_study_does_not_settle_in_the_folder_of_a_lens(
    seen: dict[str, Result], home: Path
) -> None:
    with pytest.raises(UserError, match="is not a study"):
        ms.study("lag", out=home / "pages" / "gates")


def test_names_on_a_notebook_are_text_not_markup(seen: dict[str, Result]) -> None:
    evil = "<script>alert(1)</script>"
    result: Any = seen["information"]
    named = dataclasses.replace(result, sites=(evil, *result.sites[1:]))
    shown = named._repr_html_()
    assert evil not in shown
    assert "&lt;script&gt;alert(1)" in shown


def test_a_lens_takes_objects_and_a_single_text(home: Path) -> None:
    model = ms.build("gru", vocab=8, width=8)
    found: Any = ms.lens("horizon", model, window=4, windows=2, features=4, rows=40, batch=10)
    assert found.ages.tolist() == [0, 4]
    few: Any = ms.lens(
        "similarity", [home / "transformer", home / "transformer"], "the cat saw a dog " * 99
    )
    assert few.sites[0] == "A/embeddings"


def test_of_many_models_a_page_compares(home: Path) -> None:
    found: Any = ms.lens("retention", [str(home / "recall"), str(home / "recall")], **EPISODES)
    assert list(found.results) == ["recall (1)", "recall (2)"]
    assert found.figure().data
    assert {row["model"] for row in found.table()} == set(found.results)


def test_numbers_are_shown_without_a_page(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lens", "gates", "--model", str(home / "lstm"), "--text", str(home / "text.txt"),
              "--length", "32", "--tokens", "64"])  # fmt: skip
    assert ended.value.code in (0, None)
    said = capsys.readouterr().out
    assert "forget" in said
    assert "more rows" in said


def test_a_page_says_the_command_that_was_typed(home: Path, tmp_path: Path) -> None:
    words = ["lens", "neighbours", "--tokens=900", "--model", str(home / "transformer"), "--text"]
    words += [str(home / "text.txt"), "--k", "3", "--sites", "layer.*.out", "--out"]
    with pytest.raises(SystemExit) as ended:
        main([*words, str(tmp_path / "seen")])
    assert ended.value.code in (0, None)
    said = unescape((tmp_path / "seen" / "report.html").read_text())
    command = re.search(r'<pre class="command"[^>]*>(.*?)</pre>', said, re.DOTALL)
    assert command is not None
    assert shlex.split(command[1]) == [
        *("mnemoscope", "lens", "neighbours", "--model", str(home / "transformer")),
        *("--text", str(home / "text.txt"), "--tokens=900", "--k", "3", "--sites", "layer.*.out"),
        *("--out", str(tmp_path / "seen")),
    ]


def test_a_page_says_the_call_that_was_made_in_python(home: Path, tmp_path: Path) -> None:
    model, out = ms.load(home / "transformer"), str(tmp_path / ("a long name " * 9) / "seen")
    texts, short = ["the cat saw a dog " * 9] * 9, str(home / "transformer")
    ms.lens("similarity", [short, short], texts, out, pairs="adjacent", tokens=900)
    said = unescape(Path(out, "report.html").read_text())
    models = ", ".join([repr(short)] * 2)
    call = f"ms.lens('similarity', [{models}], texts, out={out!r}, pairs='adjacent', tokens=900)"
    assert f"import mnemoscope as ms\n# texts is a list of 9\n{call}" in said
    ms.lens("horizon", model, out=tmp_path / "own", window=4, windows=2, features=4, rows=40)
    said = unescape((tmp_path / "own" / "report.html").read_text())
    assert f"# model is a {type(model).__name__}\nms.lens('horizon', model, out=" in said


def test_influence_asks_about_the_layers_of_its_sites(home: Path) -> None:
    options: dict[str, Any] = {**TEXT, "sites": "layer.1.out"}
    found: Any = ms.lens("influence", home / "transformer", home / "text.txt", **options)
    assert found.steps == ("layer.1",)


def test_the_lens_horizon_and_the_algebra_count_alike() -> None:
    assert horizon.FAINT == algebra.FAINT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a lens: mnemoscope lens NAME"),
        (["--model", "a"], "name a lens"),
        (["gates"], "name a model"),
        (["gates", "--model", "a", "--layr", "1"], "did you mean 'layer'"),
        (["gats", "--model", "a"], "did you mean 'gates'"),
    ],
)
def test_a_command_without_a_lens_or_a_model_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lens", *words])
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


OWN = """
from dataclasses import dataclass
from pydantic import Field
from mnemoscope.core.config import Config
from mnemoscope.lenses.lens import Lens, Result
from mnemoscope.plots.figure import Series, bars
from mnemoscope.report.document import Figure, Section


class LettersOptions(Config):
    least: int = Field(1, ge=1, description="letters that occur less often are left out")


@dataclass(frozen=True)
class LettersResult(Result):
    counts: dict

    def figure(self):
        return bars([Series("letters", list(self.counts), list(self.counts.values()))], "", "count")

    def table(self):
        return [{"letter": letter, "count": count} for letter, count in self.counts.items()]

    def sections(self):
        return [Section("Seen", [Figure("Letters", self.figure(), "All.", self.table())])]


class Letters(Lens):
    title, question, Options = "Letters", "What does {models} read?", LettersOptions

    @classmethod
    def measure(cls, models, texts, options):
        text = "".join(texts)
        counts = {letter: text.count(letter) for letter in sorted(set(text))}
        return LettersResult({k: v for k, v in counts.items() if v >= options.least})
"""


def test_a_lens_of_ones_own_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_lenses.py").write_text(OWN)
    (tmp_path / "text.txt").write_text("abba")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = ms.lens("my_lenses:Letters", "any", "aab", "seen", trust="my_lenses", least=2)
    assert found.table() == [{"letter": "a", "count": 2}]
    assert "What does any read?" in Path("seen", "report.html").read_text()
    words = ["my_lenses:Letters", "--model", "any", "--text", "text.txt", "--trust", "my_lenses"]
    for more in ([], ["--help"]):
        with pytest.raises(SystemExit) as ended:
            main(["lens", *words, *more])
        assert ended.value.code in (0, None)
    assert "--least" in capsys.readouterr().out
    with pytest.raises(UserError, match="trust"):
        ms.lens("my_lenses:Letters", "any", "aab")
