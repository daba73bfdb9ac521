"""Write docs/reference.md from the docstrings of all that is public: `make reference`.

The page is committed; a test holds it to what this writes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import mnemoscope as ms
from mnemoscope.core.registry import KINDS, find

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """# Reference

All that is public, from the docstrings of the code (`make reference` writes this page). Options of
memories, tasks, lenses and studies are shown by `mnemoscope list NAME`.
"""
# Classes that the functions above them return or take, by the module they live in.
CLASSES = {
    "What models give": ["mnemoscope.models.model:Output", "mnemoscope.memories.state:StreamState"],
    "Models": [
        "mnemoscope.models.model:SequenceModel",
        "mnemoscope.models.translator:Translator",
        "mnemoscope.training.run:Run",
    ],
    "Memories attached to models of transformers": [
        "mnemoscope.huggingface.documents.memory:DocumentMemory",
        "mnemoscope.huggingface.infinite.memory:InfiniteMemory",
    ],
    "Studies and lenses": [
        "mnemoscope.studies.study:Study",
        "mnemoscope.lenses.lens:Lens",
        "mnemoscope.lenses.lens:Result",
    ],
}


def reference() -> str:
    """The whole page."""
    parts = [INTRODUCTION, "## `import mnemoscope as ms`\n"]
    parts += [described(f"ms.{name}", getattr(ms, name)) for name in ms.__all__]
    for title, paths in CLASSES.items():
        parts.append(f"## {title}\n")
        for path in paths:
            module, _, name = path.partition(":")
            kind = getattr(importlib.import_module(module), name)
            parts += [described(name, kind), *members(name, kind)]
    for kind, table in KINDS.items():
        parts.append(f"## {kind.capitalize()}\n")
        for name, entry in table.items():
            said = first_sentence(inspect.getdoc(find(kind, name)) or "")
            parts.append(f"`{name}`: {entry.line}. {said}\n")
    return "\n".join(parts)


def described(name: str, thing: Any) -> str:
    """A heading, the signature, the docstring."""
    doc = inspect.getdoc(thing) or ""
    if inspect.ismodule(thing):
        return f"### {name}\n\n{doc}\n"
    if isinstance(thing, type) and dataclasses.is_dataclass(thing):
        fields = ", ".join(field.name for field in dataclasses.fields(thing) if field.repr)
        return f"### {name}\n\n`{name}({fields})`\n\n{paragraphs(doc)}\n"
    if isinstance(thing, type):
        return f"### {name}\n\n{paragraphs(doc)}\n"
    return f"### {name}\n\n{signature(name, thing)}\n\n{paragraphs(doc)}\n"


def members(name: str, kind: type) -> list[str]:
    """Public methods and properties that the class itself defines and explains."""
    found = []
    for key, value in vars(kind).items():
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if key.startswith("_") or not inspect.getdoc(plain):
            continue
        if isinstance(value, property):
            found.append(f"`{name}.{key}`: {paragraphs(inspect.getdoc(value) or '')}\n")
        elif inspect.isfunction(plain):
            said = paragraphs(inspect.getdoc(plain) or "")
            found.append(f"{signature(f'{name}.{key}', plain)}\n\n{said}\n")
    return found


def signature(name: str, call: Any) -> str:
    """The signature as a block of code, without types where they are long."""
    shown = re.sub(r"\bmnemoscope\.[\w.]+\.", "", str(inspect.signature(call)))
    return f"```python\n{name}{shown}\n```"


def paragraphs(doc: str) -> str:
    """A docstring as Markdown: literals of reStructuredText have two backquotes."""
    return doc.replace("``", "`")


def first_sentence(doc: str) -> str:
    """What stands before the first empty line, on one line."""
    return " ".join(paragraphs(doc).split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(reference())
