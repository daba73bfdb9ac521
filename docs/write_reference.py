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
from mnemoscope.core.registry import KINDS

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """# Reference

All that is public, from the docstrings of the code (`make reference` writes this page). Options of
memories, tasks, lenses and studies are shown by `mnemoscope list NAME`.
"""
# Classes that the functions return or take, by module, and which of their members concern a user.
CLASSES = {
    "What models give": {
        "mnemoscope.models.model:Output": "",
        "mnemoscope.memories.state:StreamState": "",
    },
    "Models": {
        "mnemoscope.models.model:SequenceModel": "forward",
        "mnemoscope.models.stream:Stream": "read",
        "mnemoscope.models.translator:Translator": "carried",
        "mnemoscope.training.run:Run": "finished metrics vocabulary model untrained translator",
    },
    "Memories attached to models of transformers": {
        "mnemoscope.huggingface.documents.memory:DocumentMemory": (
            "document fit add forget contexts selection words split save load detach"
        ),
        "mnemoscope.huggingface.infinite.memory:InfiniteMemory": (
            "forward fit worth past save load detach"
        ),
    },
    "Contracts": {
        "mnemoscope.lenses.lens:Lens": "measure page",
        "mnemoscope.lenses.lens:Result": "figure table sections",
        "mnemoscope.studies.study:Study": "preset run run_live",
    },
}
MEMBERS = {"State": "nbytes detach to select reset save load tensors", "Published": "open"}
PLURALS = {"memory": "memories", "lens": "lenses", "study": "studies"}
# Longer signatures have a line for each parameter.
WIDEST = 88


def reference() -> str:
    """The whole page."""
    things = {name: getattr(ms, name) for name in ms.__all__}
    lines = [f"| `ms.{name}` | {first_line(thing)} |" for name, thing in things.items()]
    listed = "\n".join(["| | |", "|---|---|", *lines, ""])
    parts = [INTRODUCTION, "## `import mnemoscope as ms`\n", listed]
    for name, thing in things.items():
        parts += [described(f"ms.{name}", thing), *members(name, thing, MEMBERS.get(name, ""))]
    for title, classes in CLASSES.items():
        parts.append(f"## {title}\n")
        for path, chosen in classes.items():
            module, _, name = path.partition(":")
            kind = getattr(importlib.import_module(module), name)
            parts += [described(name, kind), *members(name, kind, chosen)]
    parts.append("## Names\n")
    for kind, table in KINDS.items():
        rows = [f"| `{name}` | {entry.line} |" for name, entry in table.items()]
        title = PLURALS.get(kind, f"{kind}s")
        parts.append("\n".join([f"| {title} | |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def first_line(thing: Any) -> str:
    """What a thing is, in a line."""
    return markdown((inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " "))


def described(name: str, thing: Any) -> str:
    """A heading, the signature, the docstring."""
    shown = f"### {name}\n"
    fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
    public = [field.name for field in fields if not field.name.startswith("_")]
    if public:
        shown += f"\n`{name}({', '.join(public)})`\n"
    elif inspect.isfunction(thing):
        shown += f"\n{signature(name, thing)}\n"
    shown += f"\n{markdown(inspect.getdoc(thing) or '')}\n"
    if inspect.ismodule(thing):
        shown += f"\n{', '.join(f'`{one}`' for one in thing.__all__)}.\n"
    return shown


def members(name: str, kind: Any, chosen: str) -> list[str]:
    """The chosen methods and properties of a class."""
    found = []
    for key in chosen.split():
        value = inspect.getattr_static(kind, key)
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        said = markdown(inspect.getdoc(plain) or "")
        if inspect.isfunction(plain):
            found.append(f"{signature(f'{name}.{key}', plain)}\n\n{said}\n")
        else:
            found.append(f"`{name}.{key}`: {said}\n")
    return found


def signature(name: str, call: Any) -> str:
    """The signature as a block of code, without self and cls."""
    shown = inspect.signature(call)
    kept = [one for key, one in shown.parameters.items() if key not in ("self", "cls")]
    # Annotations are strings, which are shown as they are written.
    text = str(shown.replace(parameters=kept))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    if len(name + text) > WIDEST and kept:
        inner, _, returned = text[1:].rpartition(") -> ")
        lines = re.split(r", (?=\*|\w+: )", inner)
        text = "(\n" + "".join(f"    {line},\n" for line in lines) + f") -> {returned}"
    return f"```text\n{name}{text}\n```"


def markdown(doc: str) -> str:
    """A docstring as Markdown: its columns become a list, its double backquotes single ones."""
    lines = []
    for line in doc.replace("``", "`").splitlines():
        lines.append(re.sub(r"^(\w+)  +(?=\S)", r"- `\1`: ", line))
        if lines[-1].startswith("- ") and lines[-2:-1] and lines[-2] and lines[-2][:2] != "- ":
            lines.insert(-1, "")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(reference())
