"""Any bytes give the object or a `UserError`, in bounded time and memory."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from complaints import complaint
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.bounded import (
    MOST_TEXT,
    digest,
    parse_yaml,
    read_bytes,
    read_json,
    read_sealed,
    read_text,
    write_sealed,
)
from mnemoscope.core.errors import UserError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(width=32),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FINITE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_yaml_reads_what_safe_dump_writes(value: Any) -> None:
    written = yaml.safe_dump(value, allow_unicode=True)
    assert repr(parse_yaml(written, "it")) == repr(yaml.safe_load(written))


@given(st.text() | st.text(alphabet="[]{}:,-&*!|>#%@`\"' \n\tab01.e_<~", max_size=60))
def test_any_text_is_yaml_or_a_user_error_of_one_line(text: str) -> None:
    assert "\n" not in (complaint(lambda: parse_yaml(text, "it")) or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [1]\nb: *x", "aliases (*name) are not allowed"),
        ("[" * 20_000, "nested deeper than 64 levels (line 1, column 65)"),
        ("a: !!python/object:os.system x", "tags (!name) are not allowed"),
        ("a: !!bool nonsense", "tags (!name) are not allowed"),
        ("a: " + "9" * 5000, "a number of 5000 characters"),
        ("a: " + "1:" * 5000 + "1", "a number of 10001 characters"),
        ("a: [1", "line 1, column 6"),
        ("x" * (MOST_TEXT + 1), f"more than the {MOST_TEXT} allowed"),
    ],
)
def test_costly_yaml_is_refused_in_one_line_and_at_once(text: str, said: str) -> None:
    began = time.process_time()
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "it")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 5


def test_a_date_is_a_string() -> None:
    assert parse_yaml("a: 2024-13-45", "it") == {"a": "2024-13-45"}


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_a_user_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    assert str(path) in (complaint(lambda: read_json(path, "delete it")) or str(path))


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "9" * 5000, '{"a":'], ids=["deep", "long", "cut"]
)
def test_costly_json_names_file_and_remedy(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"a\.json is damaged.*: delete it"):
        read_json(path, "delete it")


@given(FINITE)
def test_sealed_facts_come_back(tmp_path_factory: pytest.TempPathFactory, facts: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "sealed.json"
    write_sealed(path, facts)
    assert read_sealed(path, "delete it") == json.loads(json.dumps(facts))


def test_every_changed_byte_of_a_sealed_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    facts = {"loss": 0.25, "name": "é", "rows": [1, 2]}
    whole = write_sealed(path, facts).read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        said = complaint(lambda: read_sealed(path, "delete it"))
        # A blank between two values may have become another blank.
        assert said is not None or read_sealed(path, "delete it") == facts


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"facts": 1}'])
def test_a_file_without_seal_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(UserError, match="no seal"):
        read_sealed(path, "delete it")


def test_the_order_of_keys_does_not_change_a_digest() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})


def test_only_regular_files_within_bounds_are_read(tmp_path: Path) -> None:
    pipe, large, folder = tmp_path / "pipe", tmp_path / "large", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    with open(large, "wb") as file:
        file.truncate(10**10)
    tracemalloc.start()
    for path, said in [
        (pipe, "not a regular file"),
        (large, "more than the 100 allowed"),
        (folder, "not a regular file"),
        (tmp_path / "none", "there is no file"),
        (Path("a\0b"), "cannot read"),
    ]:
        with pytest.raises(UserError, match=said):
            read_bytes(path, 100)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_what_is_no_text_says_where(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"abc\xff")
    with pytest.raises(UserError, match=r"not UTF-8 text.* at byte 3"):
        read_text(path)
