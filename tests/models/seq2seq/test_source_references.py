"""Our models against slow ones that read like the papers, and against `nn.Transformer`."""

import math

import pytest
import torch
from torch import nn

from mnemoscope.activations.capture import capture


def gru(layer, x, h):
    """One step of torch.nn's GRU, row by row, gate by gate."""
    width = len(h)
    inputs = layer.weight_ih_l0 @ x + layer.bias_ih_l0
    recurrent = layer.weight_hh_l0 @ h + layer.bias_hh_l0
    reset = torch.sigmoid(inputs[:width] + recurrent[:width])
    update = torch.sigmoid(inputs[width : 2 * width] + recurrent[width : 2 * width])
    candidate = torch.tanh(inputs[2 * width :] + reset * recurrent[2 * width :])
    return (1 - update) * candidate + update * h


def encode(model, ids):
    """The words, and the decoder's first hidden vector, of one source."""
    vectors = model.source_embedding(ids)
    kernel, half = model.encoder.kernel, model.config.width // 2
    one = nn.GRU(2 * half, half).double()
    ends = []
    sides = []
    for suffix, order in (("", range(len(ids))), ("_reverse", range(len(ids) - 1, -1, -1))):
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            setattr(one, name, nn.Parameter(getattr(kernel, name + suffix).detach()))
        h, seen = torch.zeros(half).double(), {}
        for place in order:
            h = seen[place] = gru(one, vectors[place], h)
        ends.append(h)
        sides.append(torch.stack([seen[place] for place in range(len(ids))]))
    first = torch.tanh(model.encoder.bridges[0][0](torch.cat(ends)))
    return torch.cat(sides, 1), first


def softmax_mix(scores, words):
    total = sum(math.e**score for score in scores)
    weights = [math.e**score / total for score in scores]
    return sum(weight * word for weight, word in zip(weights, words, strict=True)), weights


def slow(model, source, target):
    """Logits of one pair, and the alignment, one word at a time."""
    words, hidden = encode(model, source)
    kind, logits, alignment = model.config.memory, [], []
    layer = model.layers[-1]
    found = torch.zeros_like(hidden)
    for token in target:
        y, weights = model.embedding.weight[token], []
        if kind == "bahdanau":
            scores = [
                layer.direction @ torch.tanh(layer.query(hidden) + layer.key(w)) for w in words
            ]
            c, weights = softmax_mix(scores, words)
            hidden = gru(layer.cells[0].kernel, torch.cat((y, c)), hidden)
            said = torch.tanh(layer.join(torch.cat((hidden, c, y))))
        else:
            feeding = kind == "luong" and model.config.feeding
            cells = layer.cells[0] if feeding else model.layers[0]
            hidden = gru(cells.kernel, torch.cat((y, found)) if feeding else y, hidden)
            said = hidden
            if kind == "luong":
                scores = [hidden @ layer.look.query.weight.T @ w for w in words]
                c, weights = softmax_mix(scores, words)
                said = found = torch.tanh(layer.look.join(torch.cat((c, hidden))))
        logits.append(model.readout(said))
        alignment.append(torch.tensor([weight.item() for weight in weights]))
    return torch.stack(logits), torch.stack(alignment)


@pytest.mark.parametrize("kind", ["vector", "bahdanau", "luong", "luong feeding"])
def test_recurrent_models_equal_the_equations(kind, make, draw):
    model = make(kind, layers=1)
    source, target = draw(2, 6, vocab=13), draw(2, 5)
    site = "layers.*alignment"
    if kind == "vector":
        found, seen = model(target, model.encode(source)).logits, None
    else:
        with capture(model, site) as taken:
            found = model(target, model.encode(source)).logits
        (seen,) = taken.values()
    for row in range(2):
        logits, alignment = slow(model, source[row], target[row])
        torch.testing.assert_close(found[row], logits)
        if seen is not None:
            torch.testing.assert_close(seen[row, 0].float(), alignment.float())


def same_weights(model) -> nn.Transformer:
    """An nn.Transformer with the weights of ours."""
    config = model.config
    theirs = nn.Transformer(
        config.width,
        config.heads,
        config.layers,
        config.layers,
        config.mlp_ratio * config.width,
        0.0,
        norm_first=config.norm == "pre",
        batch_first=True,
    ).double()
    if config.norm == "post":  # as in the paper; nn.Transformer adds two norms of its own
        theirs.encoder.norm = theirs.decoder.norm = None
    else:
        theirs.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
        theirs.decoder.norm.load_state_dict(model.norm.state_dict())

    def put(target: nn.MultiheadAttention, weight, bias, out) -> None:
        target.in_proj_weight.copy_(weight)
        target.in_proj_bias.copy_(bias)
        target.out_proj.load_state_dict(out.state_dict())

    with torch.no_grad():
        for ours, layer in zip(model.encoder, theirs.encoder.layers, strict=True):
            qkv = ours.attention.qkv
            put(layer.self_attn, qkv.weight, qkv.bias, ours.attention.out)
            layer.norm1.load_state_dict(ours.around_attention.norm.state_dict())
            layer.norm2.load_state_dict(ours.around_forth.norm.state_dict())
            layer.linear1.load_state_dict(ours.forth.expand.state_dict())
            layer.linear2.load_state_dict(ours.forth.contract.state_dict())
        for ours, layer in zip(model.layers, theirs.decoder.layers, strict=True):
            qkv, cross = ours.attention.qkv, ours.cross
            put(layer.self_attn, qkv.weight, qkv.bias, ours.attention.out)
            weight = torch.cat((cross.query.weight, cross.pairs.weight))
            bias = torch.cat((cross.query.bias, cross.pairs.bias))
            put(layer.multihead_attn, weight, bias, cross.out)
            layer.norm1.load_state_dict(ours.around_attention.norm.state_dict())
            layer.norm2.load_state_dict(ours.around_cross.norm.state_dict())
            layer.norm3.load_state_dict(ours.around_forth.norm.state_dict())
            layer.linear1.load_state_dict(ours.forth.expand.state_dict())
            layer.linear2.load_state_dict(ours.forth.contract.state_dict())
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("kind", ["encoder_decoder", "transformer post"])
def test_the_transformer_equals_that_of_torch(kind, make, draw, padded):
    model = make(kind)
    theirs = same_weights(model).train()  # no dropout in it; eval would take another path
    source, mask = padded
    target = draw(3, 6)
    ours = model(target, model.encode(source, mask)).logits
    ours.square().sum().backward()
    mine = model.source_embedding.weight.grad.clone()
    model.zero_grad()

    places = torch.arange(10).expand(3, -1)
    read = model.positions(model.source_embedding(source), places[:, :5])[0]
    said = model.positions(model.embedding(target), places[:, :6])[0]
    causal = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
    hidden = torch.zeros(3, 5).double().masked_fill(~mask, -torch.inf)
    vectors = theirs(
        read,
        said,
        tgt_mask=causal,
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    logits = model.readout(vectors)
    torch.testing.assert_close(ours, logits)
    logits.square().sum().backward()
    torch.testing.assert_close(mine, model.source_embedding.weight.grad)


def test_watching_the_alignment_changes_nothing_and_weights_add_up(make, draw, padded):
    model, target = make("encoder_decoder"), draw(3, 4)
    plain = model(target, model.encode(*padded)).logits
    with capture(model, "layers.*.cross.alignment") as seen:
        watched = model(target, model.encode(*padded)).logits
    torch.testing.assert_close(plain, watched)
    for weights in seen.values():
        assert weights.shape == (3, 2, 4, 5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 4).double())
        assert (weights[1, ..., 2:] == 0).all()
