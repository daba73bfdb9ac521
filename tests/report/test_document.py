from __future__ import annotations

import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.plots import figure
from mnemoscope.report.document import (
    Figure,
    Report,
    Reproduce,
    Section,
    Table,
    finding,
    slug,
)

CURVE = figure.Series("a", [1, 2], [1, 2])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Accuracy against lag", "accuracy-against-lag"),
        ("../../etc/passwd", "etc-passwd"),
        ("/root\\x\x00.sh", "root-x-sh"),
        ("a_b  (c)", "a-b-c"),
        ("记忆 1", "记忆-1"),
        ("x" * 500, "x" * 60),
    ],
)
def test_slug_is_a_plain_file_name(name, expected):
    assert slug(name) == expected


@pytest.mark.parametrize("name", ["", "..", "/", "<>"])
def test_slug_needs_something_to_hold_on_to(name):
    with pytest.raises(UserError, match="letter or digit"):
        slug(name)


def test_figure_needs_its_data():
    with pytest.raises(UserError, match="has no data"):
        Figure("a", figure.lines([CURVE], "x", "y"), "", [])


def test_figure_rows_with_different_keys_become_one_table():
    rows = [{"a": 1}, {"b": 2, "a": 3}]
    table = Figure("a", figure.lines([CURVE], "x", "y"), "", rows).table()
    assert (table.columns, table.rows) == (["a", "b"], [[1, None], [3, 2]])


def test_table_rows_must_fit_the_columns():
    with pytest.raises(UserError, match="row 2 has 1 cells"):
        Table("a", ["x", "y"], [[1, 2], [3]], "")


def test_two_parts_may_not_share_a_file():
    parts = [Table("A b", ["x"], [[1]], ""), Table("a-B", ["x"], [[1]], "")]
    made = Reproduce.here("run", "", 1.0, 1)
    with pytest.raises(UserError, match="'A b' and 'a-B' would both be saved as 'a-b'"):
        Report("t", "q", [Section("s", parts)], made)


def test_reproduce_fills_in_versions_and_an_unambiguous_date():
    made = Reproduce.here("run", "a: 1", 2.5, 4)
    assert {"mnemoscope", "Python", "torch", "numpy", "system"} == set(made.versions)
    assert made.date.tzinfo is not None


def test_a_finding_is_few_sentences_and_a_figure(report):
    figure = next(report.figures())
    made = finding("The cache forgets.", "The signal does not.", figure=figure)
    assert list(made.parts) == ["The cache forgets.", "The signal does not.", figure]
    with pytest.raises(UserError, match="one to 3 sentences"):
        finding(figure=figure)
    with pytest.raises(UserError, match="one to 3 sentences"):
        finding("One.", "Two.", "Three.", "Four.", figure=figure)
