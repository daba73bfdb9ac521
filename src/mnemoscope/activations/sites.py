"""Names for sites inside a model: the same few for our models and for those of Hugging Face.

``embeddings``              what the first layer is given
``layer.3.out``             what layer 3 gives (layers count from 0)
``layer.3.attention.in``    what queries and keys are made from, (B, T, D)
``layer.3.attention.q``     its queries, (B, H, T, E), rotated if positions are rotary
``layer.3.attention.k``     its keys
``state``                   all tensors of the state a model of ours returns

A model with two stacks has ``encoder.layer.0.out`` and ``decoder.layer.0.out``; what it reads goes
to the encoder, so ``layer.0.out`` and ``embeddings`` mean that one there. Any path of a module is a
name too, and stands for what the module returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from torch import nn

from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.memories.layer import Tap
from mnemoscope.models.model import SequenceModel

Kind = Literal["output", "input", "query", "key", "state"]


@dataclass(frozen=True)
class Site:
    """A site: a module, and what of it is wanted."""

    name: str
    module: nn.Module
    kind: Kind = "output"


def stacks(model: nn.Module) -> dict[str, nn.ModuleList]:
    """The stacks of layers by prefix: the outermost lists of modules; ``""`` is the one that reads.

    A list inside a layer, such as the parts of a T5 block, is not a stack.
    """
    found: dict[str, nn.ModuleList] = {}
    for path, module in model.named_modules():
        inside = any(path.startswith(f"{other}.") for other in found)
        if isinstance(module, nn.ModuleList) and len(module) and not inside:
            found[path] = module
    if len(found) <= 1:
        return dict(zip([""], found.values(), strict=False))
    named: dict[str, nn.ModuleList] = {}
    for path, stack in found.items():
        if "encoder" in path.split("."):
            named |= {"": stack, "encoder.": stack}
        elif "decoder" in path.split(".") or path == "layers":
            named["decoder."] = stack
    return named


def canonical(model: nn.Module) -> dict[str, Site]:
    """All canonical names of a model, in the order of its layers."""
    found: dict[str, Site] = {}
    for prefix, stack in stacks(model).items():
        name = f"{prefix}embeddings"
        found[name] = Site(name, stack[0], "input")
        for number, layer in enumerate(stack):
            path = f"{prefix}layer.{number}"
            found[f"{path}.out"] = Site(f"{path}.out", layer)
            attention = attention_of(layer)
            if attention is None:
                continue
            name = f"{path}.attention.in"
            found[name] = Site(name, attention, "input")
            for letter, kind, tap in (("q", "query", "queries"), ("k", "key", "keys")):
                name = f"{path}.attention.{letter}"
                ours = getattr(attention, tap, None)
                if isinstance(ours, Tap):
                    found[name] = Site(name, ours)
                elif not isinstance(model, SequenceModel):
                    found[name] = Site(name, attention, "query" if kind == "query" else "key")
    if isinstance(model, SequenceModel):
        found["state"] = Site("state", model, "state")
    return found


def attention_of(layer: nn.Module) -> nn.Module | None:
    """The first attention of a layer, and of nested ones the innermost: what makes queries."""
    for module in layer.modules():
        parts = [part for part in module.modules() if part is not module]
        if "Attention" in type(module).__name__ and not any(
            "Attention" in type(part).__name__ for part in parts
        ):
            return module
    return None


def choose(model: nn.Module, sites: str | list[str] | tuple[str, ...]) -> dict[str, Site]:
    """Sites by name or glob; an unknown name is an error that says which are near."""
    names = canonical(model)
    paths: dict[str, Any] = {path: module for path, module in model.named_modules() if path}
    chosen: dict[str, Site] = {}
    for wanted in [sites] if isinstance(sites, str) else sites:
        matched = {name: site for name, site in names.items() if fnmatchcase(name, wanted)}
        matched |= {
            path: Site(path, module)
            for path, module in paths.items()
            if path not in names and fnmatchcase(path, wanted)
        }
        if not matched:
            raise UserError(
                f"no module matches {wanted!r}; {_near(wanted, list(names), list(paths))}"
            )
        chosen |= matched
    return chosen


def _near(wanted: str, names: list[str], paths: list[str]) -> str:
    hint = suggestion(wanted, [*names, *paths])
    if hint.startswith("did you mean"):
        return hint
    return f"known: {', '.join(names)}, and all paths of modules"
