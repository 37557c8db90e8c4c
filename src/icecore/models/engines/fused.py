"""Custom autograd functions of the engines; most use `kernels` on a GPU."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.models.engines.prefix_index import PrefixIndex, Reads, Segments
from icecore.models.transformer import NORM_EPSILON

Nodes = Float[Tensor, "seed node width"]
Asking = Float[Tensor, "seed asking width"]  # inputs of a mixer's queries
Outputs = Float[Tensor, "seed output width"]  # a mixer's, on nodes or at scored positions


class Adjoin(torch.autograd.Function):
    """torch.cat(parts, dim=1), without a copy if the parts are adjacent in each seed's row."""

    @staticmethod
    def forward(ctx, *parts):
        ctx.sizes = [part.shape[1] for part in parts]
        first, ends = parts[0], [part.data_ptr() + part[0].nbytes for part in parts]
        whole = first.untyped_storage().data_ptr()  # excludes tensors that are adjacent by chance
        lie_so = all(
            part.untyped_storage().data_ptr() == whole and part.stride() == first.stride() and part[0].is_contiguous()
            for part in parts
        )
        if not lie_so or ends[:-1] != [part.data_ptr() for part in parts[1:]]:
            return torch.cat(parts, dim=1)
        return first.as_strided((len(first), sum(ctx.sizes), *first.shape[2:]), first.stride())

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient.split(ctx.sizes, dim=1)


class Affine(torch.autograd.Function):
    """`linear` with a trained bias, whose gradient, a sum of rows, is computed faster as a product with ones."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        if len(x) == 1:
            return F.linear(x.squeeze(0), weight.squeeze(0), bias.squeeze(0)).unsqueeze(0)
        return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        for_x, for_weight, _ = ctx.needs_input_grad
        ones = gradient.new_ones((1, 1, gradient.shape[1])).expand(len(gradient), -1, -1)
        return (
            product(gradient, weight) if for_x else None,
            product(gradient.transpose(1, 2), x) if for_weight else None,
            product(ones, gradient).squeeze(1),
        )


def product(a: Tensor, b: Tensor) -> Float[Tensor, "seed row column"]:
    """Return a @ b; one seed as a plain product, which is faster than a batched one."""
    return (a.squeeze(0) @ b.squeeze(0)).unsqueeze(0) if len(a) == 1 else a @ b


class Gelu(torch.autograd.Function):
    """GELU (tanh); backward overwrites the incoming gradient to save memory: these are a step's largest tensors."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.gelu(x, approximate="tanh")

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        (x,) = ctx.saved_tensors
        gradient = gradient.contiguous()
        return torch.ops.aten.gelu_backward.grad_input(gradient, x, approximate="tanh", grad_input=gradient)


class Norm(torch.autograd.Function):
    """`norm` by kernels that save only the sum and its moments."""

    @staticmethod
    def forward(ctx, x, added, shift, weight, bias, dtype: torch.dtype):
        from icecore.models.engines import kernels

        ctx.set_materialize_grads(False)
        weight, bias = both_or_neither(x, weight, bias)
        shift = None if shift is None else shift.contiguous()  # with many seeds, parameters are views of long rows
        y, total, moments = kernels.norm_forward(x, added, shift, weight, bias, dtype, NORM_EPSILON)
        ctx.save_for_backward(total, moments, weight)
        ctx.shift_type = None if shift is None else shift.dtype
        return y, total.view_as(total)

    @staticmethod
    def backward(ctx, d_y, d_kept):  # pyright: ignore[reportIncompatibleMethodOverride]
        from icecore.models.engines import kernels

        total, moments, weight = ctx.saved_tensors
        d_kept = None if d_kept is None else d_kept.contiguous()
        d_x, d_shift, d_weight, d_bias = kernels.norm_backward(
            total, moments, d_y.contiguous(), d_kept, weight, shifted=ctx.shift_type is not None
        )
        d_shift = None if d_shift is None else d_shift.to(ctx.shift_type)
        return *wanted(ctx, (d_x, d_x, d_shift, d_weight, d_bias)), None


class NormAndPick(torch.autograd.Function):
    """`norm_and_pick` by the same kernels."""

    @staticmethod
    def forward(ctx, x, added, weight, bias, index):
        from icecore.models.engines import kernels

        weight, bias = both_or_neither(x, weight, bias)
        y, total, moments = kernels.norm_forward(x, added, None, weight, bias, x.dtype, NORM_EPSILON)
        ctx.save_for_backward(total, moments, weight, index)
        return y, y.index_select(1, index), total.index_select(1, index)

    @staticmethod
    def backward(ctx, d_y, d_y_picked, d_total_picked):  # pyright: ignore[reportIncompatibleMethodOverride]
        from icecore.models.engines import kernels

        total, moments, weight, index = ctx.saved_tensors
        d_y = kernels.add_rows(d_y.contiguous(), index, d_y_picked)
        d_x, _, d_weight, d_bias = kernels.norm_backward(total, moments, d_y, None, weight)
        d_x = kernels.add_rows(d_x, index, d_total_picked)
        return *wanted(ctx, (d_x, d_x, d_weight, d_bias)), None


def both_or_neither(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    if weight is None and bias is None:
        return None, None
    like = x.new_empty((len(x), x.shape[2]), dtype=torch.float32)
    weight = torch.ones_like(like) if weight is None else weight.contiguous()
    return weight, torch.zeros_like(like) if bias is None else bias.contiguous()


def wanted(ctx, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """Return the gradients that the inputs need, None for the others."""
    return tuple(found if needed else None for found, needed in zip(gradients, ctx.needs_input_grad, strict=False))


class FusedAttention(torch.autograd.Function):
    """`attend_laid_out` by kernels that read through the index and write only nodes."""

    @staticmethod
    def forward(ctx, q, kv, index: PrefixIndex, reads: Reads, outputs: int, rows: bool, heads: int, softmax: bool):
        from icecore.models.engines import kernels

        ctx.save_for_backward(q, kv)
        ctx.arguments = index, reads, rows, heads, softmax
        return kernels.attend_forward(q, kv, reads, outputs, heads, softmax, tf32_allowed())

    @staticmethod
    def backward(ctx, d_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        from icecore.models.engines import kernels

        q, kv = ctx.saved_tensors
        index, reads, rows, heads, softmax = ctx.arguments
        slots = index.shared + index.nodes
        d_q, by_slot = kernels.attend_backward(q, kv, d_out.contiguous(), reads, slots, heads, softmax, tf32_allowed())
        if rows:
            if reads.slots is None:
                d_q = sum_by(d_q, index.nodes_by_row).to(q.dtype)
            return d_q, sum_by(by_slot, index.keys_by_row).to(kv.dtype), *[None] * 6
        d_kv = by_slot[:, index.shared :]
        if index.shared:
            of_shared = sum_by(by_slot[:, : index.shared], index.keys_by_shared_node)
            d_kv = kernels.add_rows(d_kv, index.shared_node, of_shared.to(kv.dtype))
        return d_q, d_kv, *[None] * 6


class Select(torch.autograd.Function):
    """`select`, with a kernel that sums the gradients of repeated rows."""

    @staticmethod
    def forward(ctx, values, index):
        ctx.save_for_backward(index)
        ctx.shape = values.shape
        return values.index_select(1, index)

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        from icecore.models.engines import kernels

        (index,) = ctx.saved_tensors
        total = gradient.new_zeros(ctx.shape, dtype=torch.float32)  # in bfloat16, long sums would come to a halt
        return kernels.add_rows(total, index, gradient).to(gradient.dtype), None


class Gather(torch.autograd.Function):
    """values[:, index], where the gradient's segments are known in advance."""

    @staticmethod
    def forward(ctx, values, index, segments: Segments, dtype: torch.dtype):
        ctx.segments, ctx.dtype = segments, values.dtype
        return values.to(dtype).index_select(1, index)

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        return sum_by(gradient, ctx.segments).to(ctx.dtype), None, None, None


def sum_by(values: Nodes, segments: Segments) -> Float[Tensor, "seed segment width"]:
    from icecore.models.engines import kernels

    return kernels.segment_sum(values, segments.order, segments.key, segments.count)


def tf32_allowed() -> bool:
    return torch.get_float32_matmul_precision() != "highest"
