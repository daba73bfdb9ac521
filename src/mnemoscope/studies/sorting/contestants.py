"""Who takes part in the study: variants of the ∞-former that it has words for. Imports no torch.

All but the first three are the ∞-former with equal shares and one thing changed: together they are
the ablation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NAME = "∞-former"


@dataclass(frozen=True)
class Variant:
    """An ∞-former with some options of its own.

    said     what is particular to it, after the name
    knob     what was turned, where it is part of the ablation
    vectors  of its signal, in those that the others carry
    recent   whether it keeps half of its vectors for the last tokens (short-term memory)
    fixed    whether τ is that of the study, instead of equal shares
    back     segments before the answers through which gradients must flow: what a gate does to
             tokens has no gradient otherwise
    options  of the memory
    """

    said: str
    knob: str = ""
    vectors: float = 1
    recent: bool = False
    fixed: bool = False
    back: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name that figures show."""
        return f"{NAME}, {self.said}"


def _turned(knob: str, said: str, **options: Any) -> Variant:
    return Variant(said, knob, options=options)


VARIANTS = {
    "fixed": Variant("τ fixed", fixed=True),
    "sticky": Variant("τ fixed, sticky", fixed=True, options={"sticky": True}),
    "equal": Variant("equal shares"),
    "basis_quarter": Variant("N / 4", "N", vectors=1 / 4),
    "basis_half": Variant("N / 2", "N", vectors=1 / 2),
    "basis_double": Variant("2 N", "N", vectors=2),
    "tau_50": _turned("τ", "τ = 0.5", contraction=0.5),
    "tau_75": _turned("τ", "τ = 0.75", contraction=0.75),
    "tau_90": _turned("τ", "τ = 0.9", contraction=0.9),
    "by_count": _turned("fit", "fit by count", fit="count"),
    "equal_sticky": _turned("sticky", "sticky", sticky=True),
    # Both: what a gate is worth is told apart from what longer gradients are.
    "back": Variant("gradients one segment back", "tbptt", back=1),
    "gate": Variant("gate, gradients one segment back", "gate", back=1, options={"gate": True}),
    # σ is drawn to 0.05 with a weight at which it matters; with the paper's 1e-6 nothing changes.
    "kl": _turned("KL", "KL 1e-3", kl=1e-3),
    "sparse": _turned("density", "sparse density", density="sparse"),
    "gibbs": _turned("density", "Gibbs density", density="gibbs"),
    "recent": Variant("half short-term memory", "short-term memory", recent=True),
}
ABLATION = ("equal", *(name for name, variant in VARIANTS.items() if variant.knob))
