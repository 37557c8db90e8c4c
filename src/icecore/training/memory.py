"""Memory of a run, estimated before anything is allocated.

Parameters, optimizer, test set and training data are counted. Activations follow a rule that was measured on a CPU:
`Model.kept_per_token` numbers per layer, channel and token. For measured bodies an estimate is within about a factor
of 2; a user's body has the default.
"""

from pathlib import Path

import torch

from icecore.errors import InputError
from icecore.models.engines import ReferenceEngine
from icecore.seeding import make_generator
from icecore.tasks import Language, Task
from icecore.training.config import RunConfig
from icecore.training.population import CHANNELS_AT_ONCE
from icecore.training.stream import BATCHES_MULTIPLE, BLOCK_TOKENS

GB = 10**9
FLOAT = 4  # bytes
TOKEN = 8 + 8 + 1  # bytes of a token, its target and whether it is scored
ITEMS_DRAWN = 64  # to see how many tokens are read
CGROUPS = (  # limit and use
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
FLAGS = {
    "parameters": "--width, --vocabulary or --seeds",
    "optimizer": "--width, --vocabulary or --seeds",
    "activations": "--batch, or raise --accumulate",
    "training data": "--batch",
    "test set": "--test-size",
}


def require_memory(config: RunConfig, device: torch.device, parts: int = 1, free: int | None = None) -> None:
    """Raise if the run needs more memory than is free. `parts` divide each batch; `free` is measured if None."""
    free = free_memory(device) if free is None else free
    if free is None:
        return
    needed = counted(config, device)
    if sum(needed.values()) <= free:  # else nothing is drawn from the task, which may take minutes
        needed = estimate(config, device, parts)
    total = sum(needed.values())
    if total <= free:
        return
    largest = max(needed, key=lambda name: needed[name])
    raise InputError(
        f"this run needs about {total / GB:,.1f} GB ({largest} {needed[largest] / GB:,.1f} GB), {free / GB:,.1f} GB "
        f"are free; lower {FLAGS[largest]}, or use --force"
    )


def estimate(config: RunConfig, device: torch.device, parts: int = 1) -> dict[str, int]:
    """Return the bytes that a run needs, by part."""
    return counted(config, device) | {"activations": activations(config, device, parts)}


def counted(config: RunConfig, device: torch.device) -> dict[str, int]:
    """Return the bytes of what is counted, by part."""
    task, seeds = config.task, len(config.seeds)
    trained, frozen = config.parameter_counts
    test_tokens = tokens_of_test(task)
    return {
        # While they are stacked, each seed's initial values are there too; the optimizer comes later.
        "parameters": FLOAT * seeds * max(trained + frozen, 2 * (trained + frozen) - 4 * trained),
        "optimizer": FLOAT * seeds * 4 * trained,  # values in one vector, gradients and two moments
        "training data": TOKEN * tokens_of_block(config, device),
        "test set": TOKEN * test_tokens,
    }


def activations(config: RunConfig, device: torch.device, parts: int) -> int:
    """Return the bytes kept for the backward pass of one part of a batch."""
    model, rows = config.model, -(-config.training.batch // parts)
    at_once = max(1, min(len(config.seeds), CHANNELS_AT_ONCE[device.type] // model.width))
    computes_all = issubclass(model.engine, ReferenceEngine)  # other engines skip what no scored position reads
    tokens = rows * (config.task.max_length if computes_all else tokens_read(config.task))
    layers = getattr(model, "layers", None) or 1
    return int(FLOAT * at_once * tokens * model.width * layers * model.kept_per_token)


def tokens_read(task: Task) -> float:
    """Return the mean number of tokens up to the last scored position."""
    items = task.train_set()
    items = task.draw(ITEMS_DRAWN, make_generator(0, "memory")) if items is None else items[:ITEMS_DRAWN]
    columns = torch.arange(1, items.scored.shape[1] + 1)
    return float((items.scored * columns).amax(dim=1).float().mean())


def tokens_of_block(config: RunConfig, device: torch.device) -> int:
    """Return the number of training tokens that are prepared at once."""
    train_set = config.task.train_set()
    if train_set is not None:
        return train_set.tokens.numel()
    tokens = config.training.batch * config.task.max_length * BATCHES_MULTIPLE
    return max(1, BLOCK_TOKENS[device.type] // tokens) * tokens


def tokens_of_test(task: Task) -> int:
    if isinstance(task, Language):
        return 0 if task.folder is None else int(task.text.manifest["splits"]["validation"]["tokens"])
    if task.train_set() is not None:  # finite, and made already
        return len(task.test_set()) * task.max_length
    return task.test_size * task.max_length


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on a device, None if the system does not say."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    found = [each for each in (available(), *(left_of(*each) for each in CGROUPS)) if each is not None]
    return min(found, default=None)


def available(path: Path = Path("/proc/meminfo")) -> int | None:
    try:
        lines = path.read_text().splitlines()
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError, IndexError):
        return None


def left_of(limit: Path, used: Path) -> int | None:
    """Return what a control group may still use; its limit may be `max`."""
    try:
        return max(0, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):
        return None


def out_of_memory(config: RunConfig) -> InputError:
    batch, seeds = config.training.batch, len(config.seeds)
    way_out = f"--batch {batch // 2}" if batch > 1 else "a smaller model"
    if seeds > 1:
        way_out = f"--seeds {','.join(map(str, config.seeds[: seeds // 2]))} (then the others), or {way_out}"
    return InputError(f"out of memory with batch {batch} and {seeds} seed{'s' * (seeds > 1)}: try {way_out}")
