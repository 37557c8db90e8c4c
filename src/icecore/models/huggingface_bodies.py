"""Convert to and from transformers' LlamaForCausalLM and MambaForCausalLM, with equal logits.

Needs the extra `huggingface`.
"""

from typing import Any

from torch import Tensor

from icecore.errors import require
from icecore.models.base import Model, ModelDims, Parameters
from icecore.models.blocks import NORM_EPSILON
from icecore.models.huggingface import import_transformers
from icecore.models.llama import Llama
from icecore.models.mamba import KERNEL, Mamba
from icecore.models.mamba import NORM_EPSILON as MAMBA_EPSILON

SAME_LLAMA = {"hidden_act": "silu", "rms_norm_eps": NORM_EPSILON, "attention_bias": False, "mlp_bias": False}
LLAMA_NAMES = {
    "mixer_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "out": "self_attn.o_proj",
    "mlp_norm": "post_attention_layernorm",
    "mlp_gate": "mlp.gate_proj",
    "mlp_in": "mlp.up_proj",
    "mlp_out": "mlp.down_proj",
}


def to_llama(model: Llama, dims: ModelDims, parameters: Parameters) -> Any:
    """Return a LlamaForCausalLM with these weights."""
    require_no_positions(model, "Llama")
    transformers = import_transformers()
    config = transformers.LlamaConfig(
        vocab_size=dims.vocab_size,
        max_position_embeddings=dims.n_positions,
        hidden_size=model.width,
        intermediate_size=model.mlp_width,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.heads // model.heads_per_key,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        **SAME_LLAMA,
    )
    network = transformers.LlamaForCausalLM(config).eval()
    network.load_state_dict({key: parameters[name].detach() for name, key in llama_names(model).items()})
    return network


def from_llama(network: Any) -> tuple[Llama, ModelDims, dict[str, Tensor]]:
    """Return the model, dims and parameters of a LlamaForCausalLM."""
    config = network.config
    require_same(config, "LlamaConfig", SAME_LLAMA)
    rope = getattr(config, "rope_parameters", None) or {"rope_type": "default", "rope_theta": config.rope_theta}
    plain = rope.get("rope_type", "default") == "default" and rope["rope_theta"] == 10_000
    require(plain, f"LlamaConfig's rotary positions must be the default, with theta 10,000, got {dict(rope)}")
    heads = config.num_attention_heads
    model = Llama(
        config.hidden_size, config.num_hidden_layers, heads, heads_per_key=heads // config.num_key_value_heads
    )
    require(
        config.intermediate_size == model.mlp_width,
        f"LlamaConfig.intermediate_size must be {model.mlp_width}, as in icecore's llama of width {model.width}, "
        f"got {config.intermediate_size}",
    )
    dims = ModelDims(config.vocab_size, config.max_position_embeddings)
    return model, dims, taken(network, llama_names(model))


def llama_names(model: Llama) -> dict[str, str]:
    """Return LlamaForCausalLM's name for each of our parameters."""
    blocks = {
        f"block{layer}.{ours}.weight": f"model.layers.{layer}.{theirs}.weight"
        for layer in range(model.layers)
        for ours, theirs in LLAMA_NAMES.items()
    }
    around = {
        "token": "model.embed_tokens.weight",
        "unembed": "lm_head.weight",
        "final_norm.weight": "model.norm.weight",
    }
    return around | blocks


def taken(network: Any, names: dict[str, str]) -> dict[str, Tensor]:
    """Return copies of the network's weights by our names."""
    state = network.state_dict()
    return {ours: state[theirs].detach().clone() for ours, theirs in names.items()}


def require_same(config: Any, whose: str, wanted: dict[str, Any]) -> None:
    for name, ours in wanted.items():
        theirs = getattr(config, name)
        require(theirs == ours, f"{whose}.{name} must be {ours}, as in icecore, got {theirs}")


def require_no_positions(model: Model, whose: str) -> None:
    has_positions = getattr(model, "learned_positions", False)
    require(not has_positions, f"{whose} has no learned positions; a model with learned_positions cannot be exported")


SAME_MAMBA = {
    "hidden_act": "silu",
    "layer_norm_epsilon": MAMBA_EPSILON,
    "conv_kernel": KERNEL,
    "expand": 2,
    "use_bias": False,
    "use_conv_bias": True,
}
MAMBA_NAMES = {
    "norm.weight": "norm.weight",
    "in.weight": "mixer.in_proj.weight",
    "convolution.weight": "mixer.conv1d.weight",
    "convolution.bias": "mixer.conv1d.bias",
    "select.weight": "mixer.x_proj.weight",
    "step.weight": "mixer.dt_proj.weight",
    "step.bias": "mixer.dt_proj.bias",
    "log_decay": "mixer.A_log",
    "skip": "mixer.D",
    "out.weight": "mixer.out_proj.weight",
}


def to_mamba(model: Mamba, dims: ModelDims, parameters: Parameters) -> Any:
    """Return a MambaForCausalLM with these weights."""
    require_no_positions(model, "Mamba")
    transformers = import_transformers()
    config = transformers.MambaConfig(
        vocab_size=dims.vocab_size,
        hidden_size=model.width,
        state_size=model.state,
        num_hidden_layers=model.layers,
        time_step_rank=model.rank,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **SAME_MAMBA,
    )
    network = transformers.MambaForCausalLM(config).eval()
    state = {key: parameters[name].detach() for name, key in mamba_names(model).items()}
    network.load_state_dict({key: value[:, None] if is_kernel(key) else value for key, value in state.items()})
    return network


def from_mamba(network: Any, n_positions: int) -> tuple[Mamba, ModelDims, dict[str, Tensor]]:
    """Return the model, dims and parameters of a MambaForCausalLM, which has no number of positions itself."""
    config = network.config
    require_same(config, "MambaConfig", SAME_MAMBA)
    model = Mamba(config.hidden_size, config.num_hidden_layers, config.state_size)
    require_same(config, "MambaConfig", {"time_step_rank": model.rank})
    names = mamba_names(model)
    values = taken(network, names)
    parameters = {name: value[:, 0] if is_kernel(names[name]) else value for name, value in values.items()}
    return model, ModelDims(config.vocab_size, n_positions), parameters


def is_kernel(key: str) -> bool:
    """Tell whether transformers stores this parameter with a second axis of size 1."""
    return key.endswith("conv1d.weight")


def mamba_names(model: Mamba) -> dict[str, str]:
    """Return MambaForCausalLM's name for each of our parameters."""
    blocks = {
        f"block{layer}.{ours}": f"backbone.layers.{layer}.{theirs}"
        for layer in range(model.layers)
        for ours, theirs in MAMBA_NAMES.items()
    }
    around = {
        "token": "backbone.embeddings.weight",
        "unembed": "lm_head.weight",
        "final_norm.weight": "backbone.norm_f.weight",
    }
    return around | blocks
