"""Lower bound of a step's time: its matrix products, each timed on this machine at its own shape."""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

REPEATS = 20


@dataclass(frozen=True)
class Product:
    """`batch` products of (rows, inner) with (inner, columns)."""

    batch: int
    rows: int
    inner: int
    columns: int
    dtype: torch.dtype

    @property
    def operations(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns


class ProductsOf(TorchDispatchMode):
    """Counts the matrix products called within the context."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Product] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = function.overloadpacket.__name__
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            left, right = args[:2] if name in ("mm", "bmm") else args[1:3]
            batch = len(left) if left.ndim == 3 else 1
            self.counts[Product(batch, left.shape[-2], left.shape[-1], right.shape[-1], left.dtype)] += 1
        return function(*args, **(kwargs or {}))


def products_in(step: Callable[[], None]) -> Counter[Product]:
    with ProductsOf() as mode:
        step()
    return mode.counts


def operations(counts: Counter[Product]) -> int:
    return sum(product.operations * count for product, count in counts.items())


def lower_bound_seconds(counts: Counter[Product], device: torch.device) -> float:
    """Return the time of the products alone, measured one shape after another."""
    return math.fsum(count * seconds_of(product, device) for product, count in counts.items())


def seconds_of(product: Product, device: torch.device) -> float:
    left = torch.randn(product.batch, product.rows, product.inner, device=device, dtype=product.dtype)
    right = torch.randn(product.batch, product.inner, product.columns, device=device, dtype=product.dtype)
    if product.batch == 1:
        left, right = left[0], right[0]
    if device.type == "cuda":
        return captured_seconds(lambda: left @ right)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        torch.matmul(left, right)
        times.append(time.perf_counter() - start)
    return min(times)


def captured_seconds(function: Callable[[], object]) -> float:
    """Return the seconds of a call on a GPU, without host overhead."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            function()
    graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000 / REPEATS
