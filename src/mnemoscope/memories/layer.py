"""What every layer is given beside vectors and state, and how it shows what it does.

A layer is a module called as ``layer(vectors, state, context) -> (vectors, state)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mnemoscope.memories.positions import Rotation


@dataclass(frozen=True)
class Context:
    """What layers may want to know of the segment beside its vectors.

    ``silent`` says that nobody needs what the layer says of it, only the state after it.
    """

    mask: Tensor | None
    rotation: Rotation | None
    losses: dict[str, Tensor] = field(default_factory=dict)
    silent: bool = False

    def add_loss(self, name: str, loss: Tensor) -> None:
        """Ask training to make this small as well; layers that ask for the same add up."""
        self.losses[name] = self.losses[name] + loss if name in self.losses else loss


def recomputed(
    layer: nn.Module, vectors: Tensor, state: Any, context: Context
) -> tuple[Tensor, Any]:
    """Call a layer that keeps only what it is given, and computes again for the backward pass.

    torch puts its random state back for the second pass, so dropout drops the same.
    """

    def run(vectors: Tensor, state: Any) -> tuple[Tensor, Any, dict[str, Tensor]]:
        # Losses go into a context of their own: the second pass must not ask for them again.
        own = replace(context, losses={})
        vectors, state = layer(vectors, state, own)
        return vectors, state, own.losses

    vectors, state, losses = checkpoint(run, vectors, state, use_reentrant=False)
    for name, loss in losses.items():
        context.add_loss(name, loss)
    return vectors, state


class Tap(nn.Module):
    """A named place where a lens can look, or put something else in place of what is there."""

    def forward(self, value: Tensor) -> Tensor:
        """Return ``value`` unchanged, after the hooks have seen it."""
        return value

    @property
    def watched(self) -> bool:
        """Whether anybody looks."""
        return bool(self._forward_hooks)


def show(tap: Tap, value: Tensor) -> Tensor:
    """Let whoever watches see ``value``; a call that nobody watches would only cost time."""
    if not tap.watched:
        return value
    seen: Tensor = tap(value)
    return seen
