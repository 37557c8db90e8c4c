"""Steps captured in CUDA graphs: several steps a replay, no work and no waiting on the host in between."""

from typing import Any

import torch
from torch import Tensor

from icecore.models.packing import Packing
from icecore.training.steps import Steps, copy_all
from icecore.training.work import Answers, PackedWorks, Work

WARM_UPS = 2


class Replay:
    """Takes steps by graphs, one for each size of the work and each number of steps; they share their memory."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.graphs: dict[tuple[object, ...], Captured] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def take(self, works: PackedWorks, begin: int, end: int) -> None:
        """The steps from `begin` to `end`, which have one size."""
        work = works.steps(begin, end)
        key = (end - begin, *sizes_of(work))
        if key not in self.graphs:
            self.graphs[key] = Captured(self.steps, work, end - begin, self.pool)
        self.graphs[key].replay(work)


class Captured:
    """One graph: `count` steps on inputs that are copied to a fixed place."""

    def __init__(self, steps: Steps, work: Work, count: int, pool: Any) -> None:
        packing, answers = inputs_of(work), work.answers
        self.packing = packing.map(torch.clone)
        log_probs = answers.target_log_probs
        self.answers = Answers(
            answers.places,  # not read by a step
            answers.targets.clone(),
            self.packing.weight,
            None if log_probs is None else log_probs.clone(),
        )
        each = [Work(self.packing.at(index), self.answers.part(index)) for index in range(count)]
        before = {name: view.clone() for name, view in steps.state().items()}
        step, bad = steps.step.clone(), steps.first_bad_step.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries and kernels set themselves up in the first calls
            for _ in range(WARM_UPS):
                steps.take(each[0])
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            for one in each:
                steps.take(one)
        steps.set_state(int(step), before)
        steps.first_bad_step.copy_(bad)

    def replay(self, work: Work) -> None:
        copy_all(self.tensors(Work(self.packing, self.answers)), self.tensors(work))
        self.graph.replay()

    @staticmethod
    def tensors(work: Work) -> list[Tensor]:
        found = [*inputs_of(work).tensors(), work.answers.targets]
        return found if work.answers.target_log_probs is None else [*found, work.answers.target_log_probs]


def inputs_of(work: Work) -> Packing:
    assert isinstance(work.inputs, Packing)
    return work.inputs


def sizes_of(work: Work) -> tuple[object, ...]:
    packing = inputs_of(work)
    return packing.has_rows, packing.nodes, *(tuple(tensor.shape) for tensor in packing.tensors())
