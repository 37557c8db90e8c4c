"""A careful user's training loop: a library's model, float32, padded batches, items from plain Python."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icecore.errors import InputError
from icecore.models import Model, ModelDims, initialize
from icecore.models.huggingface import new_gpt2
from icecore.tasks import Item, Task
from icecore.tasks.finite import PairTask
from icecore.tasks.plain import PlainTask
from icecore.training import TrainingConfig

# Parts of the names of token, position and output embeddings, in transformers' networks and in ours.
EMBEDDINGS = ("wte", "wpe", "lm_head", "embed_tokens", "backbone.embeddings", "around.")


def user_step(
    task: Task, model: Model, dims: ModelDims, trainable: str, training: TrainingConfig, device: torch.device
) -> Callable[[], None]:
    """Return a function that takes one training step of one seed; `trainable` is embeddings or all."""
    network = NETWORKS.get(model.name, AsWritten)(model, dims)
    nn.Module.to(network, device)
    update = updates(network, trainable, training)
    stream = items_of(task)

    def step() -> None:
        tokens, rows, columns, targets = padded([next(stream) for _ in range(training.batch)], task.max_length)
        tokens, targets = tokens.to(device), targets.to(device)
        output = network(tokens)
        logits = output if isinstance(output, Tensor) else output.logits
        update(F.cross_entropy(logits[rows, columns], targets))

    return step


def updates(network: nn.Module, trainable: str, training: TrainingConfig) -> Callable[[Tensor], None]:
    """Freeze what is not trainable; return a function that takes an optimizer step on a loss."""
    if trainable == "embeddings":
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(any(part in name for part in EMBEDDINGS))
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": training.weight_decay},
        {"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=training.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: training.lr_at(step) / training.lr)

    def update(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, training.clip)
        optimizer.step()
        schedule.step()

    return update


def gpt2_without_cache(model: Any, dims: ModelDims) -> nn.Module:
    network = new_gpt2(model, dims)
    network.config.use_cache = False
    return network


class Recurrent(nn.Module):
    """PyTorch's own LSTM between an embedding and an output layer."""

    def __init__(self, model: Any, dims: ModelDims) -> None:
        super().__init__()
        self.embedding = nn.Embedding(dims.vocab_size, model.width)
        self.body = nn.LSTM(model.width, model.width, model.layers, batch_first=True)
        self.output = nn.Linear(model.width, dims.vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.body(self.embedding(tokens))[0])


def of_transformers(model: Model, dims: ModelDims) -> nn.Module:
    """Return the network of transformers with the model's initial weights."""
    network = model.to_huggingface(dims, initialize(model, dims, 0))
    network.config.use_cache = False
    return network.train()


class AsWritten(nn.Module):
    """The plain model, for bodies that no library has."""

    def __init__(self, model: Model, dims: ModelDims) -> None:
        super().__init__()
        self.model, specs = model, model.specs(dims)
        self.names = {name: name.replace(".", "/") for name in specs}  # ParameterDict has no dots
        values = {name: nn.Parameter(value) for name, value in initialize(model, dims, 0).items()}
        is_around = {name: specs[name].role in ("token", "position", "unembed") for name in specs}
        self.around, self.body = (
            nn.ParameterDict({self.names[name]: value for name, value in values.items() if is_around[name] is kind})
            for kind in (True, False)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        own = {**self.around, **self.body}
        return self.model.logits({name: own[key] for name, key in self.names.items()}, tokens)


# The user's network, by the model's name; others run as written.
NETWORKS: dict[str, Callable[[Model, ModelDims], nn.Module]] = {
    "transformer": gpt2_without_cache,
    "lstm": Recurrent,
    "llama": of_transformers,
    "mamba": of_transformers,
}


def items_of(task: Task) -> Iterator[Item]:
    """Yield training items one by one, without end."""
    rng = random.Random(0)
    if isinstance(task, PlainTask):
        yield from task.plain_stream(rng)
    if not isinstance(task, PairTask):
        raise InputError(f"the user's loop has no items of {task.name}; bench one of icecore's tasks")
    items = list(task.train_items())
    while True:
        rng.shuffle(items)
        yield from items


def padded(items: Sequence[Item], length: int) -> tuple[Tensor, list[int], list[int], Tensor]:
    """Return tokens, the rows and columns of scored positions, and their targets.

    Answers of several tokens are teacher-forced, as in training.
    """
    tokens, rows, columns, targets = [], [], [], []
    for row, (prompt, answer) in enumerate(items):
        fed = [*prompt, *answer[:-1]]
        tokens.append(fed + [0] * (length - len(fed)))
        rows += [row] * len(answer)
        columns += range(len(prompt) - 1, len(fed))
        targets += answer
    return torch.tensor(tokens), rows, columns, torch.tensor(targets)
