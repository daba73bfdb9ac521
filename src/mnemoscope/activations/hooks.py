"""Hooks that keep what named sites of a running model give, and that leave no trace behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.activations.sites import Site, canonical, choose
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.huggingface.attention_interface import intercept_attention

# What a site gave in one forward pass, by its name.
Seen = dict[str, Tensor]


@contextmanager
def watch(model: nn.Module, sites: str | Sequence[str]) -> Iterator[Seen]:
    """Fill the yielded dict with what all ``sites`` (names or globs) give.

    Every forward pass inside the block replaces what the one before it gave; a site that never
    gave anything is an error.
    """
    chosen = choose(model, sites if isinstance(sites, str) else list(sites))
    seen: Seen = {}
    with ExitStack() as stack:
        heads: dict[nn.Module, dict[str, str]] = {}
        for site in chosen.values():
            if site.kind in ("query", "key"):
                heads.setdefault(site.module, {})[site.kind] = site.name
            else:
                stack.callback(_hook(seen, site).remove)
        if heads:
            stack.enter_context(intercept_attention(model, _heads(seen, heads)))
        yield seen
    # A state is many tensors, each under its own name.
    given = {name.partition(".")[0] if name[:6] == "state." else name for name in seen}
    silent = sorted(set(chosen) - given)
    if silent:
        near = suggestion(silent[0], [name for name in canonical(model) if name in seen] or seen)
        raise UserError(f"{silent[0]} was never called while it was watched; {near}")


def by_token(name: str, value: Tensor, shape: Sequence[int]) -> Tensor:
    """Any (B, T, D) or (B, H, T, E) that a site gave for tokens (B, T) as (B, T, D), checked."""
    rows, length = shape
    if value.dim() == 4 and value.shape[2] == length:
        value = value.transpose(1, 2)
    if value.shape[:2] != (rows, length) or value.dim() < 3:
        raise UserError(
            f"{name} gives {tuple(value.shape)}, not one vector for each of {rows} × {length} "
            "tokens: watch it with capture(model, sites) and use it yourself"
        )
    if not bool(torch.isfinite(value).all()):
        raise UserError(
            f"{name} holds NaN or infinite values: the model is broken, or its numbers are too "
            "large for their precision"
        )
    return value.flatten(2)


def _hook(seen: Seen, site: Site) -> Any:
    def after(module: nn.Module, inputs: Any, output: Any) -> None:
        value = output[0] if isinstance(output, tuple) else output
        if site.kind == "state":
            seen.update({f"state.{name}": t.detach() for name, t in value.state.tensors()})
        elif isinstance(value, Tensor):
            seen[site.name] = value.detach()
        else:
            raise UserError(f"{site.name} gives a {type(value).__name__}, not a tensor")

    def before(module: nn.Module, inputs: Any, named: dict[str, Any]) -> None:
        seen[site.name] = (inputs[0] if inputs else named["hidden_states"]).detach()

    if site.kind == "input":
        return site.module.register_forward_pre_hook(before, with_kwargs=True)
    return site.module.register_forward_hook(after)


def _heads(seen: Seen, wanted: dict[nn.Module, dict[str, str]]) -> Any:
    def listener(
        module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: Any
    ) -> Tensor | None:
        for kind, name in wanted.get(module, {}).items():
            seen[name] = (query if kind == "query" else key).detach()
        return mask

    return listener
