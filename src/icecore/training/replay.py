"""Steps captured in CUDA graphs: several steps a replay, no work and no waiting on the host in between."""

import itertools
from typing import Any

import torch
from torch import Tensor

from icecore.models.dense import Windows
from icecore.models.lstm import PackedSequences
from icecore.models.packing import Packing
from icecore.training.steps import Steps, copy_all
from icecore.training.work import Answers, Work


class Replay:
    """Takes steps by graphs, one for each size of the work and each number of steps; they share their memory."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.graphs: dict[tuple[object, ...], Captured] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def take(self, each: list[list[Work]]) -> None:
        """Some steps, each in one or more parts, all of one size."""
        key = len(each), len(each[0]), *graphable(each[0][0]).size()
        if key not in self.graphs:
            self.graphs[key] = Captured(self.steps, each, self.pool)
        self.graphs[key].replay(each)


class Captured:
    """One graph: some steps on inputs that are copied to a fixed place."""

    def __init__(self, steps: Steps, each: list[list[Work]], pool: Any) -> None:
        self.each = [[fixed(part) for part in parts] for parts in each]
        before = {name: view.clone() for name, view in steps.state().items()}
        step, bad = int(steps.step), steps.first_bad_step.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries and kernels set themselves up in a first call
            steps.take(*self.each[0])
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            for parts in self.each:
                steps.take(*parts)
        steps.set_state(step, before)
        steps.first_bad_step.copy_(bad)

    def replay(self, each: list[list[Work]]) -> None:
        copy_all(tensors_of(self.each), tensors_of(each))
        self.graph.replay()


def fixed(work: Work) -> Work:
    """A copy that stays where it is. What a step does not read, the places in the batch, is not copied."""
    inputs, answers = graphable(work).fixed(), work.answers
    log_probs = None if answers.target_log_probs is None else answers.target_log_probs.clone()
    return Work(inputs, Answers(answers.places, answers.targets.clone(), inputs.weight, log_probs))


def tensors_of(each: list[list[Work]]) -> list[Tensor]:
    found: list[Tensor] = []
    for work in itertools.chain.from_iterable(each):
        found += [*graphable(work).read(), work.answers.targets]
        if work.answers.target_log_probs is not None:
            found.append(work.answers.target_log_probs)
    return found


def graphable(work: Work) -> Packing | Windows | PackedSequences:
    assert isinstance(work.inputs, Packing | Windows | PackedSequences)
    return work.inputs
