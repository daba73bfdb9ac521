"""Find the parts of any causal language model of `transformers`, and run only some of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError, suggestion

# What the attention of a block goes by in the families there are.
ATTENTION = ("self_attn", "attn", "attention", "self_attention", "mixer")
# The norm between the last block and the unembedding.
LAST_NORM = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "ln_out", "final_norm")
# Numbers of each weight that go into a fingerprint.
SAMPLED = 512


def find_blocks(model: Any) -> nn.ModuleList:
    """Return the list of blocks of a causal language model, or say why there is none."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "get_output_embeddings"):
        raise UserError(
            f"{type(model).__name__} is no language model of transformers: load one with "
            "AutoModelForCausalLM.from_pretrained"
        )
    if getattr(config, "is_encoder_decoder", False):
        raise UserError(f"{type(model).__name__} is an encoder-decoder: give a causal model")
    if model.get_output_embeddings() is None:
        raise UserError(
            f"{type(model).__name__} has no output embedding: load it as AutoModelForCausalLM"
        )
    devices = sorted({str(one) for one in (getattr(model, "hf_device_map", None) or {}).values()})
    if len(devices) > 1:
        raise UserError(
            f"the device_map of the model spreads it over {' and '.join(devices)}: a memory needs "
            'the whole model on one device, such as device_map={"": 0} or none at all'
        )
    if any(weight.is_meta for weight in model.parameters()):
        raise UserError("weights of the model are not in memory (offloaded?): load all of them")
    count = config.get_text_config(decoder=True).num_hidden_layers
    lists = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, nn.ModuleList) and len(part) == count
    }
    # Lists inside a block (experts, for example) have a longer path than the blocks.
    lists = {n: p for n, p in lists.items() if not any(n.startswith(f"{m}.") for m in lists)}
    if len(lists) != 1:
        raise UserError(
            f"{type(model).__name__} has {len(lists)} lists of {count} modules "
            f"({', '.join(lists) or 'none'}): its blocks cannot be told"
        )
    return next(iter(lists.values()))


def find_attention(block: nn.Module) -> nn.Module:
    """Return the attention of a block."""
    for name in ATTENTION:
        part = getattr(block, name, None)
        if isinstance(part, nn.Module):
            return part
    names = [name for name, _ in block.named_children()]
    raise UserError(f"no attention found in {type(block).__name__}: it has {', '.join(names)}")


def block_index(count: int, layer: int) -> int:
    """Turn one of ``count`` layers, counted from the end if negative, into an index."""
    if not isinstance(layer, int) or not -count <= layer < count:
        raise UserError(
            f"layer {layer} does not exist: the model has blocks 0 to {count - 1}, and -1 is the "
            "last"
        )
    return layer % count


def width_of(model: Any) -> int:
    """Size of the residual stream."""
    return int(model.config.get_text_config(decoder=True).hidden_size)


def words_of(model: Any) -> int:
    """Size of the vocabulary."""
    head = model.get_output_embeddings()
    # A quantised weight may be packed into any shape; what it returns is not.
    return int(getattr(head, "out_features", None) or head.weight.shape[0])


def context_of(model: Any) -> int | None:
    """Most tokens the model can read at once, None when it does not say."""
    for path, module in model.named_modules():
        # RoBERTa counts positions from after its padding.
        if path.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (
                0 if module.padding_idx is None else module.padding_idx + 1
            )
    longest = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    return int(longest) if longest else None


def hidden_of(output: Any) -> Tensor:
    """The hidden states in what a block returned, a tensor or a tuple that begins with one."""
    hidden = output[0] if isinstance(output, tuple) and output else output
    if not isinstance(hidden, Tensor) or hidden.dim() != 3:
        raise UserError(
            f"a block returned {type(output).__name__}, where a tensor (rows, tokens, width) or a "
            "tuple that begins with one was expected"
        )
    return hidden


def with_hidden(output: Any, hidden: Tensor) -> Any:
    """What a block returned, with other hidden states in it."""
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


def last_norm(model: nn.Module, blocks: nn.ModuleList) -> nn.Module | None:
    """The norm before the unembedding, None when there is none by a known name."""
    for _, part in model.named_modules():
        if any(child is blocks for child in part.children()):
            for name in LAST_NORM:
                found = getattr(part, name, None)
                if isinstance(found, nn.Module):
                    return found
    return None


@contextmanager
def put_back(model: nn.Module) -> Iterator[None]:
    """Whatever is done to its modes and to what learns, put back what was."""
    was = {part: part.training for part in model.modules()}
    trained = {weight: weight.requires_grad for weight in model.parameters()}
    try:
        yield
    finally:
        for part, training in was.items():
            part.training = training
        for weight, grad in trained.items():
            weight.requires_grad_(grad)


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients of the weights off, then put back what was."""
    with put_back(model):
        model.eval().requires_grad_(False)
        yield


def hidden_behind(
    model: nn.Module, blocks: nn.ModuleList, index: int, tokens: Tensor, mask: Tensor
) -> tuple[Tensor, list[int]]:
    """Hidden states (R, T, D) that block ``index`` returns for tokens (R, T).

    With them, for all blocks so far, how long a tuple each returns; 0 for a tensor.
    """
    seen: dict[nn.Module, Any] = {}

    def keep(block: nn.Module, _: Any, output: Any) -> None:
        seen[block] = output

    # First in line, so that a memory behind the block is not in what is kept.
    hooks = [block.register_forward_hook(keep, prepend=True) for block in blocks[: index + 1]]
    try:
        with torch.no_grad():
            model(input_ids=tokens, attention_mask=mask, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    outputs = [seen[block] for block in blocks[: index + 1]]
    sizes = [len(output) if isinstance(output, tuple) else 0 for output in outputs]
    return hidden_of(outputs[-1]), sizes


@contextmanager
def passing(blocks: list[nn.Module]) -> Iterator[None]:
    """Let blocks return what they get."""
    for block in blocks:
        block.forward = _skip(None, 0)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


@contextmanager
def starting_behind(
    blocks: nn.ModuleList | list[nn.Module], hidden: Tensor, sizes: list[int]
) -> Iterator[None]:
    """Let a call of the model do no more than is above the block that returned ``hidden``.

    Blocks below return what they get and that block returns ``hidden``, so whatever else the
    model does (masks, positions, norms) stays its own business. Hooks of the block still run.
    """
    passing = list(blocks[: len(sizes)])
    for index, (block, size) in enumerate(zip(passing, sizes, strict=True)):
        block.forward = _skip(hidden if index == len(sizes) - 1 else None, size)
    try:
        yield
    finally:
        for block in passing:
            del block.forward


def _skip(hidden: Tensor | None, size: int) -> Any:
    def forward(given: Tensor, *_: Any, **__: Any) -> Any:
        found = given if hidden is None else hidden
        return (found, *[None] * (size - 1)) if size else found

    return forward


def fingerprint(model: Any) -> str:
    """A short digest of a base model: its shape, and a sample of each of its weights.

    Equal for the same weights in float32 and bfloat16, and on any device.
    """
    config = model.config.get_text_config(decoder=True)
    shape = [type(model).__name__, config.hidden_size, config.num_hidden_layers, words_of(model)]
    digest = hashlib.blake2b(json.dumps(shape).encode(), digest_size=16)
    for name, weight in sorted(model.named_parameters()):
        flat = weight.detach().flatten()
        sample = flat[:: max(1, flat.numel() // SAMPLED)].to("cpu", torch.bfloat16)
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(sample.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def known(name: str, names: list[str], what: str) -> int:
    """The index of a name, or an error with the nearest one."""
    if name not in names:
        raise UserError(f"unknown {what} {name!r}; {suggestion(str(name), names)}")
    return names.index(name)
