"""Every causal family of the installed `transformers`, tiny: what small sizes each one needs.

`SMALL` is for all, each family takes what its config has; `OWN` is what one needs beside it or
instead. Weights are drawn large (`initializer_range`), so that attention is not uniform and a
state that is lost shows in the logits. What cannot be built is listed with its reason in `CANNOT`
or, where nobody knew before, with what was raised.
"""

from __future__ import annotations

from typing import Any

from mnemoscope.core.errors import UserError

WORDS = 96
SMALL: dict[str, Any] = {
    # sizes, under the names that families have for them
    "vocab_size": WORDS, "hidden_size": 32, "d_model": 32, "n_embd": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 64, "n_positions": 64, "max_sequence_length": 64,
    # tokens that mean something
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    # experts
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
    # latent attention
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    # keys chosen by an index
    "index_topk": 8, "index_n_heads": 16, "index_head_dim": 8,
    # state spaces and linear attention
    "state_size": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    # windows that a short text leaves
    "sliding_window": 8, "attention_chunk_size": 8, "attention_window_size": 8, "window_size": 8,
    # weights that make attention look at something
    "initializer_range": 0.2, "init_std": 0.2,
    # nothing that drops a part of the model in training but dropout
    "layerdrop": 0.0,
}  # fmt: skip

# What a list says layer by layer: one layer of each kind is kept, at least two in all.
BY_LAYER = ("layer_types", "mlp_layer_types", "layers_block_type")

_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}
_LATENT = {"num_key_value_heads": 4}
_DECODER = {"is_decoder": True}
# None leaves out what `SMALL` has.
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite",
         "glm_moe_dsa", "minicpm3", "youtu"), _LATENT
    ),
    **dict.fromkeys(
        ("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie",
         "megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roformer",
         "xlm-roberta", "xlm-roberta-xl"), _DECODER
    ),
    "bailing_hybrid": _LATENT
    | {"linear_head_dim": 8, "linear_num_heads": 4, "num_experts_per_token": 2}
    | {"num_expert_group": 1},
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "codegen": {"rotary_dim": 4},
    "cohere_compass_text": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        }
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 16, "moe_num_experts": 4}
        | {"moe_top_k": 2},
    },
    "deepseek_v4": {
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}
    },
    "ernie4_5_moe": {"moe_k": 2},
    "falcon": {"head_dim": None},
    "falcon_h1": _MAMBA | {"mamba_d_ssm": 64},
    "gemma3n_text": {"intermediate_size": 48, "hidden_size_per_layer_input": 8}
    | {"vocab_size_per_layer_input": 96, "num_kv_shared_layers": 0, "laurel_rank": 8}
    | {"activation_sparsity_pattern": [0.0, 0.0]},
    "gemma4_text": {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 96},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": _MAMBA | {"layer_types": ["linear_attention", "full_attention"]},
    "inkling_text": {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2}
    | {"swa_head_dim": 8, "logits_mup_width_multiplier": 1.0, "sliding_window_size": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8}
    | {"mamba_dt_rank": 4},
    "kimi_linear": _LATENT
    | {"linear_head_dim": 8, "linear_num_heads": 4, "num_experts_per_token": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "longcat_flash": _LATENT
    | {"ffn_hidden_size": 48, "expert_ffn_hidden_size": 16, "moe_topk": 2, "zero_expert_num": 2},
    "mamba2": {"num_heads": 8, "n_groups": 2, "chunk_size": 8},
    "nemotron_h": {"ssm_state_size": 8, "mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 2}
    | {"moe_shared_expert_intermediate_size": 16, "chunk_size": 8, "num_hidden_layers": None},
    "qwen4_exp_text": {"hc_lowrank": 8, "ple_embed_dim": 8, "ngram_vocab_size_base": 200}
    | {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 8}
    | {"indexer_compress_ratio": 2},
    "recurrent_gemma": {"lru_width": 32, "num_hidden_layers": 3, "w_init_variance_scale": 1.0},
    "reformer": {"is_decoder": True, "attn_layers": ["local", "lsh"], "axial_pos_embds": False}
    | {"attention_head_size": 8, "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4}
    | {"hash_seed": 0, "num_buckets": 2, "feed_forward_size": 48, "num_hidden_layers": None},
    "roc_bert": _DECODER | {"pronunciation_embed_dim": 8, "pronunciation_vocab_size": 96}
    | {"shape_embed_dim": 8, "shape_vocab_size": 96},
    "xlm": {"emb_dim": 32, "causal": True, "embed_init_std": 0.2},
    "xlnet": {"attn_type": "uni", "d_inner": 48, "d_head": 8},
    # Its heads are rounded up to 64 numbers in all.
    "xlstm": {"hidden_size": 64, "embedding_dim": 64, "num_blocks": 2, "qk_dim_factor": 1.0}
    | {"chunk_size": 8},
    "xmod": _DECODER | {"default_language": "en_XX"},
    "zamba": {"attention_hidden_size": 64, "attention_head_dim": 16, "num_key_value_heads": 4}
    | {"mamba_d_state": 8, "mamba_dt_rank": 4, "num_hidden_layers": 4}
    | {"layers_block_type": ["linear_attention", "hybrid"] * 2},
    "zamba2": {"mamba_d_state": 8, "n_mamba_heads": 8, "num_key_value_heads": 4, "chunk_size": 8},
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 16},
}  # fmt: skip
CANNOT: dict[str, str] = {
    "blt": "reads bytes in patches and is put together of four models: it has no one tiny config",
    "gemma3n": "needs the library timm for its picture encoder; its text model is gemma3n_text",
    "gemma4_assistant": "drafts for another model: it reads that model's vectors, not tokens",
    "gemma4_unified_assistant": "drafts for another model: it reads that model's vectors",
    "musicgen": "reads several codebooks at once behind a text encoder, not one row of tokens",
    "musicgen_melody": "reads several codebooks at once behind a text encoder",
}

# Promises that a way of reading does not make, by design and not by mistake, and why.
EXPECTED: dict[str, tuple[tuple[str, ...], str]] = {
    "cpmant": (
        ("every one",),
        "reads its text both ways behind a prompt, and wants all of it again with a cache",
    ),
    "phimoe": (("train mode",), "draws its experts by chance in training (SparseMixer)"),
    "prophetnet": (
        ("state used", "pieces", "several after", "bytes"),
        "its cache takes one token at a time, and says so",
    ),
    "reformer": (
        ("every one",),
        "hashes chunks of what is read together: what is read together decides what is seen",
    ),
    "zaya": (
        ("minimal",),
        "the temperature of its keys is zero until it is trained: what they keep cannot matter yet",
    ),
}


def names() -> list[str]:
    """All families, in the order of the alphabet."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def options(family: str) -> dict[str, Any]:
    """What makes the config of a family tiny."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if family in CANNOT:
        raise UserError(CANNOT[family])
    return _options(CONFIG_MAPPING[family], OWN.get(family, {}))


def _options(kind: Any, own: dict[str, Any]) -> dict[str, Any]:
    """Of one config, and of those inside it, such as that of the text of a model that sees."""
    usual, aliases = kind(), getattr(kind, "attribute_map", None) or {}
    chosen = {
        name: value
        for name, value in SMALL.items()
        if name not in own and name not in aliases and _has(usual, name)
    }
    chosen |= _by_layer(usual, own)
    for name in getattr(kind, "sub_configs", None) or {}:
        inner = getattr(usual, name, None)
        if inner is not None and name not in own:
            chosen[name] = _options(type(inner), OWN.get(inner.model_type, {}))
    for name, value in own.items():
        if isinstance(value, dict) and name in (getattr(kind, "sub_configs", None) or {}):
            chosen[name] = _options(type(getattr(usual, name)), value)
        elif value is not None:
            chosen[name] = value
    return chosen


def _by_layer(usual: Any, own: dict[str, Any]) -> dict[str, Any]:
    """Lists that name the kind of every layer, short and with every kind in them."""
    kinds = {
        name: list(dict.fromkeys(getattr(usual, name, None) or ()))
        for name in BY_LAYER
        if _has(usual, name)
    }
    kinds = {name: few for name, few in kinds.items() if few and name not in own}
    layers = max([2, *map(len, kinds.values())])
    chosen: dict[str, Any] = {
        name: [few[min(at, len(few) - 1)] for at in range(layers)] for name, few in kinds.items()
    }
    return chosen | ({"num_hidden_layers": layers} if layers > 2 else {})


def _has(config: Any, name: str) -> bool:
    """Whether a config knows a size; one that differs from layer to layer does not."""
    return name in vars(config) or name in getattr(type(config), "__dataclass_fields__", {})


def build(family: str, seed: int = 0) -> Any:
    """A tiny model of a family; the same whenever it is built."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(family, **options(family))
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config).eval()


def lines(family: str) -> tuple[str, ...]:
    """The same in plain Python, for a snippet."""
    given = ", ".join(f"{name}={value!r}" for name, value in options(family).items())
    return (
        f"config = AutoConfig.for_model({family!r}, {given})",
        "model = AutoModelForCausalLM.from_config(config).eval()",
    )
