"""Activation patching in a random body: swap the outputs of layer 1's attention at two values.

python examples/patching.py results/weights/needle/9bbecfd247ab     # a saved run of the needle task
"""

import sys
from dataclasses import dataclass

import torch
from torch import Tensor

import icecore as ice


@dataclass(frozen=True)
class Seen:
    """Results for the asked value and for the next pair's value: the share of answers that give it, and the query's
    mean attention to its position, in the layer 2 head that attends to it most."""

    said: tuple[float, float]
    looked_at: tuple[float, float]

    def __str__(self) -> str:
        said, looked_at = (" and ".join(f"{share:.3f}" for share in each) for each in (self.said, self.looked_at))
        return f"answers {said}, attention {looked_at}"


def exchanges(runs: ice.TrainedRun, seed: int, items: int = 200) -> dict[str, Seen]:
    """Return the results per swap, which later layers see. An item is `marker value marker value ... query`."""
    task, model, parameters = runs.config.task, runs.config.model, runs.parameters(seed)
    assert isinstance(task, ice.tasks.Needle)
    assert isinstance(model, ice.Transformer)
    chosen = [item for item in task.test_items() if len(item.prompt) >= 7][:items]  # three pairs or more
    batch, row = task.encode(chosen), torch.arange(len(chosen))
    shift = task.first_query - task.first_marker
    pairs = [item.prompt[:-1:2] for item in chosen]  # their markers
    asked = torch.tensor([each.index(item.prompt[-1] - shift) for each, item in zip(pairs, chosen, strict=True)])
    count = torch.tensor([len(each) for each in pairs])
    here, after, elsewhere = (2 * ((asked + step) % count) + 1 for step in range(3))  # positions of values
    query = batch.lengths - 1

    def seen(exchanged: tuple[Tensor, Tensor] | None) -> Seen:
        attention = []

        def hook(name: str, value: Tensor) -> Tensor:
            if name == "block1.attention":
                attention.append(value[row, :, query])
            if name == "block0.attention_out" and exchanged is not None:
                first, second = exchanged
                value = value.clone()
                value[row, first], value[row, second] = value[row, second], value[row, first]
            return value

        hidden = model.hidden(parameters, batch.tokens, hook)[row, query]
        answers = model.unembed(parameters, hidden).argmax(dim=-1)
        said = [float((answers == batch.tokens[row, place]).double().mean()) for place in (here, after)]
        looked_at = [float(attention[0][row, :, place].mean(dim=0).max()) for place in (here, after)]
        return Seen((said[0], said[1]), (looked_at[0], looked_at[1]))

    return {
        "nothing": seen(None),
        "the asked value and the next": seen((here, after)),
        "two others": seen((after, elsewhere)),
    }


if __name__ == "__main__":
    runs = ice.load(sys.argv[1], "cpu")
    for seed in runs.config.seeds:
        for what, found in exchanges(runs, seed).items():
            print(f"seed {seed}, {what} swapped: {found}")
