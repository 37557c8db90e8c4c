"""What a process should do once before it computes on the CPU."""

import ctypes
import functools
import sys


@functools.cache
def configure_process() -> None:
    """Make results reproducible and memory cheap to reuse. Safe to call again."""
    keep_freed_memory()
    touch_vector_math()


def touch_vector_math() -> None:
    """Call each vectorized function once on one element.

    The first such call of a process races when several threads make it (PyTorch issue 188792): the same
    input then gives different bits now and then. One call on one element comes first, and all is well.
    """
    import torch

    one = torch.ones(1)
    for function in (torch.tanh, torch.exp, torch.log, torch.sqrt, torch.sin, torch.cos, torch.erf):
        function(one)


def keep_freed_memory() -> None:
    """Tell glibc to keep freed blocks for the next tensor instead of giving them back to the system.

    Given back, every large temporary costs a page fault for each 4 KiB when it is next allocated; kept,
    data sampling on the CPU is about twice as fast. Other C libraries have no such switch.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3  # as in malloc.h
        mallopt(trim_threshold, 1 << 30)
        mallopt(mmap_threshold, 1 << 25)  # the largest that glibc takes
