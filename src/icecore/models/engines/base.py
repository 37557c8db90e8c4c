"""The protocol between models and training: prepare batches, and compute logits from them.

engine = model.engine                                  # a class
batches = engine.prepare(Batches(...))                 # many steps at once
network = engine(model, parameters, dtype)             # bound to the stacked parameters of some seeds
network.logits(batches.step(0).inputs)                 # (seed, query, vocab), at the scored positions only
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from icecore.models.base import Model
from icecore.models.engines.shape_buckets import ShapeBuckets

Bound = TypeVar("Bound", bound=Model)


@dataclass(frozen=True)
class Batches:
    """Consecutive steps of one batch size, as the task makes them."""

    tokens: Int64[Tensor, "step batch seq"]
    targets: Int64[Tensor, "step batch seq"]
    scored: Bool[Tensor, "step batch seq"]
    vocab_size: int
    target_log_probs: Float[Tensor, "step batch vocab"] | None = None

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Targets:
    """Targets of one step in the order of the logits, or of many steps with a leading step axis."""

    flat_indices: Int64[Tensor, "*step query"]  # into the flattened batch, or into all flattened steps
    tokens: Int64[Tensor, "*step query"]
    weight: Float[Tensor, "*step query"]  # 0 where nothing is scored
    log_probs: Float[Tensor, "*step query vocab"] | None = None  # a distribution to imitate instead of the tokens

    @staticmethod
    def at(
        flat_indices: Int64[Tensor, "step query"], weight: Float[Tensor, "step query"], batches: Batches
    ) -> "Targets":
        """Gather the targets of all steps; `flat_indices` index all flattened steps."""
        log_probs = batches.target_log_probs
        if log_probs is not None:
            log_probs = log_probs.flatten(0, 1)[flat_indices // batches.tokens.shape[2]]
        return Targets(flat_indices, batches.targets.flatten()[flat_indices], weight, log_probs)

    def step(self, index: int) -> "Targets":
        log_probs = None if self.log_probs is None else self.log_probs[index]
        return Targets(self.flat_indices[index], self.tokens[index], self.weight[index], log_probs)

    def read(self) -> list[Tensor]:
        """Return the tensors that a captured step reads, except the weight, which the inputs hold."""
        return [self.tokens] if self.log_probs is None else [self.tokens, self.log_probs]


class Inputs(Protocol):
    """Network inputs of one step. Only a `capturable` engine needs all of these members."""

    @property
    def weight(self) -> Float[Tensor, " query"]: ...

    def read(self) -> list[Tensor]:
        """Return the tensors that a captured step reads."""
        ...

    def fixed(self) -> "Inputs":
        """Clone into static buffers for CUDA-graph capture."""
        ...

    def size(self) -> tuple[object, ...]:
        """Return a key: steps with equal keys replay the same graph."""
        ...


@dataclass(frozen=True)
class ModelBatch:
    """One prepared step: the network's inputs and targets."""

    inputs: Any
    targets: Targets


@runtime_checkable
class ModelBatches(Protocol):
    """Consecutive prepared steps."""

    def __len__(self) -> int: ...

    def step(self, index: int) -> ModelBatch: ...


class Engine(abc.ABC, Generic[Bound]):
    """Computes several seeds of a model at once, at scored positions only.

    `parameters` have a leading seed axis; trained ones require gradients. `dtype` is the type to compute in.
    """

    precisions: ClassVar[tuple[str, ...]] = ("fp32", "tf32")  # models as written compute in float32
    capturable: ClassVar[bool] = False  # whether a CUDA graph can replay its steps
    unembedding: ClassVar[str | None] = None  # the parameter U, if logits are hidden @ U.T: enables the chunked loss

    def __init__(self, model: Bound, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self.model, self.parameters, self.dtype = model, parameters, dtype

    @classmethod
    @abc.abstractmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> ModelBatches:
        """Prepare many steps at once; with `buckets`, shapes are rounded up so that they repeat."""

    @classmethod
    def computes_rounded(cls, _name: str, /) -> bool:
        """Tell whether a trained parameter is used in the engine's dtype; training then keeps a rounded copy."""
        return False

    @abc.abstractmethod
    def logits(self, inputs: Any) -> Float[Tensor, "seed query vocab"]:
        """Return the logits at the scored positions."""

    def hidden(self, inputs: Any) -> Float[Tensor, "seed query width"]:
        """Return the unembedding's input at the scored positions; required if `unembedding` is set."""
        raise NotImplementedError(f"{type(self).__name__} sets unembedding, so it must define hidden")

    def hidden_products(self, _tokens: int, /) -> dict[tuple[int, int, int], int]:
        """Count matrix products (rows, inner, columns) per seed and step that library calls hide from the benchmark."""
        return {}

    def reload(self) -> None:
        """Clear what was computed from frozen parameters, after they have changed."""

    @property
    def seeds(self) -> int:
        return len(next(iter(self.parameters.values())))

    def parameters_of(self, index: int) -> dict[str, Tensor]:
        """Return the parameters of one seed."""
        return {name: value[index] for name, value in self.parameters.items()}
