"""What every model is: named parameters, each with a role, and a pure function of them."""

import abc
import dataclasses
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require, require_choices
from icecore.seeding import make_generator

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class Sizes:
    """What a model must know of its task: the number of tokens, and how many positions it can tell apart."""

    vocab_size: int
    positions: int


@dataclass(frozen=True)
class Spec:
    """One parameter: its shape, what it is for, and how it begins."""

    shape: tuple[int, ...]
    role: str  # a role of `Model.roles`; a finer part of one follows a slash, as in attention/q
    scale: float = 0.0  # standard deviation, or bound of the uniform distribution; 0: constant
    # orthogonal: rows or columns are; sinusoidal: a row is a position, the same for every seed
    distribution: Literal["normal", "uniform", "orthogonal", "sinusoidal"] = "normal"
    constant: float = 0.0

    def __post_init__(self) -> None:
        require_choices(self)
        require(
            math.isfinite(self.scale) and self.scale >= 0,
            f"a Spec's scale must be a finite number of at least 0, got {self.scale}",
        )
        require(
            self.distribution in ("normal", "uniform") or len(self.shape) == 2,
            f"a Spec that is {self.distribution} must be of a matrix, got the shape {self.shape}",
        )

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def decays(self) -> bool:
        """Weight decay is for matrices: not for biases, nor for anything of a norm."""
        return len(self.shape) > 1


@dataclass(frozen=True)
class Positions:
    """The (row, column) places of a batch at which logits are wanted."""

    rows: Int64[Tensor, " places"]
    columns: Int64[Tensor, " places"]


class Model(abc.ABC):
    """A kind of network, as a frozen dataclass of its sizes. Its parameters are a dict, apart from it.

    It is written for one network. A population stacks the parameters of many; see `training.population`.
    """

    name: ClassVar[str]
    roles: ClassVar[tuple[str, ...]]
    vectorizes: ClassVar[bool] = True  # whether torch.func.vmap can run many at once
    source_file: ClassVar[str | None] = None  # of a user's model, the file that it was loaded from,
    source_text: ClassVar[str | None] = None  # and what that held
    width: int

    def __init_subclass__(cls, **settings: Any) -> None:
        """A class made from a user's in Python is not what the file holds."""
        super().__init_subclass__(**settings)
        cls.source_file = cls.source_text = None

    @property
    def unread_roles(self) -> tuple[str, ...]:
        """Roles whose parameters, with these settings, are there and do nothing."""
        return ()

    @abc.abstractmethod
    def specs(self, sizes: Sizes) -> dict[str, Spec]:
        """Every parameter, by name."""

    @abc.abstractmethod
    def hidden(self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch seq width"]:
        """What the unembedding reads."""

    @abc.abstractmethod
    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        """Logits from what `hidden` gives."""

    def logits(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], at: Positions | None = None
    ) -> Float[Tensor, "*places vocab"]:
        """Logits at every position, or at those of `at` alone."""
        hidden = self.hidden(parameters, tokens)
        return self.unembed(parameters, hidden if at is None else hidden[at.rows, at.columns])


def settings_of_model(model_class: type[Model]) -> list[str]:
    """The names of the dataclass's fields that it is made with."""
    return [field.name for field in model_fields(model_class)]


def model_fields(model_class: type[Model]) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(cast(Any, model_class)) if field.init]


def initialize(model: Model, sizes: Sizes, seed: int) -> dict[str, Tensor]:
    """The initial parameters of a seed, on the CPU: each parameter has a stream of its own."""
    return {name: initial_value(spec, name, seed) for name, spec in model.specs(sizes).items()}


def initial_value(spec: Spec, name: str, seed: int) -> Tensor:
    value = torch.empty(spec.shape)
    generator = make_generator(seed, "init", name)
    if spec.scale == 0:
        return value.fill_(spec.constant)
    if spec.distribution == "uniform":
        return value.uniform_(-spec.scale, spec.scale, generator=generator)
    if spec.distribution == "orthogonal":
        return orthogonal(value.normal_(generator=generator)) * spec.scale
    if spec.distribution == "sinusoidal":
        return sinusoids(*spec.shape) * spec.scale
    return value.normal_(0, spec.scale, generator=generator)


def orthogonal(normal: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    """From independent normal values an evenly distributed matrix of orthogonal rows or columns, of variance 1 too."""
    q, r = torch.linalg.qr(normal if normal.shape[0] >= normal.shape[1] else normal.T)
    q = q * r.diagonal().sign() * math.sqrt(len(q))
    return q if q.shape == normal.shape else q.T.contiguous()


def sinusoids(positions: int, width: int) -> Float[Tensor, "position width"]:
    """Position embeddings: column 2k is sin(position / 10000^(2k / width)), column 2k + 1 the cosine of the same.

    SOURCE: Vaswani et al. 2017, section 3.5. In float64, so that what is rounded to float32 has the same bits on
    processors that differ in the last digits of a sine.
    """
    column = torch.arange(width)
    rate = 10_000.0 ** (-(column - column % 2).double() / width)
    angle = torch.arange(positions).double()[:, None] * rate
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()


def computes_as(model: Model, other: type[Model]) -> bool:
    """Whether it computes as that class does: it is of it, or of a subclass that changes alone how parameters begin."""
    made = type(model)
    if made is other or not issubclass(made, other):
        return made is other
    methods = [
        name
        for each in (other, Model)
        for name, value in vars(each).items()
        if not name.startswith("__") and (inspect.isfunction(value) or isinstance(value, property))
    ]
    if any(getattr(made, name) is not getattr(other, name) for name in methods if name != "specs"):
        return False
    sizes = Sizes(3, 3)
    plain = other(**{name: getattr(model, name) for name in settings_of_model(other)})
    shapes = [{name: (spec.shape, spec.role) for name, spec in each.specs(sizes).items()} for each in (model, plain)]
    return shapes[0] == shapes[1]


def count_parameters(model: Model, sizes: Sizes) -> dict[str, int]:
    """How many parameters each role has."""
    counts = dict.fromkeys(model.roles, 0)
    for spec in model.specs(sizes).values():
        counts[spec.role.split("/")[0]] += spec.size
    return counts


MOST = {"layers": 1_000, "width": 2**20}  # beyond these there is no memory, and much waiting before that is found


def require_size(name: str, value: int, least: int = 1) -> None:
    require(type(value) is int, f"{name} must be a whole number, got {value!r}")
    require(value >= least, f"{name} must be at least {least}, got {value}")
    require(value <= MOST.get(name, value), f"{name} must be at most {MOST.get(name, value):,}, got {value:,}")
