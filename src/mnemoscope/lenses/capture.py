"""Take activations out of a running model, at named places, and leave no trace behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from mnemoscope.errors import UserError, suggestion

# What a place gave in one forward pass, by its path in the model.
Seen = dict[str, Tensor]


@contextmanager
def capture(model: nn.Module, sites: str) -> Iterator[Seen]:
    """Fill the yielded dict with the outputs of all modules whose path matches ``sites``.

    ``sites`` is a glob over module paths, such as ``layers.*.gates``. Every forward pass inside
    the block replaces what the one before it gave; a place that never gave anything is an error.
    """
    modules = {path: module for path, module in model.named_modules() if path}
    chosen = {path: module for path, module in modules.items() if fnmatchcase(path, sites)}
    if not chosen:
        raise UserError(f"no module matches {sites!r}; {suggestion(sites, modules)}")
    seen: Seen = {}
    hooks = [module.register_forward_hook(_keep(seen, path)) for path, module in chosen.items()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
    silent = sorted(set(chosen) - set(seen))
    if silent:
        raise UserError(f"{silent[0]} was never called while it was watched")


def _keep(seen: Seen, path: str) -> Any:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        value = output[0] if isinstance(output, tuple) else output
        seen[path] = value.detach()

    return hook
