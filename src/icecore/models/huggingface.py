"""Convert to and from Hugging Face's GPT2LMHeadModel, with equal logits. Needs the extra `huggingface`."""

from typing import TYPE_CHECKING

from torch import Tensor

from icecore.errors import InputError, require
from icecore.models.base import ModelDims, Parameters
from icecore.models.transformer import NORM_EPSILON, Transformer

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

# GPT2Config values of our forward pass.
SAME = {
    "activation_function": "gelu_new",
    "layer_norm_epsilon": NORM_EPSILON,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}


def to_huggingface(model: Transformer, dims: ModelDims, parameters: Parameters) -> "GPT2LMHeadModel":
    """Return a GPT2LMHeadModel with these weights."""
    network = new_gpt2(model, dims).eval()
    network.load_state_dict(gpt2_state(model, parameters))
    return network


def to_huggingface_tokenizer(tokenizer: "Tokenizer", end: str) -> "PreTrainedTokenizerFast":
    """Return the tokenizer for transformers, with `end` as its BOS and EOS token."""
    transformers = import_transformers()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end)


def new_gpt2(model: Transformer, dims: ModelDims) -> "GPT2LMHeadModel":
    """Return a GPT2LMHeadModel of that shape, with transformers' initial weights and no dropout."""
    transformers = import_transformers()
    require(
        model.attention == "softmax",
        f"GPT-2 has softmax attention; a model with attention '{model.attention}' cannot be exported",
    )
    config = transformers.GPT2Config(
        vocab_size=dims.vocab_size,
        n_positions=dims.n_positions,
        n_embd=model.width,
        n_layer=model.layers,
        n_head=model.heads,
        layer_norm_epsilon=NORM_EPSILON,
        tie_word_embeddings=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.GPT2LMHeadModel(config)


def from_huggingface(network: "GPT2LMHeadModel") -> tuple[Transformer, ModelDims, dict[str, Tensor]]:
    """Return the model, dims and parameters of a GPT2LMHeadModel."""
    config = network.config
    for name, ours in SAME.items():
        theirs = getattr(config, name)
        require(theirs == ours, f"GPT2Config.{name} must be {ours}, as in icecore's transformer, got {theirs}")
    wide = config.n_inner
    require(
        wide in (None, 4 * config.n_embd),
        f"GPT2Config.n_inner must be 4 n_embd, as in icecore's transformer, got {wide}",
    )
    model = Transformer(width=config.n_embd, layers=config.n_layer, heads=config.n_head)
    dims = ModelDims(vocab_size=config.vocab_size, n_positions=config.n_positions)
    state = network.state_dict()
    parameters: dict[str, Tensor] = {}
    for name, (key, part) in names_of_gpt2(model).items():
        value = state[key].detach()
        if part is not None:
            value = value.chunk(3, dim=-1)[part]
        if is_transposed(key):
            value = value.T
        parameters[name] = value.clone().contiguous()
    return model, dims, parameters


def names_of_gpt2(model: Transformer) -> dict[str, tuple[str, int | None]]:
    """Return GPT-2's name for each of our parameters, and which third of the joint QKV map it is."""
    names: dict[str, tuple[str, int | None]] = {
        "token": ("transformer.wte.weight", None),
        "position": ("transformer.wpe.weight", None),
        "unembed": ("lm_head.weight", None),
    }
    modules: dict[str, tuple[str, int | None]] = {"final_norm": ("transformer.ln_f", None)}
    for layer in range(model.layers):
        ours, theirs = f"block{layer}", f"transformer.h.{layer}"
        modules[f"{ours}.attention_norm"] = (f"{theirs}.ln_1", None)
        for third, part in enumerate(("q", "k", "v")):
            modules[f"{ours}.{part}"] = (f"{theirs}.attn.c_attn", third)
        modules[f"{ours}.out"] = (f"{theirs}.attn.c_proj", None)
        modules[f"{ours}.mlp_norm"] = (f"{theirs}.ln_2", None)
        modules[f"{ours}.mlp_in"] = (f"{theirs}.mlp.c_fc", None)
        modules[f"{ours}.mlp_out"] = (f"{theirs}.mlp.c_proj", None)
    for ours, (theirs, part) in modules.items():
        for kind in ("weight", "bias"):
            names[f"{ours}.{kind}"] = (f"{theirs}.{kind}", part)
    return names


def is_transposed(key: str) -> bool:
    """Tell whether GPT-2 stores this parameter as (inputs, outputs): the matrices of its blocks."""
    return key.endswith("weight") and (".attn." in key or ".mlp." in key)


def gpt2_state(model: Transformer, parameters: Parameters) -> dict[str, Tensor]:
    import torch

    thirds: dict[str, list[Tensor]] = {}
    for name, (key, _) in names_of_gpt2(model).items():
        value = parameters[name].detach()
        thirds.setdefault(key, []).append(value.T if is_transposed(key) else value)
    return {key: torch.cat(values, dim=-1).contiguous() for key, values in thirds.items()}


def import_transformers():
    try:
        import transformers
    except ImportError as error:
        raise InputError("this needs transformers: pip install 'icecore[huggingface]'") from error
    return transformers
