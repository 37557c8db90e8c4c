"""The transformer's engine: whole windows, or each distinct prefix once."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.engines.base import Batches, Engine, ModelBatches
from icecore.models.engines.fused import Adjoin
from icecore.models.engines.prefix_index import PrefixIndex
from icecore.models.engines.prefixes import PrefixBatches, prefix_hidden
from icecore.models.engines.shape_buckets import ShapeBuckets
from icecore.models.engines.windows import SHORTEST, WindowBatches, Windows, joined_maps, window_hidden
from icecore.models.transformer import Transformer


class TransformerEngine(Engine[Transformer]):
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "tf32", "bf16")
    capturable: ClassVar[bool] = True
    unembedding: ClassVar[str | None] = "unembed"

    def __init__(self, model: Transformer, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        super().__init__(model, parameters, dtype)
        self.frozen_body: dict[str, dict[str, Tensor]] = {}  # by `joined`

    @classmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> ModelBatches:
        if batches.tokens.shape[2] >= SHORTEST and bool(batches.scored.all()):
            return WindowBatches(batches)
        return PrefixBatches(batches, buckets)

    @classmethod
    def computes_rounded(cls, name: str, /) -> bool:
        return is_of_body_type(name)

    def hidden(self, inputs: PrefixIndex | Windows) -> Float[Tensor, "seed query width"]:
        model, parameters = self.model, self.parameters
        if isinstance(inputs, PrefixIndex):
            return prefix_hidden(model, parameters, self.body("kv"), inputs, self.dtype)
        return window_hidden(model, parameters, self.body(joined_maps(model)), inputs, self.dtype)

    def logits(self, inputs: PrefixIndex | Windows) -> Float[Tensor, "seed query vocab"]:
        unembed = self.parameters["unembed"]
        return self.hidden(inputs).to(unembed.dtype) @ unembed.transpose(1, 2)

    def body(self, joined: str) -> dict[str, Tensor]:
        """Return the body's weights by the names of `units`; the frozen part is computed once."""

        def trains(names: list[str]) -> bool:
            return any(self.parameters[name].requires_grad for name in names)

        if joined not in self.frozen_body:
            with torch.no_grad():
                self.frozen_body[joined] = body_for_computing(
                    self.model, self.parameters, lambda names: not trains(names), self.dtype, joined
                )
        of_trained = body_for_computing(self.model, self.parameters, trains, self.dtype, joined)
        return self.frozen_body[joined] | of_trained

    def reload(self) -> None:
        self.frozen_body.clear()


def units(model: Transformer, joined: str) -> dict[str, list[str]]:
    """Return the units of the body, each with its parameters.

    `joined` are the attention maps computed as one product: "kv" or, if all run on the same nodes, "qkv".
    """
    made_of: dict[str, list[str]] = {"final_norm": ["final_norm"]}
    for layer in range(model.layers):
        block = f"block{layer}"
        for part in ("attention_norm", "q", "out", "mlp_norm", "mlp_in", "mlp_out"):
            if part not in joined:
                made_of[f"{block}.{part}"] = [f"{block}.{part}"]
        made_of[f"{block}.{joined}"] = [f"{block}.{part}" for part in joined]
    return made_of


def is_of_body_type(name: str) -> bool:
    """Tell whether a parameter is used in the engine's dtype: matrices and biases of blocks, not norms."""
    return name.startswith("block") and "norm" not in name


def body_for_computing(
    model: Transformer, parameters: Parameters, wanted: Callable[[list[str]], bool], dtype: torch.dtype, joined: str
) -> dict[str, Tensor]:
    """Return weights and biases, in `dtype`, of the units whose parameters are `wanted`.

    A frozen bias of zeros, or a frozen norm's weight of ones, is omitted: it has no effect.
    """
    body: dict[str, Tensor] = {}
    for unit, parts in units(model, joined).items():
        for kind in ("weight", "bias"):
            members = [f"{part}.{kind}" for part in parts]
            if not wanted(members):
                continue
            values = [parameters[name] for name in members]
            is_vector, is_frozen = values[0].ndim == 2, not any(value.requires_grad for value in values)
            neutral = 1.0 if kind == "weight" else 0.0
            if is_vector and is_frozen and all(bool((value == neutral).all()) for value in values):
                continue
            whole = values[0] if len(values) == 1 else Adjoin.apply(*values)
            body[f"{unit}.{kind}"] = whole.to(dtype) if is_of_body_type(members[0]) else whole
    return body
