"""Captured activations in files: any bytes give what was captured or a `UserError`."""

from __future__ import annotations

from pathlib import Path

import pytest
from complaints import complaint
from hypothesis import given, settings
from hypothesis import strategies as st

import mnemoscope as ms
from mnemoscope.activations.store import save, saved

ANYTHING = st.binary(max_size=60) | st.text(alphabet='[]",layer.012out/ ', max_size=40).map(
    str.encode
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = ms.build("gru", vocab=20, width=4)
    texts = [[7, 8, 9], [10, 11, 12, 13]]
    return save(model, texts, tmp_path_factory.mktemp("kept") / "a", sites="layer.*.out")


@pytest.mark.parametrize(
    "file", ["sites.json", "layer.0.out.safetensors", "token.rows.safetensors"]
)
def test_any_bytes_in_what_was_captured_are_told_with_a_remedy(kept: Path, file: str) -> None:
    path = kept / file
    true = path.read_bytes()

    @settings(max_examples=60)
    @given(ANYTHING)
    def holds(content: bytes) -> None:
        path.write_bytes(content)
        said = complaint(lambda: list(saved(kept))) or ""
        assert str(path) in said
        assert f"delete {kept} and capture it again" in said

    try:
        holds()
    finally:
        path.write_bytes(true)
    assert sum(len(one) for one in saved(kept)) == 7


@pytest.mark.parametrize(
    "names", ["[]", '["layer.0.out", "layer.0.out"]', '["../a/layer.0.out"]', '{"layer.0.out": 1}']
)
def test_sites_that_were_not_captured_are_not_read(kept: Path, names: str) -> None:
    path = kept / "sites.json"
    true = path.read_bytes()
    path.write_text(names)
    try:
        assert "its sites are not those" in (complaint(lambda: list(saved(kept))) or "")
    finally:
        path.write_bytes(true)


def test_a_file_with_fewer_rows_is_damaged(kept: Path, tmp_path: Path) -> None:
    model = ms.build("gru", vocab=20, width=4)
    other = save(model, [[7, 8]], tmp_path / "b", sites="layer.*.out")
    (other / "token.rows.safetensors").write_bytes((kept / "token.rows.safetensors").read_bytes())
    assert "it has 7 rows, others 2" in (complaint(lambda: list(saved(other))) or "")
