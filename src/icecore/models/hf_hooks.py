"""Named activations of a network of transformers: what its blocks read and write."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from icecore.errors import require
from icecore.models.base import Hook

FIRST = "hidden_states"  # the argument of a block that is the residual stream


def blocks_of(network: nn.Module, layers: int | None) -> nn.ModuleList | None:
    """Return the network's blocks: its first list of as many modules as it has layers."""
    lists = (module for module in network.modules() if isinstance(module, nn.ModuleList))
    return next((module for module in lists if len(module) == layers), None)


@contextlib.contextmanager
def hooked(blocks: nn.ModuleList, hook: Hook, shape: tuple[int, ...]) -> Iterator[None]:
    """Pass the residual stream before the first block, and after each, through the hook while the block runs."""

    def before(_block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if args:
            return (passed("embedding", args[0]), *args[1:]), kwargs
        return args, {**kwargs, FIRST: passed("embedding", kwargs.get(FIRST))}

    def passed(name: str, value: Any) -> Tensor:
        is_stream = isinstance(value, Tensor) and tuple(value.shape) == shape
        require(is_stream, f"{name} of this network is no (batch, seq, width) activation: it cannot be looked into")
        return hook(name, value)

    def after(name: str) -> Any:
        def changed(_block: nn.Module, _inputs: Any, output: Any) -> Any:
            whole = isinstance(output, Tensor)
            value = passed(name, output if whole else output[0])
            return value if whole else (value, *output[1:])

        return changed

    handles = [blocks[0].register_forward_pre_hook(before, with_kwargs=True)]
    handles += [block.register_forward_hook(after(f"block{index}.stream")) for index, block in enumerate(blocks)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
