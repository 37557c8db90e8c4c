"""Any causal language model of Hugging Face transformers as a body, by its config: `--model hf:CONFIG`."""

import contextlib
import dataclasses
import functools
import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from icecore.errors import InputError, in_one_line, require, require_choices
from icecore.models.base import Hook, Model, ModelDims, Parameters, ParameterSpec
from icecore.models.hf_config import (
    config_from,
    digest_of,
    offline,
    offline_transformers,
    quiet,
    resolved,
    tensors_in,
    weight_files,
)
from icecore.models.hf_hooks import blocks_of, hooked
from icecore.seeding import make_generator

PREFIX = "hf:"
BASE_WIDTH = 1024  # `matched` has the gain of this width
MOST_TABLES = 2**32  # bytes of masks and angles, which no parameter needs


@dataclass(frozen=True)
class HuggingFace(Model):
    """A network of transformers; `config` is a config class, a folder with a config.json, or the config itself.

    From a folder with safetensors, the network starts as it is there, with every seed the same. Otherwise it is random:
      library   as transformers initializes it, from the run's seed
      matched   the body's matrices x sqrt(1024 / width): the gain of width 1024 at every width; decays and
                convolutions, whose inputs do not grow with the width, stay
      gaussian  the body's matrices are normal with std 1 / sqrt(inputs), and log decays are N(0, 1); vectors stay as
                the library has them
    A config class takes vocabulary and positions from the task, and --width, --layers and --heads.
    """

    config: str
    width: int = None  # type: ignore[assignment]  # the config's, once made
    layers: int | None = None
    heads: int | None = None
    init: Literal["library", "matched", "gaussian"] = "library"
    weights: str = ""  # hash of the folder's safetensors
    folder: str | None = dataclasses.field(default=None, metadata={"where": True})

    name: ClassVar[str] = "hf"
    roles: ClassVar[tuple[str, ...]] = ("token", "position", "unembed", "body")
    vectorizes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_choices(self)
        folder = self.folder if self.config.lstrip().startswith("{") else self.config
        files = weight_files(folder) if folder is not None else []
        digest = digest_of(files)
        require(
            self.weights in ("", digest),
            f"the run needs the weights of {folder} with hash {self.weights}, and they have {digest or 'none'}: put "
            "them back, or train again",
        )
        require(not digest or self.init == "library", "--init is for random bodies: drop it, or remove the weights")
        sizes = {"width": self.width, "layers": self.layers, "heads": self.heads}
        text = resolved(self.config, sizes)
        config = config_from(json.loads(text))
        found = {name: getattr(config, key, None) for name, key in (("width", "hidden_size"), *LEVELS)}
        require(
            type(found["width"]) is int, f"{self.architecture_of(text)} has no hidden_size, so it has no width here"
        )
        values = {"config": text, "weights": digest, "folder": folder if files else None, **found}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def architecture_of(text: str) -> str:
        return json.loads(text)["model_type"]

    @property
    def architecture(self) -> str:
        """Return transformers' model type, such as llama."""
        return self.architecture_of(self.config)

    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        network = outline_of(self.config, dims)
        roles = roles_of(network)
        shapes = {name: tuple(value.shape) for name, value in network.named_parameters()}
        return {
            name: ParameterSpec(shape, roles[name], is_shrunk="norm" not in roles[name])
            for name, shape in shapes.items()
        }

    def initial_parameters(self, dims: ModelDims, seed: int) -> dict[str, Tensor]:
        if self.weights:
            return loaded(self, dims)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(make_generator(seed, "init").initial_seed())
            network = build(self.config, dims)
        values = {name: value.detach().clone().float() for name, value in network.named_parameters()}
        roles = roles_of(network)
        for name, value in values.items():
            part = roles[name]
            if part == DECAY and self.init == "gaussian":
                value.normal_(generator=make_generator(seed, "init", name))
            elif value.dim() > 1 and part.startswith("body") and part != DECAY:
                if self.init == "matched" and part != CONVOLUTION:
                    value *= math.sqrt(BASE_WIDTH / self.width)
                if self.init == "gaussian":
                    inputs = value.shape[0] if is_transposed(network, name) else math.prod(value.shape[1:])
                    value.normal_(0, 1 / math.sqrt(inputs), generator=make_generator(seed, "init", name))
        return values

    def hidden(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], hook: Hook | None = None
    ) -> Float[Tensor, "batch seq width"]:
        """Return the input of the network's output embeddings."""
        hidden = run(self, parameters, tokens, hook)[0]
        return hidden if hook is None else hook("final", hidden)

    @property
    def activations(self) -> tuple[str, ...]:
        """Return the residual stream before the blocks and after each, and the body's output; none without blocks."""
        blocks = blocks_of(outline_of(self.config, ModelDims(8, 8)), self.layers)
        return () if not blocks else ("embedding", *(f"block{each}.stream" for each in range(len(blocks))), "final")

    @property
    def streams(self) -> tuple[str, ...]:
        return self.activations

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        weight, bias = names_of_output(self.config)
        logits = hidden @ parameters[weight].T
        return logits + parameters[bias] if bias in parameters else logits


LEVELS = (("layers", "num_hidden_layers"), ("heads", "num_attention_heads"))


def run(model: HuggingFace, parameters: Parameters, tokens: Tensor, hook: Hook | None = None) -> tuple[Tensor, Tensor]:
    """Return the input of the output embeddings, and transformers' logits."""
    weight = parameters[names_of_output(model.config)[0]]
    network = network_of(
        model.config, ModelDims(len(weight), max(positions_in(model, parameters), tokens.shape[1])), str(tokens.device)
    )
    seen: list[Tensor] = []
    handle = network.get_output_embeddings().register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    blocks = None if hook is None else blocks_of(network, model.layers)
    shape = (*tokens.shape, model.width)
    try:
        with offline(), contextlib.nullcontext() if not blocks or hook is None else hooked(blocks, hook, shape):
            logits = torch.func.functional_call(network, dict(parameters), (tokens,), {"use_cache": False}).logits
    finally:
        handle.remove()
    require(
        len(seen) == 1, f"{model.architecture} does not use its output embeddings once per call: it cannot be a body"
    )
    return seen[0], logits


def require_plain_logits(model: HuggingFace, parameters: Parameters, tokens: Tensor) -> None:
    """Raise unless the logits are a linear map of the body's output."""
    hidden, logits = run(model, parameters, tokens)
    ours = model.unembed(parameters, hidden)
    require(
        torch.allclose(ours, logits, rtol=1e-4, atol=1e-4 * float(logits.abs().max())),
        f"{model.architecture} does more after its body than one linear map, such as a soft cap or a scale: set that "
        "off in config.json, or take another network",
    )


def positions_in(model: HuggingFace, parameters: Parameters) -> int:
    """Return the number of learned positions, 0 without them."""
    names = [name for name, role in roles_by_name(model.config).items() if role == "position"]
    return max((len(parameters[name]) for name in names), default=0)


def build(text: str, dims: ModelDims) -> Any:
    """Return the network with transformers' initial values, for this vocabulary and number of positions."""
    values = json.loads(text)
    config = config_from(values)
    for name, needed, what, ways in (
        ("vocab_size", dims.vocab_size, "a vocabulary", "raise it, or drop it from config.json"),
        (
            "max_position_embeddings",
            dims.n_positions,
            "positions",
            "raise it, drop it from config.json, or give fewer with --positions",
        ),
    ):
        key = config.attribute_map.get(name, name)
        has = values.get(key)
        require(
            not isinstance(has, int) or has >= needed,
            f"the config has {key} {has}, and the task needs {what} of {needed}: {ways}",
        )
        if name == "vocab_size" or (has is None and getattr(config, key, None) is not None):
            setattr(config, key, needed)
    try:
        auto = offline_transformers().AutoModelForCausalLM
        with offline(), quiet():
            made = auto.from_config(config, attn_implementation="eager", trust_remote_code=False)
    except ImportError as error:
        raise InputError(f"{config.model_type} needs a package that is not here ({in_one_line(error)})") from None
    except Exception as error:  # whatever the network's own code raises
        raise InputError(
            f"transformers cannot make {config.model_type} ({in_one_line(error)}); change the config, or take another"
        ) from None
    require(
        made.get_output_embeddings() is not None,
        f"{config.model_type} has no output embeddings, so nothing is the unembedding: take another network",
    )
    return made.float().eval()


@functools.lru_cache(maxsize=8)
def outline_of(text: str, dims: ModelDims) -> Any:
    """Return a network that takes no memory: its names, shapes and modules. Raise if its tables would take much."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network = build(text, dims)
    tables = sum(value.nbytes for value in network.buffers())
    require(tables <= MOST_TABLES, f"the network has tables of {tables:,} bytes: lower its number of positions")
    return network


@functools.lru_cache(maxsize=8)
def network_of(text: str, dims: ModelDims, device: str) -> Any:
    """Return a network to run with other parameters: only its code and buffers count."""
    with torch.random.fork_rng(devices=[]):
        network = build(text, dims).to(device)
    return network.requires_grad_(False)


@functools.lru_cache(maxsize=8)
def roles_by_name(text: str) -> dict[str, str]:
    return roles_of(outline_of(text, ModelDims(8, 8)))


def names_of_output(text: str) -> tuple[str, str]:
    """Return the names of weight and bias of the output embeddings."""
    weight = next(name for name, role in roles_by_name(text).items() if role == "unembed" and name.endswith("weight"))
    return weight, weight.removesuffix("weight") + "bias"


def roles_of(network: nn.Module) -> dict[str, str]:
    """Return each parameter's role: input, output and position embeddings; all else is the body, by kind of module."""
    around = {id(network.get_input_embeddings()): "token", id(network.get_output_embeddings()): "unembed"}  # type: ignore[operator]
    found = {}
    for prefix, module in network.named_modules():
        role = around.get(id(module))
        if role is None:
            is_norm = "norm" in type(module).__name__.lower()
            role = "position" if isinstance(module, nn.Embedding) else "body/norm" if is_norm else "body"
        for name, _ in module.named_parameters(recurse=False):
            full = f"{prefix}.{name}" if prefix else name
            found[full] = role if role != "body" else with_part(full)
    return {name: found[name] for name, _ in network.named_parameters()}


# Words in the names of parameters, by the part they tell; the last ones only within attention.
SUB_ROLES = {
    **dict.fromkeys(("q_proj", "query"), "q"),
    **dict.fromkeys(("k_proj", "key"), "k"),
    **dict.fromkeys(("v_proj", "value"), "v"),
    **dict.fromkeys(("o_proj", "out_proj"), "out"),
    **dict.fromkeys(("c_attn", "query_key_value", "qkv_proj", "Wqkv"), "qkv"),
    "in_proj": "in",
    "conv1d": "convolution",
    "x_proj": "select",
    "dt_proj": "step",
    "A_log": "decay",
    "D": "skip",
}
DECAY, CONVOLUTION = "body/decay", "body/convolution"
OUT_OF_ATTENTION = ("c_proj", "dense", "output")
MLP = ("mlp", "feed_forward", "ffn", "fc1", "fc2")


def with_part(name: str) -> str:
    """Return the role of a parameter of the body, with its part where the name tells it."""
    words = name.split(".")
    if any(known in word for word in words for known in MLP):
        return "body/mlp"
    if any("attn" in word or "attention" in word for word in words) and not {*OUT_OF_ATTENTION}.isdisjoint(words):
        return "body/out"
    part = next((SUB_ROLES[word] for word in words if word in SUB_ROLES), None)
    return f"body/{part}" if part else "body"


def is_transposed(network: nn.Module, name: str) -> bool:
    """Tell whether a matrix is stored as (inputs, outputs), as in GPT-2."""
    return type(network.get_submodule(name.rpartition(".")[0])).__name__ == "Conv1D"


def loaded(model: HuggingFace, dims: ModelDims) -> dict[str, Tensor]:
    """Return the folder's weights, with the first rows of vocabulary and positions that the task needs."""
    outline = outline_of(model.config, dims)
    tensors = tensors_in(weight_files(model.folder or ""))
    try:
        with offline(), quiet():
            full, info = type(outline).from_pretrained(
                None,
                config=config_from(json.loads(model.config)),
                state_dict=tensors,
                output_loading_info=True,
                attn_implementation="eager",
            )
    except Exception as error:  # whatever reading foreign weights raises
        raise InputError(f"the weights in {model.folder} do not load ({in_one_line(error)}); save them again") from None
    missing = set(info["missing_keys"])
    output, _ = names_of_output(model.config)
    values = {name: value.detach().float() for name, value in full.named_parameters()}
    if output in missing:  # they were tied
        token = next(name for name, role in roles_by_name(model.config).items() if role == "token")
        values[output] = values[token].clone()
        missing.remove(output)
    require(not missing, f"the weights in {model.folder} lack {', '.join(sorted(missing)[:3])}: save them again")
    shapes = {name: tuple(value.shape) for name, value in outline.named_parameters()}
    return {name: values[name][tuple(map(slice, shape))].clone() for name, shape in shapes.items()}
