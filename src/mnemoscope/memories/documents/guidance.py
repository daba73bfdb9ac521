"""Guidance: a text is likely with its own document, unlikely with any other (Park & Choi 2024).

    L = CE(right) + α · |τ − CE(wrong)|

τ is the loss one wants with the wrong document.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from mnemoscope.core.errors import UserError

Form = Literal["absolute", "clamped"]


def guided_losses(
    right: Tensor, wrong: Tensor, alpha: float, tau: float, form: Form = "absolute"
) -> tuple[Tensor, Tensor]:
    """The two terms of the loss: losses per text (R,) and (R,) -> two numbers, the second weighted.

    The clamped form, min((CE⁻ − τ)², CE⁺), is what the released code computes: as long as the
    square is the larger one, its gradient is that of the right document and guides nothing.
    """
    if right.shape != wrong.shape:
        raise UserError(
            f"losses of {tuple(right.shape)} texts with the right document, of "
            f"{tuple(wrong.shape)} with the wrong one"
        )
    clamped = (wrong - tau).square().minimum(right)
    pushed = (tau - wrong).abs() if form == "absolute" else clamped
    return right.mean(), alpha * pushed.mean()
