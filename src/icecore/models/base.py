"""The model interface: named parameters, each with a role, and pure functions of them."""

import abc
import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import InputError, require
from icecore.models.initializers import Constant, Initializer, Normal
from icecore.seeding import make_generator

if TYPE_CHECKING:
    from icecore.models.engines import Engine

Parameters = Mapping[str, Tensor]
# Called with each activation's name and value; its return value replaces the activation.
Hook = Callable[[str, Tensor], Tensor]
# (new tokens, cache) -> (their logits, next cache).
Decoder = Callable[[Tensor, Any], tuple[Tensor, Any]]


@dataclass(frozen=True)
class ModelDims:
    """Dimensions that the task sets: the vocabulary size and the number of positions."""

    vocab_size: int
    n_positions: int


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter: shape, role and initialization."""

    shape: tuple[int, ...]
    role: str  # one of `Model.roles`; a sub-role follows a slash, as in attention/q
    init: float | Initializer = Constant(0.0)  # a number is the standard deviation of a normal distribution
    is_shrunk: bool = True  # by weight decay, if it is a matrix

    @property
    def initializer(self) -> Initializer:
        return self.init if callable(self.init) else Normal(self.init)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def decays(self) -> bool:
        """Tell whether weight decay applies: to matrices, not to biases and norms."""
        return self.is_shrunk and len(self.shape) > 1


@dataclass(frozen=True)
class Positions:
    """The (row, column) positions of a batch at which to compute logits."""

    rows: Int64[Tensor, " places"]
    columns: Int64[Tensor, " places"]


class Model(abc.ABC):
    """A network architecture: a frozen dataclass of its settings. The parameters are a separate dict.

    Methods compute one network. A population stacks the parameters of many; see `training.population`.
    """

    name: ClassVar[str]
    roles: ClassVar[tuple[str, ...]]
    kept_per_token: ClassVar[int] = 20  # numbers per layer and channel for the backward pass, to estimate memory
    vectorizes: ClassVar[bool] = True  # whether torch.func.vmap can run many networks at once
    source_file: ClassVar[str | None] = None  # the file that a user's model was loaded from
    source_text: ClassVar[str | None] = None  # and its text
    width: int

    def __init_subclass__(cls, **settings: Any) -> None:
        """Clear the parent's source file, which does not define the subclass."""
        super().__init_subclass__(**settings)
        cls.source_file = cls.source_text = None

    @abc.abstractmethod
    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        """Return every parameter's spec, by name."""

    @abc.abstractmethod
    def hidden(self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch seq width"]:
        """Return the input of the unembedding.

        A model with named `activations` takes a third argument, `hook: Hook | None = None`, and passes each of them
        through it.
        """

    @abc.abstractmethod
    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        """Return the logits for the output of `hidden`."""

    def logits(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], at: Positions | None = None
    ) -> Float[Tensor, "*places vocab"]:
        """Return the logits at every position, or only at those of `at`."""
        hidden = self.hidden(parameters, tokens)
        return self.unembed(parameters, hidden if at is None else hidden[at.rows, at.columns])

    def initial_parameters(self, dims: ModelDims, seed: int) -> dict[str, Tensor]:
        """Return the initial parameters of a seed, on the CPU. Each parameter has its own random stream."""
        return {name: initial_value(spec, name, seed) for name, spec in self.specs(dims).items()}

    @property
    def unread_roles(self) -> tuple[str, ...]:
        """Return the roles whose parameters have no effect with these settings."""
        return ()

    @property
    def fixed_roles(self) -> tuple[str, ...]:
        """Return the sub-roles that train only if named themselves, not with `all` or the role above them."""
        return ()

    def state_size(self, _tokens: int, /) -> int | None:
        """Return the size of a sequence's state after this many tokens, in numbers; None if unknown."""
        return None

    @property
    def activations(self) -> tuple[str, ...]:
        """Return the names that `hidden` passes to its hook, in order; empty if it takes none."""
        return ()

    @property
    def streams(self) -> tuple[str, ...]:
        """Return the (batch, seq, width) activations to follow through the layers, such as the residual stream."""
        return ()

    def trace(self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> dict[str, Tensor]:
        """Return every activation by name, and the logits."""
        values: dict[str, Tensor] = {}

        def keep(name: str, value: Tensor) -> Tensor:
            values[name] = value
            return value

        hidden = hidden_with(self, parameters, tokens, keep)
        values["logits"] = self.unembed(parameters, hidden)
        return values

    @property
    def engine(self) -> "type[Engine]":
        """Return the engine that training uses; by default, the reference."""
        from icecore.models.engines import ReferenceEngine

        return ReferenceEngine

    def decoder(self, parameters: Parameters) -> tuple[Decoder, Any]:
        """Return (step, initial_cache), with step(tokens, cache) -> (logits, cache); by default it recomputes all."""

        def step(tokens: Int64[Tensor, "batch new"], seen: Int64[Tensor, "batch seq"] | None) -> tuple[Tensor, Tensor]:
            text = tokens if seen is None else torch.cat([seen, tokens], dim=1)
            return self.logits(parameters, text)[:, -tokens.shape[1] :], text

        return step, None

    def to_huggingface(self, _sizes: ModelDims, _parameters: Parameters, /) -> Any:
        """Return the same network as a model of Hugging Face transformers, with equal logits."""
        raise InputError(f"the model {self.name} cannot be exported to Hugging Face: transformers has no such network")


def hidden_with(
    model: Model, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], hook: Hook
) -> Float[Tensor, "batch seq width"]:
    """Run `model.hidden` with a hook; raise if the model takes none."""
    has_hook = "hook" in inspect.signature(type(model).hidden).parameters
    require(
        has_hook and bool(model.activations),
        f"{model.name} has no named activations: let its hidden take a hook, and list them in `activations`",
    )
    return cast(Any, model).hidden(parameters, tokens, hook)


def traced(
    model: Model, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], names: Iterable[str]
) -> dict[str, Tensor]:
    """Return `model.trace`; raise unless it has these activations."""
    values = model.trace(parameters, tokens)
    missing = [name for name in names if name not in values]
    require(
        not missing,
        f"hidden of {model.name} does not pass {', '.join(missing)} to its hook: pass them, or change `activations`",
    )
    return values


def device_of(parameters: Parameters) -> torch.device:
    """Return where the parameters are."""
    return next(iter(parameters.values())).device


def names_of_role(model: Model, role: str) -> list[str]:
    """Return the names of the parameters with this role."""
    dims = ModelDims(3, 3)  # names and roles do not depend on them
    return [name for name, spec in model.specs(dims).items() if spec.role == role]


def parameter_of_role(model: Model, parameters: Parameters, role: str) -> Tensor:
    """Return the model's only parameter with this role."""
    names = names_of_role(model, role)
    require(len(names) == 1, f"{model.name} must have one parameter with the role '{role}', has {len(names)}")
    return parameters[names[0]]


def settings_of_model(model_class: type[Model]) -> list[str]:
    """Return the names of the fields that the constructor takes."""
    return [field.name for field in model_fields(model_class)]


def model_fields(model_class: type[Model]) -> list[dataclasses.Field]:
    """Return the fields that the constructor takes."""
    return [field for field in dataclasses.fields(cast(Any, model_class)) if field.init]


def initialize(model: Model, dims: ModelDims, seed: int) -> dict[str, Tensor]:
    """Return the initial parameters of a seed, on the CPU."""
    return model.initial_parameters(dims, seed)


def initial_value(spec: ParameterSpec, name: str, seed: int) -> Tensor:
    value = spec.initializer(spec.shape, make_generator(seed, "init", name))
    is_right = isinstance(value, Tensor) and tuple(value.shape) == spec.shape and value.dtype == torch.float32
    require(is_right, f"the initializer of {name} must return a float32 tensor of shape {spec.shape}")
    return value


# Methods that a subclass may override and still compute the same logits from the same parameters.
NOT_FORWARD = ("specs", "engine", "decoder", "to_huggingface", "trace", "activations", "streams", "state_size")


def same_forward_pass(model: Model, other: type[Model]) -> bool:
    """Tell whether `model` has the forward pass of `other`.

    It is that class, or a subclass that overrides no method of the forward pass and has parameters of the same names,
    shapes and roles.
    """
    made = type(model)
    if made is other or not issubclass(made, other):
        return made is other
    methods = [
        name
        for each in (other, Model)
        for name, value in vars(each).items()
        if not name.startswith("__") and (inspect.isfunction(value) or isinstance(value, property))
    ]
    if any(getattr(made, name) is not getattr(other, name) for name in methods if name not in NOT_FORWARD):
        return False
    dims = ModelDims(3, 3)
    plain = other(**{name: getattr(model, name) for name in settings_of_model(other)})
    shapes = [{name: (spec.shape, spec.role) for name, spec in each.specs(dims).items()} for each in (model, plain)]
    return shapes[0] == shapes[1]


def count_parameters(model: Model, dims: ModelDims) -> dict[str, int]:
    """Return the number of parameters per role."""
    counts = dict.fromkeys(model.roles, 0)
    for spec in model.specs(dims).values():
        counts[spec.role.split("/")[0]] += spec.size
    return counts


MOST = {"layers": 1_000, "width": 2**20}  # larger models run out of memory, after a long wait


def require_size(name: str, value: int, least: int = 1) -> None:
    require(type(value) is int, f"{name} must be a whole number, got {value!r}")
    require(value >= least, f"{name} must be at least {least}, got {value}")
    require(value <= MOST.get(name, value), f"{name} must be at most {MOST.get(name, value):,}, got {value:,}")
