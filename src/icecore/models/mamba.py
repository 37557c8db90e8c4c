"""Mamba: a causal convolution and a selective state space, gated; no MLP."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require, require_choices
from icecore.models.base import Hook, Model, ModelDims, Parameters, ParameterSpec, require_size, same_forward_pass
from icecore.models.blocks import BASE_WIDTH, embed, linear, normed, unchanged
from icecore.models.initializers import Constant, Initializer, Normal, Uniform

if TYPE_CHECKING:
    from icecore.models.engines import Engine

NORM_EPSILON = 1e-5  # SOURCE: MambaConfig
BASE_STD = 0.1  # SOURCE: MambaConfig.initializer_range
KERNEL = 4  # tokens that the convolution reads
SHORTEST, LONGEST = 0.001, 0.1  # initial time steps


def log_of_columns(shape: tuple[int, ...], _generator: torch.Generator) -> Float[Tensor, "channel state"]:
    """Return log 1, log 2, ... in every row. SOURCE: S4D-real, arXiv 2206.11893."""
    return torch.arange(1.0, shape[1] + 1).log().expand(shape).contiguous()


def time_step_bias(shape: tuple[int, ...], generator: torch.Generator) -> Float[Tensor, " channel"]:
    """Return biases whose softplus is log-uniform between the shortest and the longest time step."""
    share = torch.rand(shape, generator=generator)
    step = torch.exp(share * math.log(LONGEST / SHORTEST) + math.log(SHORTEST))
    return step + torch.log(-torch.expm1(-step))  # the inverse of softplus


@dataclass(frozen=True)
class Mamba(Model):
    """Equal to transformers' MambaForCausalLM, untied, unless it has learned positions too.

    Two blocks stand for one layer of a transformer.
    Initializations; `gain` multiplies the maps in, select and out:
      library   transformers': maps std .1, `out` uniform; a designed memory, A = -1, ..., -state
      matched   the same, std .1 x sqrt(1024 / width): the gain of width 1024 at every width
      gaussian  matrices 1 / sqrt(inputs); log A, D and the bias of the time step are N(0, 1)
    """

    width: int = 1024
    layers: int = 4
    state: int = 16
    init: Literal["library", "matched", "gaussian"] = "library"
    gain: float = 1.0
    learned_positions: bool = False

    name: ClassVar[str] = "mamba"
    kept_per_token: ClassVar[int] = 120
    roles: ClassVar[tuple[str, ...]] = ("token", "position", "unembed", "mixer", "norm")

    def __post_init__(self) -> None:
        for size in ("width", "layers", "state"):
            require_size(size, getattr(self, size))
        require(math.isfinite(self.gain) and self.gain > 0, f"gain must be positive, got {self.gain}")
        require_choices(self)

    @property
    def inner(self) -> int:
        return 2 * self.width

    @property
    def rank(self) -> int:
        """Return the rank of the map from tokens to time steps."""
        return math.ceil(self.width / 16)

    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        width = self.width
        specs = {
            "token": ParameterSpec((dims.vocab_size, width), "token", BASE_STD),
            "unembed": ParameterSpec((dims.vocab_size, width), "unembed", BASE_STD),
        }
        if self.learned_positions:
            specs["position"] = ParameterSpec((dims.n_positions, width), "position", BASE_STD)
        for layer in range(self.layers):
            specs[f"block{layer}.norm.weight"] = ParameterSpec((width,), "norm", Constant(1.0))
            specs |= self.mixer_specs(f"block{layer}")
        return {**specs, "final_norm.weight": ParameterSpec((width,), "norm", Constant(1.0))}

    def mixer_specs(self, block: str) -> dict[str, ParameterSpec]:
        inner, rank, gaussian = self.inner, self.rank, self.init == "gaussian"
        std = self.gain * BASE_STD * (math.sqrt(BASE_WIDTH / self.width) if self.init == "matched" else 1)

        def matrix(outputs: int, inputs: int, role: str, library: float | Initializer, gain: float) -> ParameterSpec:
            init = Normal(gain / math.sqrt(inputs)) if gaussian else library
            return ParameterSpec((outputs, inputs), f"mixer/{role}", init)

        drawn = Normal(1.0)
        select = rank + 2 * self.state
        bound = self.gain / math.sqrt(inner)
        return {
            f"{block}.in.weight": matrix(2 * inner, self.width, "in", std, self.gain),
            f"{block}.convolution.weight": matrix(inner, KERNEL, "convolution", Uniform(1 / math.sqrt(KERNEL)), 1),
            f"{block}.convolution.bias": ParameterSpec((inner,), "mixer/convolution"),
            f"{block}.select.weight": matrix(select, inner, "select", std, self.gain),
            f"{block}.step.weight": matrix(inner, rank, "step", Uniform(1 / math.sqrt(rank)), 1),
            f"{block}.step.bias": ParameterSpec((inner,), "mixer/step", drawn if gaussian else time_step_bias),
            f"{block}.log_decay": ParameterSpec(
                (inner, self.state), "mixer/decay", drawn if gaussian else log_of_columns, is_shrunk=False
            ),
            f"{block}.skip": ParameterSpec((inner,), "mixer/skip", drawn if gaussian else Constant(1.0)),
            f"{block}.out.weight": matrix(self.width, inner, "out", Uniform(bound), self.gain),
        }

    def hidden(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], hook: Hook | None = None
    ) -> Float[Tensor, "batch seq width"]:
        """Return the residual stream after the final norm. A `hook` sees every activation, and may replace it."""
        hook = hook or unchanged
        stream = hook("embedding", embed(parameters, tokens))
        for layer in range(self.layers):
            block = f"block{layer}"
            x = normed(stream, parameters, f"{block}.norm", NORM_EPSILON)
            mixed = hook(f"{block}.mixer_out", self.mix(parameters, block, x))
            stream = hook(f"{block}.stream", stream + mixed)
        return hook("final", normed(stream, parameters, "final_norm", NORM_EPSILON))

    def mix(
        self, parameters: Parameters, block: str, x: Float[Tensor, "batch seq width"]
    ) -> Float[Tensor, "batch seq width"]:
        inputs, gate = linear(x, parameters, f"{block}.in").chunk(2, dim=-1)
        inputs = F.silu(convolved(inputs, parameters, f"{block}.convolution"))
        chosen = linear(inputs, parameters, f"{block}.select")
        step, written, read = chosen.split([self.rank, self.state, self.state], dim=-1)
        step = F.softplus(linear(step, parameters, f"{block}.step") + parameters[f"{block}.step.bias"])
        output = scanned(inputs, step, -parameters[f"{block}.log_decay"].exp(), written, read)
        output = (output + parameters[f"{block}.skip"] * inputs) * F.silu(gate)
        return linear(output, parameters, f"{block}.out")

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T

    def state_size(self, _tokens: int, /) -> int:
        """Return the size of the states, and of the tokens that the convolutions read."""
        return self.layers * self.inner * (self.state + KERNEL - 1)

    @property
    def activations(self) -> tuple[str, ...]:
        """Return the names, all (batch, seq, width): blockN.mixer_out is added to the residual stream."""
        parts = ("mixer_out", "stream")
        return ("embedding", *(f"block{layer}.{part}" for layer in range(self.layers) for part in parts), "final")

    @property
    def streams(self) -> tuple[str, ...]:
        return ("embedding", *(f"block{layer}.stream" for layer in range(self.layers)), "final")

    @property
    def engine(self) -> "type[Engine]":
        from icecore.models.engines.mamba import MambaEngine

        return MambaEngine if same_forward_pass(self, Mamba) else super().engine

    def to_huggingface(self, dims: ModelDims, parameters: Parameters, /) -> Any:
        from icecore.models.huggingface_bodies import to_mamba

        is_mamba = same_forward_pass(self, Mamba)
        return to_mamba(self, dims, parameters) if is_mamba else super().to_huggingface(dims, parameters)


def convolved(
    x: Float[Tensor, "batch seq channel"], parameters: Parameters, name: str
) -> Float[Tensor, "batch seq channel"]:
    """Return each channel's sum of its last `KERNEL` values, weighted."""
    weight, padded = parameters[f"{name}.weight"], F.pad(x, (0, 0, KERNEL - 1, 0))
    shifted = (padded[:, lag : lag + x.shape[1]] * weight[:, lag] for lag in range(KERNEL))
    return sum(shifted, start=parameters[f"{name}.bias"])


def scanned(
    inputs: Float[Tensor, "batch seq channel"],
    step: Float[Tensor, "batch seq channel"],
    rate: Float[Tensor, "channel state"],
    written: Float[Tensor, "batch seq state"],
    read: Float[Tensor, "batch seq state"],
) -> Float[Tensor, "batch seq channel"]:
    """Run the recurrence: state = exp(step rate) state + step input written; output = state . read."""
    state = inputs.new_zeros(len(inputs), *rate.shape)
    outputs = []
    for time in range(inputs.shape[1]):
        now = step[:, time, :, None]
        added = (step[:, time] * inputs[:, time])[..., None] * written[:, time, None]
        state = (now * rate).exp() * state + added
        outputs.append((state * read[:, time, None]).sum(dim=-1))
    return torch.stack(outputs, dim=1)
