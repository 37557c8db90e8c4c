"""The engine of LSTM and GRU: sequences packed by time, so that the fused kernel skips padding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.engines.base import Batches, Engine, ModelBatch, Targets
from icecore.models.engines.prefix_index import at_scored, slots_of_scored
from icecore.models.engines.shape_buckets import ShapeBuckets
from icecore.models.gru import GRU
from icecore.models.lstm import LSTM

CUDNN_KIND = {LSTM: 2, GRU: 3}  # cuDNN's codes


class RecurrentEngine(Engine[LSTM | GRU]):
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "tf32", "bf16")
    capturable: ClassVar[bool] = True

    def __init__(self, model: LSTM | GRU, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        super().__init__(model, parameters, dtype)
        self.blocks: list[list[Tensor]] | None = None  # each seed's weights in cuDNN's layout

    @classmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> "TimeMajorBatches":
        return TimeMajorBatches(batches, buckets)

    def logits(self, inputs: "TimeMajorTokens") -> Float[Tensor, "seed query vocab"]:
        return torch.stack(list(self.logits_by_seed(inputs)))

    def logits_by_seed(self, inputs: "TimeMajorTokens") -> Iterator[Float[Tensor, "query vocab"]]:
        """Run seed by seed: the fused kernel takes one network."""
        for index in range(self.seeds):
            parameters = self.parameters_of(index)
            weights = self.model.weights(parameters)
            if weights[0].device.type == "cuda":
                if self.blocks is None:
                    self.blocks = [block_for(self.model, weights, self.dtype) for _ in range(self.seeds)]
                weights = InOneBlock.apply(self.blocks[index], *weights)
            yield time_major_logits(self.model, parameters, weights, inputs)

    def hidden_products(self, tokens: int, /) -> dict[tuple[int, int, int], int]:
        """Count products of inputs and of states with their weights: forward and both gradients, in every layer."""
        width, gates = self.model.width, gates_of(self.model)
        return {(tokens, width, gates * width): self.model.layers * 2 * 3}


def gates_of(model: LSTM | GRU) -> int:
    return 4 if isinstance(model, LSTM) else 3


class TimeMajorBatches:
    """Steps packed all at once in one size or, without buckets, one by one in their own sizes."""

    def __init__(self, batches: Batches, buckets: ShapeBuckets | None) -> None:
        self.batches, self.needed = batches, reached(batches.scored)
        self.packed = None
        if buckets is not None:
            rows = batches.tokens.shape[1]
            self.packed = self.pack(0, len(self), buckets.of_times(self.needed, rows))

    def pack(self, begin: int, end: int, batch_sizes: Int64[Tensor, " time"]) -> tuple["TimeMajorTokens", Targets]:
        batches = self.batches
        packed, flat = pack_by_time(batches.tokens[begin:end], batches.scored[begin:end], batch_sizes)
        before = torch.arange(begin, end, device=flat.device)[:, None] * batches.tokens[0].numel()
        return packed, Targets.at(flat + before, packed.weight, batches)

    def __len__(self) -> int:
        return len(self.batches)

    def step(self, index: int) -> ModelBatch:
        if self.packed is None:
            packed, targets = self.pack(index, index + 1, self.needed[index])
            return ModelBatch(packed.step(0), targets.step(0))
        packed, targets = self.packed
        return ModelBatch(packed.step(index), targets.step(index))


@dataclass(frozen=True)
class TimeMajorTokens:
    """The tokens of a batch by time: all first tokens, then all second ones; the longest sequences come first.

    One step, or many with a leading step axis. Sequences may continue after the last token read.
    """

    tokens: Int64[Tensor, "*step token"]
    scored: Int64[Tensor, "*step query"]  # indices into the tokens
    weight: Float[Tensor, "*step query"]  # 0 where nothing is scored
    batch_sizes: tuple[int, ...]  # how many sequences have a token at each time

    def step(self, index: int) -> "TimeMajorTokens":
        return TimeMajorTokens(self.tokens[index], self.scored[index], self.weight[index], self.batch_sizes)

    def read(self) -> list[Tensor]:
        """Return the tensors that a captured step reads."""
        return [self.tokens, self.scored, self.weight]

    def fixed(self) -> "TimeMajorTokens":
        """Clone into static buffers for CUDA-graph capture."""
        return TimeMajorTokens(self.tokens.clone(), self.scored.clone(), self.weight.clone(), self.batch_sizes)

    def size(self) -> tuple[object, ...]:
        """Return a key: steps with equal keys replay the same graph."""
        return self.batch_sizes, *(tuple(part.shape) for part in self.read())


def reached(scored: Bool[Tensor, "step batch length"]) -> Int64[Tensor, "step time"]:
    """Count the sequences that are read up to each time or further; the result is on the CPU."""
    last_read = scored.flip(2).long().cumsum(dim=2).flip(2)
    return (last_read > 0).sum(dim=1).cpu()


def pack_by_time(
    tokens: Int64[Tensor, "step batch length"],
    scored: Bool[Tensor, "step batch length"],
    batch_sizes: Int64[Tensor, " time"],
) -> tuple[TimeMajorTokens, Int64[Tensor, "step query"]]:
    """Pack many steps; also return the scored positions' indices into their flattened batches.

    `batch_sizes` are at least those `reached` in each step.
    """
    batch, length = tokens.shape[1:]
    device, slots = tokens.device, int(scored.sum(dim=2).max())
    column = torch.arange(length, device=device)
    lengths = (scored * (column + 1)).amax(dim=2)
    order = lengths.argsort(dim=1, descending=True, stable=True)
    rank = order.argsort(dim=1)
    by_time = tokens.gather(1, order[..., None].expand_as(tokens)).transpose(1, 2)
    begin = (batch_sizes.cumsum(dim=0) - batch_sizes).to(device)
    slot = slots_of_scored(scored, slots)
    in_batch = torch.arange(batch * length, device=device).view(1, batch, length).expand_as(tokens)
    places, among_tokens, weight = (
        at_scored(values.to(torch.int32), slot, slots)
        for values in (in_batch, begin + rank[..., None], torch.ones_like(tokens))
    )
    has_token = torch.arange(batch, device=device) < batch_sizes.to(device)[:, None]
    packed = TimeMajorTokens(
        by_time[:, has_token],
        among_tokens.long(),
        weight.float(),
        tuple(size for size in batch_sizes.tolist() if size > 0),
    )
    return packed, places.long()


def time_major_logits(
    model: LSTM | GRU, embeddings: Parameters, weights: Sequence[Tensor], packed: TimeMajorTokens
) -> Float[Tensor, "query vocab"]:
    """Return the logits at the scored positions, row by row.

    `weights` are in the precision to compute in and, on a GPU, in one block of memory (`InOneBlock`).
    """
    embedded = F.embedding(packed.tokens, embeddings["token"])
    if "position" in embeddings:
        here = zip(embeddings["position"], packed.batch_sizes, strict=False)
        embedded = embedded + torch.cat([row.expand(size, -1) for row, size in here])
    embedded = embedded.to(weights[0].dtype)
    start = embedded.new_zeros(model.layers, packed.batch_sizes[0], model.width)
    sizes, settings = torch.tensor(packed.batch_sizes), (True, model.layers, 0.0, torch.is_grad_enabled(), False)
    if isinstance(model, LSTM):
        output = torch.lstm(embedded, sizes, (start, start), list(weights), *settings)[0]
    else:
        output = torch.gru(embedded, sizes, start, list(weights), *settings)[0]
    return model.unembed(embeddings, output[packed.scored].to(embeddings["unembed"].dtype))


class InOneBlock(torch.autograd.Function):
    """Copies the weights into cuDNN's block, in its precision."""

    @staticmethod
    def forward(ctx, block: Sequence[Tensor], *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = weights[0].dtype
        for place, weight in zip(block, weights, strict=True):
            place.copy_(weight)
        return tuple(place.detach() for place in block)

    @staticmethod
    def backward(ctx, *gradients):
        return None, *(None if gradient is None else gradient.to(ctx.dtype) for gradient in gradients)


def block_for(model: LSTM | GRU, like: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Allocate the weights in cuDNN's layout: views of one block."""
    block = [torch.empty_like(weight, dtype=dtype, memory_format=torch.contiguous_format) for weight in like]
    kind = next(code for each, code in CUDNN_KIND.items() if isinstance(model, each))
    with torch.no_grad():
        torch._cudnn_rnn_flatten_weight(  # pyright: ignore[reportPrivateImportUsage]
            block, 4, model.width, kind, model.width, 0, model.layers, False, False
        )
    return block
