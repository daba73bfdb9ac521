"""A small text of which every line is a sentence."""

from __future__ import annotations

from pathlib import Path


def write_lines(path: Path) -> None:
    lines = [f"the {a} {b} the {c}" for a in ("cat", "dog", "king") for b in ("saw", "met")
             for c in ("tree", "boat", "child", "fish")]  # fmt: skip
    path.write_text("\n".join(lines * 10))
