"""The LSTM's engine: sequences packed by time, so that the fused kernel runs on tokens that exist alone."""

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
from icecore.models.lstm import LSTM


class LSTMEngine(Engine[LSTM]):
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "tf32", "bf16")
    capturable: ClassVar[bool] = True

    def __init__(self, model: LSTM, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        super().__init__(model, parameters, dtype)
        self.blocks: list[list[Tensor]] | None = None  # a seed's weights as cuDNN lays them out

    @classmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> "TimeMajorBatches":
        return TimeMajorBatches(batches, buckets)

    def logits(self, inputs: "TimeMajorTokens") -> Float[Tensor, "seed query vocab"]:
        return torch.stack(list(self.logits_by_seed(inputs)))

    def logits_by_seed(self, inputs: "TimeMajorTokens") -> Iterator[Float[Tensor, "query vocab"]]:
        """Run seed by seed: the fused kernel knows one network."""
        for index in range(self.seeds):
            parameters = self.parameters_of(index)
            weights = self.model.weights(parameters)
            if weights[0].device.type == "cuda":
                if self.blocks is None:
                    self.blocks = [block_for(self.model, weights, self.dtype) for _ in range(self.seeds)]
                weights = InOneBlock.apply(self.blocks[index], *weights)
            yield time_major_logits(self.model, parameters, weights, inputs)

    def hidden_products(self, tokens: int, /) -> dict[tuple[int, int, int], int]:
        """Inputs and states by their weights, forward and both gradients, in every layer."""
        width = self.model.width
        return {(tokens, width, 4 * width): self.model.layers * 2 * 3}


class TimeMajorBatches:
    """Steps of one size, packed all at once; or each of its own size, packed when it is taken."""

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
    """The tokens of a batch by time, all first tokens before all second ones, the longest sequences first.

    Of one step, or of many with one more axis in front. Sequences may continue after what is read of them.
    """

    tokens: Int64[Tensor, "*step token"]
    scored: Int64[Tensor, "*step query"]  # places among the tokens
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
    """Count the sequences that are read up to each time or further, on the CPU."""
    last_read = scored.flip(2).long().cumsum(dim=2).flip(2)
    return (last_read > 0).sum(dim=1).cpu()


def pack_by_time(
    tokens: Int64[Tensor, "step batch length"],
    scored: Bool[Tensor, "step batch length"],
    batch_sizes: Int64[Tensor, " time"],
) -> tuple[TimeMajorTokens, Int64[Tensor, "step query"]]:
    """Pack many steps, and return where in its flattened batch each scored position is.

    `batch_sizes` are at least what is `reached` in each step.
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
    model: LSTM, embeddings: Parameters, weights: Sequence[Tensor], packed: TimeMajorTokens
) -> Float[Tensor, "query vocab"]:
    """Return the logits at the scored positions, row by row.

    `weights` are in the precision to compute with, and on a GPU in one block of memory (`InOneBlock`).
    """
    embedded = F.embedding(packed.tokens, embeddings["token"]).to(weights[0].dtype)
    start = embedded.new_zeros(model.layers, packed.batch_sizes[0], model.width)
    output, _, _ = torch.lstm(
        embedded,
        torch.tensor(packed.batch_sizes),
        (start, start),
        list(weights),
        has_biases=True,
        num_layers=model.layers,
        dropout=0.0,
        train=torch.is_grad_enabled(),
        bidirectional=False,
    )
    return model.unembed(embeddings, output[packed.scored].to(embeddings["unembed"].dtype))


class InOneBlock(torch.autograd.Function):
    """Copies the weights to where cuDNN wants them, in its precision."""

    @staticmethod
    def forward(ctx, block: Sequence[Tensor], *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = weights[0].dtype
        for place, weight in zip(block, weights, strict=True):
            place.copy_(weight)
        return tuple(place.detach() for place in block)

    @staticmethod
    def backward(ctx, *gradients):
        return None, *(None if gradient is None else gradient.to(ctx.dtype) for gradient in gradients)


def block_for(model: LSTM, like: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Allocate the weights as cuDNN lays them out: views of one block."""
    block = [torch.empty_like(weight, dtype=dtype, memory_format=torch.contiguous_format) for weight in like]
    kind = 2  # cuDNN's number of the LSTM
    with torch.no_grad():
        torch._cudnn_rnn_flatten_weight(  # pyright: ignore[reportPrivateImportUsage]
            block, 4, model.width, kind, model.width, 0, model.layers, False, False
        )
    return block
