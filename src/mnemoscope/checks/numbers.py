"""Promises about modes and precision."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mnemoscope.checks.difference import in_dtype, spread
from mnemoscope.checks.examination import Examination, Outcome, attempted
from mnemoscope.checks.result import Verdict
from mnemoscope.checks.subject import NotAskedError
from mnemoscope.core.errors import UserError

# Activations are rounded as weights are, layer after layer: how many times what rounding the
# weights alone does, how many units at least, and what is no rounding any more.
TIMES, UNITS, MOST = 16.0, 8.0, 0.5
# Of the tokens, the share that must stay within it: where rounding tips over which expert or which
# key is chosen, a token changes altogether, in any model that chooses.
SHARE = 0.75
DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.alpha_dropout, torch.dropout)


class NoDropout(TorchFunctionMode):
    """While it is on, dropout passes on what it is given, wherever it is called from."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every function of torch passes through here."""
        kwargs = kwargs or {}
        if func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.scaled_dot_product_attention:
            args, kwargs = args[:4], {**kwargs, "dropout_p": 0.0}
        return func(*args, **kwargs)


def train_mode(exam: Examination) -> Outcome:
    """A copy in training mode, with dropout off."""
    module = exam.subject.module
    assert module is not None
    training = in_dtype(module, exam.subject.dtype)
    if training is None:
        raise NotAskedError("the model is too large to be copied")
    with NoDropout():
        logits, _ = exam.subject.on(training.train()).read(exam.text)
    return exam.judge(logits, exam.whole)


def half_precision(exam: Examination) -> Outcome:
    """bfloat16 against the precision of the model with weights that were rounded to it."""
    module, half = exam.subject.module, exam.length // 2
    assert module is not None
    if exam.subject.dtype in (torch.bfloat16, torch.float16):
        raise NotAskedError("the model is in half precision already: all promises were asked in it")
    small = in_dtype(module, torch.bfloat16)
    if small is None:
        raise NotAskedError("the model is too large to be copied")
    subject = exam.subject.on(small)
    whole = attempted(lambda: subject.read(exam.text)[0])
    if isinstance(whole, str) and "not implemented for" in whole:
        raise NotAskedError(f"no kernel for it here ({whole})")
    if isinstance(whole, str):
        return Outcome("error", note=whole)
    rounded = exam.subject.on(_rounded(module)).read(exam.text)[0]
    noise = _typical(rounded, exam.whole)
    eps = torch.finfo(torch.bfloat16).eps
    allowed = min(max(UNITS * eps * math.sqrt(exam.subject.depth), TIMES * noise), MOST)
    largest = _typical(whole, rounded)
    cut = [half, *[1] * (exam.length - half)]
    # Where pieces are not the whole in any precision, half of it has nothing to add.
    if exam.subject.lacks("state") is None and exam.judge(exam.in_pieces(cut)[0], exam.whole).kept:
        try:
            parts, _ = exam.in_pieces(cut, subject)
        except UserError as error:  # what is attached has learnt the precision of its base
            raise NotAskedError(str(error)) from error
        largest = max(largest, _typical(parts, whole))
    verdict: Verdict = "kept" if largest <= allowed else "broken"
    return Outcome(verdict, largest, allowed, note=f"of {SHARE:.0%} of the tokens")


def _typical(found: Tensor, wanted: Tensor) -> float:
    """What the largest difference of a token does not exceed for most of them."""
    if not bool(found.isfinite().all()) and bool(wanted.isfinite().all()):
        return math.inf
    apart = (found.double() - wanted.double()).abs().nan_to_num(0.0).amax(-1) / spread(wanted)
    return float(apart.flatten().quantile(SHARE))


def _rounded(module: nn.Module) -> nn.Module:
    """The same model, its weights rounded to bfloat16 but computed with as before."""
    copied = in_dtype(module, next(w.dtype for w in module.parameters() if w.is_floating_point()))
    assert copied is not None
    with torch.no_grad():
        for weight in copied.parameters():
            if weight.is_floating_point():
                weight.copy_(weight.bfloat16())
    return copied
