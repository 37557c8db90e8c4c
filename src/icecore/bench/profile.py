"""Time of a step by kind of kernel, for the reference and for ours."""

import contextlib
import dataclasses
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from icecore.bench.train import Case, OurSteps, config_for, reference_steps, seconds_per_call, wait
from icecore.training import Precision

# The first pattern found in a kernel's name counts; on the CPU, in an operator's name.
KERNEL_KINDS = {
    "matrix products": r"gemm|cutlass|cublas|nvjet|xmma|gemv|splitk|mm$|linear",
    "LSTM cells": r"LSTM|lstm|RNN|rnn",
    "attention": r"^forward_kernel|^backward_kernel|fmha|flash|attention",
    "norms": r"norm_forward|norm_backward|layer_norm|LayerNorm|GammaBeta",
    "gelu": r"[Gg]elu",
    "softmax and loss": r"[Ss]oft[Mm]ax|nll_loss|cross_entropy",
    "optimizer and clipping": r"[Aa]dam|vector_norm|NormTwo|clip",
    "sums by index": r"segment_sum|index_add|indexFunc|embedding.*backward|scatter_add",
    "sorting and scanning": r"[Ss]ort|[Ss]can|cumsum|cummax",
    "sums": r"reduce|sum|amax",
    "copies, gathers, fills": r"[Cc]opy|Mem|[Cc]at|[Gg]ather|index|[Ff]ill|embedding|zero|clone|scatter",
}
REST = "the rest"
TOP, LONGEST_NAME = 30, 120  # kernels listed by name


@dataclass(frozen=True)
class Profile:
    """us per step of all seeds: wall time, kernels by kind, and the slowest kernels."""

    task: str
    model: str
    width: int
    trainable: str
    seeds: int
    way: str
    precision: str
    wall_us: float
    by_kind: dict[str, float]
    top: dict[str, float]


def profile_case(case: Case, device: torch.device, precision: Precision) -> Iterator[Profile]:
    """Yield the profile of the reference, in float32 and padded, then ours."""
    config = config_for(case, precision)
    with Precision.fp32.in_matrix_products():
        yield profile_steps(case, "reference", Precision.fp32, reference_steps(config, device), 1, device)
    with precision.in_matrix_products():
        ours = OurSteps(config, device)
        ours.warm_up()
        yield profile_steps(case, "ours", precision, ours, ours.at_once, device)


def profile_steps(
    case: Case, way: str, precision: Precision, take: Callable[[], None], steps: int, device: torch.device
) -> Profile:
    """Profile a function that takes `steps` steps per call."""
    wall = seconds_per_call(take, 0.3, device) / steps
    by_name = kernel_times(take, device)
    by_kind = dict.fromkeys([*KERNEL_KINDS, REST], 0.0)
    for name, us in by_name.items():
        by_kind[kind_of(name)] += us / steps
    top = {name[:LONGEST_NAME]: us / steps for name, us in by_name.most_common(TOP)}
    return Profile(
        **{name: value for name, value in dataclasses.asdict(case).items() if name != "batch"},
        way=way,
        precision=precision,
        wall_us=1e6 * wall,
        by_kind={kind: us for kind, us in by_kind.items() if us},
        top=top,
    )


def kernel_times(take: Callable[[], None], device: torch.device) -> Counter[str]:
    """Return us per kernel; on the CPU, per operator without its callees."""
    is_gpu = device.type == "cuda"
    activity = ProfilerActivity.CUDA if is_gpu else ProfilerActivity.CPU
    with without_messages(), profile(activities=[activity]) as found:
        take()
        wait(device)
    times = Counter[str]()
    for event in found.key_averages():
        times[event.key] += event.self_device_time_total if is_gpu else event.self_cpu_time_total
    return times


@contextlib.contextmanager
def without_messages() -> Iterator[None]:
    """Silence the profiler library's standard error."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KERNEL_KINDS.items() if re.search(pattern, name)), REST)
