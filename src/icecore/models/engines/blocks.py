"""The engine of Llama, linear attention and DeltaNet: each distinct prefix is computed once. Exact.

Linear maps and norms run on nodes (`prefix_index`), those of the first block's mixer on rows. In the last block only
what later tokens read, such as keys and values, runs on all nodes, all else on scored positions. Tensors are (seed,
node, channel).
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.blocks import NORM_EPSILON, GatedBlocks
from icecore.models.engines.base import Batches, Engine
from icecore.models.engines.fused import Adjoin, Asking, Nodes, Outputs
from icecore.models.engines.layers import gather, plain_linear, select
from icecore.models.engines.prefix_index import PrefixIndex
from icecore.models.engines.prefixes import PrefixBatches
from icecore.models.engines.shape_buckets import ShapeBuckets


class Weights:
    """Weights of the body in the type to compute in, those of several maps joined; frozen ones are converted once."""

    def __init__(self, parameters: Parameters, dtype: torch.dtype) -> None:
        self.parameters, self.dtype = parameters, dtype
        self.frozen: dict[str, Tensor | None] = {}

    def linear(self, x: Nodes, block: str, *parts: str) -> tuple[Tensor, ...]:
        """Return the outputs of several maps of x, as one product."""
        names = [f"{block}.{part}.weight" for part in parts]
        values = [self.parameters[name] for name in names]
        key = "+".join(names)
        if any(value.requires_grad for value in values):
            whole = self.joined(values)
        else:
            whole = self.frozen.get(key)
            if whole is None:
                with torch.no_grad():
                    whole = self.frozen[key] = self.joined(values)
        return plain_linear(x, whole, None).split([value.shape[1] for value in values], dim=-1)

    def joined(self, values: list[Tensor]) -> Float[Tensor, "seed output input"]:
        return (values[0] if len(values) == 1 else Adjoin.apply(*values)).to(self.dtype)

    def norm(self, x: Nodes, name: str, dtype: torch.dtype, epsilon: float = NORM_EPSILON) -> Nodes:
        """Return the RMSNorm of x; a frozen weight of ones is skipped."""
        weight = self.parameters[f"{name}.weight"]
        if not weight.requires_grad:
            if name not in self.frozen:
                self.frozen[name] = None if bool((weight == 1).all()) else weight
            weight = self.frozen[name]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        y = RootMeanSquareNorm.apply(wide, epsilon)
        return (y if weight is None else y * weight[:, None]).to(dtype)


class RootMeanSquareNorm(torch.autograd.Function):
    """x / sqrt(mean of x^2 + epsilon); backward needs the output and one number per row."""

    @staticmethod
    def forward(ctx, x, epsilon: float):
        mean = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1])
        scale = mean.add_(epsilon).rsqrt_()
        y = x * scale
        ctx.save_for_backward(y, scale)
        return y

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        y, scale = ctx.saved_tensors
        along = torch.linalg.vecdot(gradient, y).div_(y.shape[-1]).unsqueeze(-1)
        return (gradient - y * along).mul_(scale), None


class GatedProduct(torch.autograd.Function):
    """silu(gate) * inner, without keeping silu(gate): these are a step's largest tensors."""

    @staticmethod
    def forward(ctx, gate, inner):
        ctx.save_for_backward(gate, inner)
        return F.silu(gate).mul_(inner)

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        gate, inner = ctx.saved_tensors
        by_inner = F.silu(gate).mul_(gradient)
        return torch.ops.aten.silu_backward(gradient * inner, gate), by_inner


class BlocksEngine(Engine[GatedBlocks]):
    """A subclass mixes the tokens of one body."""

    precisions: ClassVar[tuple[str, ...]] = ("fp32", "tf32", "bf16")
    capturable: ClassVar[bool] = True
    unembedding: ClassVar[str | None] = "unembed"

    def __init__(self, model: GatedBlocks, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        super().__init__(model, parameters, dtype)
        self.weights = Weights(parameters, dtype)

    @classmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> PrefixBatches:
        return PrefixBatches(batches, buckets)

    @classmethod
    def computes_rounded(cls, name: str, /) -> bool:
        return name.startswith("block") and name.endswith(".weight") and "norm" not in name

    def reload(self) -> None:
        self.weights.frozen.clear()

    def logits(self, inputs: PrefixIndex) -> Float[Tensor, "seed query vocab"]:
        unembed = self.parameters["unembed"]
        return self.hidden(inputs).to(unembed.dtype) @ unembed.transpose(1, 2)

    def mix(self, block: str, x: Nodes, asking: Asking, index: PrefixIndex, rows: bool, scored: bool) -> Outputs:
        """Return the mixer's output before its last map, at every node or at scored positions.

        `x` is the mixer's input on rows or on nodes, `asking` that of the outputs: x itself, or at scored positions.
        """
        raise NotImplementedError

    def hidden(self, inputs: PrefixIndex) -> Float[Tensor, "seed query width"]:
        parameters, weights, dtype, index = self.parameters, self.weights, self.dtype, inputs
        rows = select(parameters["token"], index.row_tokens)
        if "position" in parameters:
            rows = rows + select(parameters["position"], index.row_columns)
        stream = gather(rows, index.row_of_node, index.nodes_by_row, dtype) if index.has_rows else rows.to(dtype)
        for layer in range(self.model.layers):
            block, is_first, is_last = f"block{layer}", layer == 0, layer == self.model.layers - 1
            on_rows = is_first and index.has_rows
            x = asking = weights.norm(rows if is_first else stream, f"{block}.mixer_norm", dtype)
            if is_last:
                asking = select(x, index.row_of_node[index.scored_node] if on_rows else index.scored_node)
                stream = select(stream, index.scored_node)
            mixed = self.mix(block, x, asking, index, on_rows, is_last)
            stream = stream + weights.linear(mixed, block, "out")[0]
            gate, inner = weights.linear(weights.norm(stream, f"{block}.mlp_norm", dtype), block, "mlp_gate", "mlp_in")
            stream = stream + weights.linear(GatedProduct.apply(gate, inner), block, "mlp_out")[0]
        return weights.norm(stream, "final_norm", parameters["unembed"].dtype)
