"""Set up a process before it computes on the CPU."""

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

    The first such call of a process has a race if several threads make it (PyTorch issue 188792): the same
    input then occasionally gives different bits. A first call on one element avoids this.
    """
    import torch

    one = torch.ones(1)
    for function in (torch.tanh, torch.exp, torch.log, torch.sqrt, torch.sin, torch.cos, torch.erf):
        function(one)


def keep_freed_memory() -> None:
    """Make glibc reuse freed memory instead of returning it to the system.

    Otherwise every large temporary costs one page fault per 4 KiB when allocated. With reuse, data sampling
    on the CPU is about twice as fast. Other C libraries have no such option.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3  # as in malloc.h
        mallopt(trim_threshold, 1 << 30)
        mallopt(mmap_threshold, 1 << 25)  # glibc's maximum
