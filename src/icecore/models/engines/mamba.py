"""Mamba's engine: tokens packed by time, so that nothing is padded, and a scan that keeps few states. Exact.

Without learned positions the first block's norm and first map run on the vocabulary. In the last block the gate and
the last map run on scored positions only. Tensors are (seed, token, channel), by time (`recurrent.TimeMajorTokens`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.models.engines.base import Batches, Engine, ModelBatch
from icecore.models.engines.blocks import GatedProduct, Weights
from icecore.models.engines.devices import has_kernels
from icecore.models.engines.fused import Nodes
from icecore.models.engines.layers import select
from icecore.models.engines.recurrent import TimeMajorBatches, TimeMajorTokens
from icecore.models.engines.scan import Convolution, FusedScan, Scan, Times
from icecore.models.engines.shape_buckets import ShapeBuckets
from icecore.models.mamba import NORM_EPSILON, Mamba


@dataclass(frozen=True)
class MambaTokens:
    """The tokens of one step, with their places: a captured step reads both, so both live as long as its graph."""

    packed: TimeMajorTokens
    times: Times

    @property
    def weight(self) -> Float[Tensor, " query"]:
        return self.packed.weight

    def read(self) -> list[Tensor]:
        """Return the tensors that change from step to step."""
        return self.packed.read()

    def fixed(self) -> "MambaTokens":
        """Clone into static buffers for CUDA-graph capture; steps of one size have the same places."""
        return MambaTokens(self.packed.fixed(), self.times)

    def size(self) -> tuple[object, ...]:
        """Return a key: steps with equal keys replay the same graph."""
        return self.packed.size()


class MambaBatches:
    """Steps packed by time; with buckets, all have one size and share their places."""

    def __init__(self, batches: Batches, buckets: ShapeBuckets | None) -> None:
        self.by_time = TimeMajorBatches(batches, buckets)
        packed = self.by_time.packed
        self.times = None if packed is None else Times.of(packed[0].batch_sizes, batches.tokens.device)

    def __len__(self) -> int:
        return len(self.by_time)

    def step(self, index: int) -> ModelBatch:
        batch = self.by_time.step(index)
        packed: TimeMajorTokens = batch.inputs
        times = self.times or Times.of(packed.batch_sizes, packed.tokens.device)
        return ModelBatch(MambaTokens(packed, times), batch.targets)


class MambaEngine(Engine[Mamba]):
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "tf32", "bf16")
    capturable: ClassVar[bool] = True
    unembedding: ClassVar[str | None] = "unembed"

    def __init__(self, model: Mamba, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        super().__init__(model, parameters, dtype)
        self.weights = Weights(parameters, dtype)

    @classmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> MambaBatches:
        return MambaBatches(batches, buckets)

    @classmethod
    def computes_rounded(cls, name: str, /) -> bool:
        return name.endswith((".in.weight", ".select.weight", ".step.weight", ".out.weight"))

    def reload(self) -> None:
        self.weights.frozen.clear()

    def logits(self, inputs: MambaTokens) -> Float[Tensor, "seed query vocab"]:
        unembed = self.parameters["unembed"]
        return self.hidden(inputs).to(unembed.dtype) @ unembed.transpose(1, 2)

    def hidden(self, inputs: MambaTokens) -> Float[Tensor, "seed query width"]:
        parameters, weights, dtype, times = self.parameters, self.weights, self.dtype, inputs.times
        token, tokens, scored = parameters["token"], inputs.packed.tokens.int(), inputs.packed.scored.int()
        stream = select(token, tokens).to(dtype)
        if "position" in parameters:
            stream = stream + select(parameters["position"], times.column.int()).to(dtype)
        has_rows = "position" not in parameters and token.shape[1] < len(tokens)
        for layer in range(self.model.layers):
            block, is_last = f"block{layer}", layer == self.model.layers - 1
            rows = layer == 0 and has_rows
            x = weights.norm(token if rows else stream, f"{block}.norm", dtype, NORM_EPSILON)
            both = weights.linear(x, block, "in")[0]
            both = select(both, tokens) if rows else both
            entering, gate = both.chunk(2, dim=-1)
            mixed = self.scan(block, entering, times)
            if is_last:
                mixed, gate, stream = (select(each.contiguous(), scored) for each in (mixed, gate, stream))
            stream = stream + weights.linear(GatedProduct.apply(gate, mixed), block, "out")[0]
        return weights.norm(stream, "final_norm", parameters["unembed"].dtype, NORM_EPSILON)

    def scan(self, block: str, entering: Nodes, times: Times) -> Nodes:
        """Return the output of convolution and state space, before the gate."""
        parameters, model, linear = self.parameters, self.model, self.weights.linear
        kernel, bias = (parameters[f"{block}.convolution.{kind}"] for kind in ("weight", "bias"))
        x = F.silu(Convolution.apply(entering, kernel.to(self.dtype), bias.to(self.dtype), times))
        step, written, read = linear(x, block, "select")[0].split([model.rank, model.state, model.state], dim=-1)
        step, bias, skip = linear(step, block, "step")[0], parameters[f"{block}.step.bias"], parameters[f"{block}.skip"]
        rate = -parameters[f"{block}.log_decay"].exp()
        written, read = written.to(rate.dtype), read.to(rate.dtype)
        if has_kernels(x):
            return FusedScan.apply(x, step, bias, rate, skip, written, read, times)
        step = F.softplus(step.to(bias.dtype) + bias[:, None])
        output = Scan.apply(step * x, step, rate, written, read, times.sizes)
        return (output + skip[:, None] * x).to(self.dtype)
