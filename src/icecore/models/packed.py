"""What the transformer's logits at scored positions are made of, and nothing else. Exact; the twin of `hidden`.

Every linear map and norm runs on nodes (`packing`), the first layer's queries, keys and values on rows; in the last
layer only keys and values run on all nodes, and everything else on scored positions. Tensors are (seed, node,
channel): parameters have a seed axis, the packing serves all seeds.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int32
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.devices import has_kernels
from icecore.models.fused import (
    Adjoin,
    Affine,
    FusedAttention,
    Gather,
    Gelu,
    Nodes,
    Norm,
    NormAndPick,
    Select,
    tf32_allowed,
)
from icecore.models.packing import Packing, Reads, Segments
from icecore.models.transformer import NORM_EPSILON, Transformer

LONGEST_FUSED = 64  # tokens of a sequence that `kernels` can take
WIDEST_EXACT_HEAD = 64


def units(model: Transformer, joined: str) -> dict[str, list[str]]:
    """The parts of the body that are computed with, and the parameters that each is made of.

    `joined` are the maps of what attention reads that are one product: "kv" or, if all run on the same nodes, "qkv".
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
    """The body's matrices and their biases are in the type to compute with; norms and embeddings stay as they are."""
    return name.startswith("block") and "norm" not in name


def body_for_computing(
    model: Transformer, parameters: Parameters, wanted: Callable[[list[str]], bool], dtype: torch.dtype, joined: str
) -> dict[str, Tensor]:
    """The units' weights and biases in the type to compute with, of those made of parameters that are `wanted`.

    A frozen bias of zeros, or a frozen norm's weight of ones, is left out: adding or multiplying it is nothing.
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


def packed_hidden(
    model: Transformer, embeddings: Parameters, body: Parameters, packing: Packing, dtype: torch.dtype
) -> Float[Tensor, "seed query width"]:
    """What the unembedding reads at the scored positions, in its type. `body` is of `body_for_computing`."""
    rows = select(embeddings["token"], packing.row_tokens) + select(embeddings["position"], packing.row_columns)
    x, rows = norm(rows, None, body, "block0.attention_norm", dtype)
    stream = gather(rows, packing.row_of_node, packing.nodes_by_row, dtype) if packing.has_rows else rows.to(dtype)
    added = None  # to the stream, by the norm that follows
    for layer in range(model.layers):
        block, is_first, is_last = f"block{layer}", layer == 0, layer == model.layers - 1
        if not is_first and not is_last:
            x, stream = norm(stream, added, body, f"{block}.attention_norm", dtype)
        asking = x
        if is_last and is_first:
            asking, stream = select(x, packing.row_of_node[packing.scored_node]), select(stream, packing.scored_node)
        elif is_last:
            name = f"{block}.attention_norm"
            assert added is not None
            x, asking, stream = norm_and_pick(stream, added, body, name, packing.scored_node)
        kv = linear(x, body, f"{block}.kv")
        q = asking if model.attention == "prefix-sum" else linear(asking, body, f"{block}.q")
        mixed = attend(model, q, kv, packing, is_first and packing.has_rows, is_last)
        added, shift = without_bias(mixed, body, f"{block}.out")
        x, stream = norm(stream, added, body, f"{block}.mlp_norm", dtype, shift)
        added = linear(gelu(linear(x, body, f"{block}.mlp_in")), body, f"{block}.mlp_out")
    return norm(stream, added, body, "final_norm", embeddings["unembed"].dtype)[0]


def select(values: Nodes, index: Int32[Tensor, " item"]) -> Float[Tensor, "seed item width"]:
    """values[:, index], whose gradient is a sum by index."""
    if has_kernels(values):
        return Select.apply(values, index)
    # The CPU's fast sum by index is that of embeddings.
    seeds, rows, _ = values.shape
    if seeds > 1:
        index = (index + rows * torch.arange(seeds, dtype=index.dtype)[:, None]).flatten()
    return F.embedding(index, values.flatten(0, 1)).view(seeds, -1, values.shape[2])


def norm(
    x: Nodes, added: Nodes | None, body: Parameters, name: str, dtype: torch.dtype, shift: Tensor | None = None
) -> tuple[Nodes, Nodes]:
    """The norm of x + added + shift, and that sum, which is the residual stream: both in one pass, as are gradients.

    `shift` is of `without_bias`, and is None on a CPU.
    """
    weight, bias = body.get(f"{name}.weight"), body.get(f"{name}.bias")
    if has_kernels(x):
        return Norm.apply(x, added, shift, weight, bias, dtype)
    x = x if added is None else x + added
    return plain_norm(x, weight, bias).to(dtype), x


def norm_and_pick(
    x: Nodes, added: Nodes, body: Parameters, name: str, index: Int32[Tensor, " item"]
) -> tuple[Nodes, Float[Tensor, "seed item width"], Float[Tensor, "seed item width"]]:
    """The norm of x + added, and of both the norm and that sum what is at `index`."""
    weight, bias = body.get(f"{name}.weight"), body.get(f"{name}.bias")
    if has_kernels(x):
        return NormAndPick.apply(x, added, weight, bias, index)
    x = x + added
    y = plain_norm(x, weight, bias)
    return y, select(y, index), select(x, index)


def plain_norm(x: Nodes, weight: Tensor | None, bias: Tensor | None) -> Nodes:
    x = F.layer_norm(x, x.shape[-1:], eps=NORM_EPSILON)
    x = x if weight is None else x * weight[:, None]
    return x if bias is None else x + bias[:, None]


def gelu(x: Nodes) -> Nodes:
    return Gelu.apply(x) if has_kernels(x) else F.gelu(x, approximate="tanh")


def linear(x: Nodes, body: Parameters, name: str) -> Float[Tensor, "seed node output"]:
    weight, bias = body[f"{name}.weight"], body.get(f"{name}.bias")
    if bias is not None and bias.requires_grad and has_kernels(x):
        return Affine.apply(x, weight, bias)
    return plain_linear(x, weight, bias)


def without_bias(
    x: Nodes, body: Parameters, name: str
) -> tuple[Float[Tensor, "seed node output"], Float[Tensor, "seed output"] | None]:
    """`linear`, of which a bias that trains is left to the norm that follows: there its gradient is at hand."""
    weight, bias = body[f"{name}.weight"], body.get(f"{name}.bias")
    if bias is not None and bias.requires_grad and has_kernels(x):
        return plain_linear(x, weight, None), bias
    return plain_linear(x, weight, bias), None


def plain_linear(x: Nodes, weight: Tensor, bias: Tensor | None) -> Float[Tensor, "seed node output"]:
    if len(x) == 1:  # squeezed, not indexed: the gradient of an index is a copy among zeros
        return F.linear(x.squeeze(0), weight.squeeze(0), None if bias is None else bias.squeeze(0)).unsqueeze(0)
    if bias is None:
        return x @ weight.transpose(1, 2)
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


def attend(
    model: Transformer, q: Nodes, kv: Float[Tensor, "seed key both"], packing: Packing, rows: bool, scored: bool
) -> Float[Tensor, "seed output width"]:
    """Each node's, or each scored position's, mix of the values it can see."""
    reads = packing.reads(rows, scored)
    outputs = len(packing.scored_node) if scored else packing.nodes
    # Kernels have no fast exact products in float32; cuBLAS has.
    is_fast = q.dtype == torch.bfloat16 or tf32_allowed() or model.width // model.heads <= WIDEST_EXACT_HEAD
    if has_kernels(q) and reads.index.shape[1] <= LONGEST_FUSED and is_fast:
        return FusedAttention.apply(q, kv, packing, reads, outputs, rows, model.heads, model.attention == "softmax")
    return attend_laid_out(model, q, kv, reads, outputs)


def attend_laid_out(
    model: Transformer, q: Nodes, kv: Float[Tensor, "seed key both"], reads: Reads, outputs: int
) -> Float[Tensor, "seed {outputs} width"]:
    """Attention with queries, keys and values laid out by sequence: the plain way, for any device and length."""
    seeds, _, width = q.shape
    sequences, length = reads.index.shape
    column = torch.arange(length, device=q.device)
    if reads.slots is None:
        visible = column <= column[:, None]
        query = select(q, reads.index.flatten()).view(seeds, sequences, length, width)
        places = (reads.own.flatten() >= 0) & (column < reads.lengths[:, None]).flatten()
        slot = reads.own.flatten().where(places, outputs)
    else:
        sequences = reads.real_rows
        visible = column <= reads.query_columns.view(sequences, 1, -1, 1)
        query = q.view(seeds, sequences, reads.slots, width)
        slot = None
    laid_out = select(kv, reads.index[:sequences].flatten()).view(seeds, sequences, length, 2 * width)
    key, value = laid_out.split(width, dim=-1)

    def split(x: Tensor) -> Float[Tensor, "seed sequence head place channel"]:
        return x.unflatten(-1, (model.heads, -1)).transpose(2, 3)

    if model.attention == "prefix-sum":
        weights = visible.to(value.dtype).expand(seeds, sequences, 1, -1, -1)
    else:
        scores = split(query) @ split(key).transpose(-2, -1) / math.sqrt(width // model.heads)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    mixed = (weights @ split(value)).transpose(2, 3).reshape(seeds, -1, width)
    if slot is None:
        return mixed
    out = mixed.new_zeros((seeds, outputs + 1, width))
    return out.index_copy(1, slot.long(), mixed)[:, :outputs]


def gather(
    values: Nodes, index: Int32[Tensor, " item"], segments: Segments, dtype: torch.dtype
) -> Float[Tensor, "seed item width"]:
    if has_kernels(values):
        return Gather.apply(values, index, segments, dtype)
    return select(values, index).to(dtype)
