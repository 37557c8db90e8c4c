"""Layers of the transformer's engine: plain on a CPU, fused on a GPU. Tensors are (seed, node, channel)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int32
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.engines.devices import has_kernels
from icecore.models.engines.fused import Affine, Gather, Gelu, Nodes, Norm, NormAndPick, Select
from icecore.models.engines.prefix_index import Segments
from icecore.models.transformer import NORM_EPSILON


def select(values: Nodes, index: Int32[Tensor, " item"]) -> Float[Tensor, "seed item width"]:
    """Return values[:, index]; its gradient is a sum by index."""
    if has_kernels(values):
        return Select.apply(values, index)
    # On a CPU, the fast sum by index is the gradient of F.embedding.
    seeds, rows, _ = values.shape
    if seeds > 1:
        index = (index + rows * torch.arange(seeds, dtype=index.dtype)[:, None]).flatten()
    return F.embedding(index, values.flatten(0, 1)).view(seeds, -1, values.shape[2])


def norm(
    x: Nodes, added: Nodes | None, body: Parameters, name: str, dtype: torch.dtype, shift: Tensor | None = None
) -> tuple[Nodes, Nodes]:
    """Return the norm of x + added + shift, and that sum, the residual stream: in one pass, as are the gradients.

    `shift` comes from `without_bias`, and is None on a CPU.
    """
    weight, bias = body.get(f"{name}.weight"), body.get(f"{name}.bias")
    if has_kernels(x):
        return Norm.apply(x, added, shift, weight, bias, dtype)
    x = x if added is None else x + added
    return plain_norm(x, weight, bias).to(dtype), x


def norm_and_pick(
    x: Nodes, added: Nodes, body: Parameters, name: str, index: Int32[Tensor, " item"]
) -> tuple[Nodes, Float[Tensor, "seed item width"], Float[Tensor, "seed item width"]]:
    """Return the norm of x + added, and the rows at `index` of that norm and of the sum."""
    weight, bias = body.get(f"{name}.weight"), body.get(f"{name}.bias")
    if has_kernels(x):
        return NormAndPick.apply(x, added, weight, bias, index)
    x = x + added
    y = plain_norm(x, weight, bias).to(x.dtype)
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
    """Run `linear`, but return a trained bias for the next norm to add, which has its gradient anyway."""
    weight, bias = body[f"{name}.weight"], body.get(f"{name}.bias")
    if bias is not None and bias.requires_grad and has_kernels(x):
        return plain_linear(x, weight, None), bias
    return plain_linear(x, weight, bias), None


def plain_linear(x: Nodes, weight: Tensor, bias: Tensor | None) -> Float[Tensor, "seed node output"]:
    if len(x) == 1:  # squeeze, not [0]: the gradient of an index is a copy into zeros
        return F.linear(x.squeeze(0), weight.squeeze(0), None if bias is None else bias.squeeze(0)).unsqueeze(0)
    if bias is None:
        return x @ weight.transpose(1, 2)
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


def gather(
    values: Nodes, index: Int32[Tensor, " item"], segments: Segments, dtype: torch.dtype
) -> Float[Tensor, "seed item width"]:
    if has_kernels(values):
        return Gather.apply(values, index, segments, dtype)
    return select(values, index).to(dtype)
