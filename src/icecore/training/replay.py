"""Steps captured in CUDA graphs: several per replay, without host work or synchronization."""

import itertools
from typing import Any

import torch
from torch import Tensor

from icecore.models.engines import ModelBatch, Targets
from icecore.training.steps import Steps, copy_all


class Replay:
    """Takes steps with CUDA graphs, one per input size and number of steps, which share a memory pool."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.graphs: dict[tuple[object, ...], Captured] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def take(self, each: list[list[ModelBatch]]) -> None:
        """Take steps, each in one or more parts, all of the same size."""
        key = len(each), len(each[0]), *each[0][0].inputs.size()
        if key not in self.graphs:
            self.graphs[key] = Captured(self.steps, each, self.pool)
        self.graphs[key].replay(each)


class Captured:
    """CUDA graph of some steps, on inputs copied into static buffers."""

    def __init__(self, steps: Steps, each: list[list[ModelBatch]], pool: Any) -> None:
        self.each = [[fixed(part) for part in parts] for parts in each]
        before = {name: view.clone() for name, view in steps.state().items()}
        step, bad = int(steps.step), steps.first_bad_step.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # warm-up: libraries and kernels initialize in their first call
            steps.take(*self.each[0])
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            for parts in self.each:
                steps.take(*parts)
        steps.set_state(step, before)
        steps.first_bad_step.copy_(bad)

    def replay(self, each: list[list[ModelBatch]]) -> None:
        copy_all(tensors_of(self.each), tensors_of(each))
        self.graph.replay()


def fixed(batch: ModelBatch) -> ModelBatch:
    """Clone the tensors that a step reads into static buffers; the flat indices are not read."""
    inputs, targets = batch.inputs.fixed(), batch.targets
    log_probs = None if targets.log_probs is None else targets.log_probs.clone()
    return ModelBatch(inputs, Targets(targets.flat_indices, targets.tokens.clone(), inputs.weight, log_probs))


def tensors_of(each: list[list[ModelBatch]]) -> list[Tensor]:
    return [
        tensor
        for batch in itertools.chain.from_iterable(each)
        for tensor in (*batch.inputs.read(), *batch.targets.read())
    ]
