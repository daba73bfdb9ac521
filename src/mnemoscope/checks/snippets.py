"""A few lines of plain torch that show a broken promise, for a bug report.

``model`` is made first, then tokens ``x`` and ``y`` are drawn; the last line prints how far apart
logits are that should be the same, next to their range. Of a promise that raises, so do they.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mnemoscope.checks.subject import CallSubject, NativeSubject, Subject, TransformersSubject

if TYPE_CHECKING:
    from mnemoscope.checks.examination import Examination, Outcome

APART = "print((a - b).abs().max(), 'of', b.max() - b.min())"
# Where that is no number: what was said is none either, or of another shape.
INFINITE = (
    "print((a - b).abs().max() if a.shape == b.shape else tuple(a.shape), 'of', tuple(b.shape))"
)

# {cache} is the argument of the cache, {h} half of the text, {n} its length.
TRANSFORMERS = {
    "deterministic": "a, b = model(x).logits, model(x).logits",
    "causal": "z = torch.cat((x[:, :{h}], y[:, {h}:]), 1)\n"
    "a, b = model(z).logits[:, :{h}], model(x).logits[:, :{h}]",
    "state used": "out = model(x[:, :{h}], use_cache=True)\n"
    "print([name for name in out if name != 'logits'])  # what it hands out",
    "several after": "c = model(x[:, :{h}], use_cache=True).{cache}\n"
    "a = model(x[:, {h}:], {cache}=c, use_cache=True).logits\n"
    "b = model(x).logits[:, {h}:]",
    # A piece of one token among them: some models read that in another way.
    "pieces": "c, a, b = None, [], model(x).logits\n"
    "for t in x.split([{h}, 1, {n} - {h} - 1], 1):\n"
    "    out = model(t, {cache}=c, use_cache=True); c = out.{cache}; a.append(out.logits)\n"
    "a = torch.cat(a, 1)",
    "one by one": "c, a, b = None, [], model(x).logits\n"
    "for t in x.split(1, 1):\n"
    "    out = model(t, {cache}=c, use_cache=True); c = out.{cache}; a.append(out.logits)\n"
    "a = torch.cat(a, 1)",
    # Of many prompts: what is said is rarely another word where the difference is small.
    "generate": "x = torch.randint(3, {vocab}, (64, {h}))\n"
    "z = model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=6, do_sample=False)\n"
    "b = model(z).logits[:, {h} - 1 : -1]\n"
    "a, b = b.gather(-1, z[:, {h}:, None])[..., 0], b.amax(-1)",
    "batched": "a = torch.cat([model(row[None]).logits for row in x])\nb = model(x).logits",
    "selected": "c = model(x[:, :{h}], use_cache=True).{cache}\n"
    "{picked}\n"
    "a = model(y[:, {h} : {h} + 1], {cache}=c, use_cache=True).logits[:, 0]\n"
    "b = model(torch.cat((x[[2, 0, 0], :{h}], y[:, {h} : {h} + 1]), 1)).logits[:, -1]",
    "left padded": "{padded}\n"
    "o = model(z[:, :-1], attention_mask=m[:, :-1], use_cache=True)\n"
    "last = model(z[:, -1:], attention_mask=m, {cache}=o.{cache}, use_cache=True).logits\n"
    "a, b = torch.cat((o.logits[:, 3:], last), 1), model(x).logits",
    "left padded, ids": "{padded}; p = {first} + (m.cumsum(1) - 1).clamp(min=0)\n"
    "o = model(z[:, :-1], attention_mask=m[:, :-1], position_ids=p[:, :-1], use_cache=True)\n"
    "last = model(z[:, -1:], attention_mask=m, position_ids=p[:, -1:], {cache}=o.{cache}, "
    "use_cache=True).logits\n"
    "a, b = torch.cat((o.logits[:, 3:], last), 1), model(x).logits",
    "right padded": "z = torch.cat((x, torch.full((3, 3), {pad})), 1); m = (torch.arange({n} + 3) "
    "< {n}).long().expand(3, -1)\n"
    "a, b = model(z, attention_mask=m).logits[:, :{n}], model(x).logits",
    "nothing hidden": "a = model(x[:, :1], use_cache=True).logits\n"
    "model(y, use_cache=True); model(y[:, :1], use_cache=True)\n"
    "b = model(x[:, :1], use_cache=True).logits",
    "train mode": "b = model(x).logits\n"
    "for part in model.modules():\n"
    "    if isinstance(part, torch.nn.Dropout): part.p = 0.0\n"
    "a = model.train()(x).logits",
    "half precision": "b = model(x).logits\na = model.bfloat16()(x).logits.float()",
    "complete": "import copy\n"
    "c, d = (model(z[:, :{h}], use_cache=True).{cache} for z in (x, y))\n"
    "for one, other in zip(c.layers, d.layers):  # all tensors of c, in the place of d's\n"
    "    vars(other).update((k, v) for k, v in vars(one).items() if isinstance(v, torch.Tensor))\n"
    "a, b = (model(x[:, {h} : {h} + 1], {cache}=z, use_cache=True).logits for z in (d, c))",
    "minimal": "import copy\n"
    "c = model(x[:, :{h}], use_cache=True).{cache}; d = copy.deepcopy(c)\n"
    "d{tensor} = d{tensor} + 1  # nobody reads it: the logits below are the same\n"
    "a, b = (model(y[:, :1], {cache}=z, use_cache=True).logits for z in (d, c))",
}
TRANSFORMERS["right padded, ids"] = TRANSFORMERS["left padded, ids"]
# Of models that hand out no state.
STATELESS = {
    "left padded": "{padded}\na, b = model(z, attention_mask=m).logits[:, 3:], model(x).logits",
    "left padded, ids": "{padded}; p = {first} + (m.cumsum(1) - 1).clamp(min=0)\n"
    "a, b = model(z, attention_mask=m, position_ids=p).logits[:, 3:], model(x).logits",
    # Asked as generate asks it, with a cache to fill, and at a later position.
    "nothing hidden": "from transformers import DynamicCache\n"
    "def read(z, **at):\n"
    "    return model(z, past_key_values=DynamicCache(), use_cache=True, **at).logits\n"
    "p = torch.full((3, 1), {h})\n"
    "read(x[:, :{h}]); a = read(x[:, {h} : {h} + 1], position_ids=p)\n"
    "read(y[:, :{h}]); b = read(x[:, {h} : {h} + 1], position_ids=p)",
}
PADDED = (
    "z = torch.cat((torch.full((3, 3), {pad}), x), 1); "
    "m = (torch.arange({n} + 3) >= 3).long().expand(3, -1)"
)

# ``read`` is the model behind ``read(tokens, state) -> logits, state``.
CALLED = {
    "deterministic": "a, b = read(x)[0], read(x)[0]",
    "causal": "z = torch.cat((x[:, :{h}], y[:, {h}:]), 1)\n"
    "a, b = read(z)[0][:, :{h}], read(x)[0][:, :{h}]",
    "state used": "a = read(x[:, {h}:], read(x[:, :{h}])[1])[0]\nb = read(x[:, {h}:])[0]",
    "pieces": "a = read(x[:, {h}:], read(x[:, :{h}])[1])[0]\nb = read(x)[0][:, {h}:]",
    "one by one": "s, a, b = None, [], read(x)[0]\n"
    "for t in x.split(1, 1):\n"
    "    out, s = read(t, s); a.append(out)\n"
    "a = torch.cat(a, 1)",
    "batched": "a = torch.cat([read(row[None])[0] for row in x])\nb = read(x)[0]",
    "selected": "s = read(x[:, :{h}])[1].select([2, 0, 0])\n"
    "a = read(y[:, {h}:], s)[0]\n"
    "b = read(torch.cat((x[[2, 0, 0], :{h}], y[:, {h}:]), 1))[0][:, {h}:]",
    "reset": "s = read(x[:, :{h}])[1].reset([1])\na, b = read(y, s)[0][1], read(y[1:2])[0][0]",
    "nothing hidden": "s = read(x[:, :{h}])[1]; b = read(x[:, {h}:], s)[0]\n"
    "read(y)\na = read(x[:, {h}:], s)[0]",
}
CALLED["several after"] = CALLED["pieces"]


def snippet(subject: Subject, promise: str, exam: Examination, found: Outcome) -> str:
    """Lines that show a promise of this subject, as many as there are; empty when there are none.

    ``found`` is what came of it: of an idle tensor, where it is.
    """
    theirs = isinstance(subject, TransformersSubject)
    lines = (TRANSFORMERS if theirs else CALLED).get(promise)
    if lines is None:
        return ""
    if theirs and not subject.carries:
        lines = STATELESS.get(promise, lines)
    cache = subject.argument if isinstance(subject, TransformersSubject) else None
    facts = {"h": exam.length // 2, "n": exam.length, "pad": subject.filler, "cache": cache}
    facts |= {"vocab": subject.vocab}
    if isinstance(subject, TransformersSubject) and promise == "selected":
        facts["picked"] = _picked(subject, exam)
    facts |= {"padded": PADDED.format(**facts), "first": exam.first_position if theirs else 0}
    if promise == "minimal":
        if not found.where:  # it could not even be asked, and the cell says why
            return ""
        _, state = subject.read(exam.text[:, : exam.length // 2])
        facts["tensor"] = _reached(state.cache, found.where.partition(".")[2])
    last = [INFINITE if found.largest == math.inf else APART]
    if theirs and promise == "state used":
        last = []
    return "\n".join([*_made(subject, exam), lines.format(**facts), *last])


def _picked(subject: TransformersSubject, exam: Examination) -> str:
    """How rows of a cache are picked: see `TransformersSubject.select`."""
    rows = "torch.tensor([2, 0, 0])"
    _, state = subject.read(exam.text[:, :1])
    if hasattr(subject.model, "_reorder_cache"):
        return f"c = model._reorder_cache(c, {rows})"
    if hasattr(state.cache, "reorder_cache"):
        return f"c.reorder_cache({rows})"
    return "c = [s[[2, 0, 0]] for s in c]"


def _made(subject: Subject, exam: Examination) -> list[str]:
    draw = f"x, y = torch.randint(3, {subject.vocab}, (2, 3, {exam.length}))"
    quiet = "torch.set_grad_enabled(False)"
    if isinstance(subject, TransformersSubject):
        load = f"model = AutoModelForCausalLM.from_pretrained({subject.source!r}).eval()"
        known = [load] if subject.source else ["# model: the one that was checked"]
        first = "import torch; from transformers import AutoConfig, AutoModelForCausalLM"
        return [first, f"torch.manual_seed(0); {quiet}", *(subject.made_by or known), draw]
    head = ["import torch, mnemoscope as ms"] if subject.made_by else ["import torch"]
    head += subject.made_by or ("# model: the one that was checked",)
    called = "out = model(x, s); return out.logits, out.state"
    if isinstance(subject, CallSubject) and not isinstance(subject, NativeSubject):
        called = "return model(x, s)"
    return [*head, f"torch.manual_seed(0); {quiet}", f"def read(x, s=None): {called}", draw]


def _reached(holder: Any, path: str) -> str:
    """How Python gets from a cache to the tensor at a dotted path."""
    said = ""
    for name in path.split("."):
        if isinstance(holder, dict):
            key = next(one for one in holder if str(one) == name)
            holder, said = holder[key], f"{said}[{key!r}]"
        elif isinstance(holder, list | tuple):
            holder, said = holder[int(name)], f"{said}[{name}]"
        else:
            holder, said = getattr(holder, name), f"{said}.{name}"
    return said
