"""The textbook LSTM between an embedding and an output layer with a bias."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from icecore.models.base import Model, Parameters, Sizes, Spec, require_size
from icecore.models.packing import at_scored, slots_of_scored


@dataclass(frozen=True)
class LSTM(Model):
    """A recurrent network; it has no positions, and its body is one role, `recurrent`.

    Initialized as PyTorch does it, which is what the released scripts use: embeddings N(0, 1), all else
    uniform within 1 / sqrt(width).
    """

    width: int = 1024
    layers: int = 2

    name: ClassVar[str] = "lstm"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed", "recurrent")
    vectorizes: ClassVar[bool] = False  # the fused kernel knows one network

    def __post_init__(self) -> None:
        require_size("width", self.width)
        require_size("layers", self.layers)

    def specs(self, sizes: Sizes) -> dict[str, Spec]:
        width, bound = self.width, 1 / math.sqrt(self.width)
        specs = {
            "token": Spec((sizes.vocab_size, width), "token", 1.0),
            "unembed": Spec((sizes.vocab_size, width), "unembed", bound, "uniform"),
            "unembed_bias": Spec((sizes.vocab_size,), "unembed", bound, "uniform"),
        }
        for layer in range(self.layers):
            for part in ("input", "hidden"):
                specs[f"layer{layer}.{part}.weight"] = Spec((4 * width, width), "recurrent", bound, "uniform")
            for part in ("input", "hidden"):
                specs[f"layer{layer}.{part}.bias"] = Spec((4 * width,), "recurrent", bound, "uniform")
        return specs

    def weights(self, parameters: Parameters) -> list[Tensor]:
        """The body in the order of PyTorch's kernel."""
        return [
            parameters[f"layer{layer}.{part}"]
            for layer in range(self.layers)
            for part in ("input.weight", "hidden.weight", "input.bias", "hidden.bias")
        ]

    def hidden(self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch seq width"]:
        embedded = parameters["token"][tokens]
        start = embedded.new_zeros(self.layers, len(tokens), self.width)
        with warnings.catch_warnings():
            # cuDNN copies the weights into one block at every call, and says so; the packed twin spares it that.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
            output, _, _ = torch.lstm(
                embedded,
                (start, start),
                self.weights(parameters),
                has_biases=True,
                num_layers=self.layers,
                dropout=0.0,
                train=torch.is_grad_enabled(),
                bidirectional=False,
                batch_first=True,
            )
        return output

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T + parameters["unembed_bias"]


@dataclass(frozen=True)
class PackedSequences:
    """The tokens of a batch, the longest sequences first, all first tokens before all second ones.

    Of one step, or of many with one more axis in front. Sequences may go on after what is read of them.
    """

    tokens: Int64[Tensor, "*step token"]
    scored: Int64[Tensor, "*step query"]  # places among the tokens
    weight: Float[Tensor, "*step query"]  # 0 where nothing is scored
    batch_sizes: tuple[int, ...]  # how many sequences have a token at each time

    def step(self, index: int) -> "PackedSequences":
        return PackedSequences(self.tokens[index], self.scored[index], self.weight[index], self.batch_sizes)

    def read(self) -> list[Tensor]:
        """What a step reads on the device."""
        return [self.tokens, self.scored, self.weight]

    def fixed(self) -> "PackedSequences":
        """A copy, which stays where it is."""
        return PackedSequences(self.tokens.clone(), self.scored.clone(), self.weight.clone(), self.batch_sizes)

    def size(self) -> tuple[object, ...]:
        """Steps of equal size can be computed by the same graph."""
        return self.batch_sizes, *(tuple(part.shape) for part in self.read())


def reached(scored: Bool[Tensor, "step batch length"]) -> Int64[Tensor, "step time"]:
    """How many sequences are read up to each time or further, on the CPU."""
    last_read = scored.flip(2).long().cumsum(dim=2).flip(2)
    return (last_read > 0).sum(dim=1).cpu()


def pack_sequences(
    tokens: Int64[Tensor, "step batch length"],
    scored: Bool[Tensor, "step batch length"],
    batch_sizes: Int64[Tensor, " time"],
) -> tuple[PackedSequences, Int64[Tensor, "step query"]]:
    """The packed sequences of many steps, and where in its flattened batch each scored position is.

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
    packed = PackedSequences(
        by_time[:, has_token],
        among_tokens.long(),
        weight.float(),
        tuple(size for size in batch_sizes.tolist() if size > 0),
    )
    return packed, places.long()


def packed_logits(
    model: LSTM, embeddings: Parameters, weights: Sequence[Tensor], packed: PackedSequences
) -> Float[Tensor, "query vocab"]:
    """Logits at the scored positions, row by row, of the tokens that exist alone; the twin of `logits`.

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
    """The weights, copied to where cuDNN wants them and in its precision."""

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
    """Room for the weights as cuDNN lays them out: views of one block."""
    block = [torch.empty_like(weight, dtype=dtype, memory_format=torch.contiguous_format) for weight in like]
    kind = 2  # cuDNN's number of the LSTM
    with torch.no_grad():
        torch._cudnn_rnn_flatten_weight(  # pyright: ignore[reportPrivateImportUsage]
            block, 4, model.width, kind, model.width, 0, model.layers, False, False
        )
    return block
