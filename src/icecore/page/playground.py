"""The playground's data: a small run whose frozen body, embeddings and test items fit into a page.

The page computes the transformer itself. Its body is drawn again from its seed, or stored in 16 bits; so are snapshots
of what trained, from before training to its end.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icecore.analysis.circles import circle_pair, components, strongest_frequency
from icecore.errors import InputError, require
from icecore.models import Transformer, parameter_of_role
from icecore.models.base import same_forward_pass
from icecore.page.along import OnTraining, Snapshot, ends_of, measured, way_of
from icecore.page.regenerate import drawn_again
from icecore.page.sources import PLAYGROUND_VERSION
from icecore.tasks import ModularAddition, Task
from icecore.tasks.base import has_long_answers
from icecore.tasks.lazy import strongest_lazy_rule
from icecore.training import RunConfig, TrainedRun, index_of, load

MOST_BYTES = 12 * 2**20  # bytes of weights; base64 adds a third
MOST_SETS = 4  # seeds whose trained parameters are kept
CIRCUMSTANCES = ("command", "commit", "device", "seconds", "torch")


@dataclass(frozen=True)
class PlaygroundOptions:
    snapshots: int = 20  # at most, beside the one before training; 0 keeps only that and the last
    may_train: bool = True  # one seed again, if the run saved no snapshots
    items: int = 100  # number of test items
    seed: int | None = None  # seed to watch; default: the run's first


def playground_of(path: Path, options: PlaygroundOptions, trust: bool, on_training: OnTraining) -> dict[str, Any]:
    """Return the data of a run's playground; for snapshots that it has not saved, one seed is trained again."""
    run = load(path, "cpu", trust)
    require_playable(run.config)
    seed = run.config.seeds[0] if options.seed is None else options.seed
    index_of(seed, run.config.seeds)
    watched = way_of(run, seed, options.snapshots, options.may_train, on_training)
    others = [other for other in run.config.seeds if other != seed][: MOST_SETS - 1]
    each = {seed: watched} | {other: ends_of(run, other) for other in others}
    sets = {of: [measured(run, of, one) for one in snapshots] for of, snapshots in each.items()}
    return playground_json(run, sets, options.items) | {"run": path.name}


def is_playable(config: RunConfig) -> bool:
    """Tell whether the page can compute a run's model and hold its weights."""
    try:
        require_playable(config)
    except InputError:
        return False
    return True


def require_playable(config: RunConfig) -> None:
    model = config.model
    can_compute = isinstance(model, Transformer) and same_forward_pass(model, Transformer)
    require(
        can_compute and getattr(model, "attention", "") in ("softmax", "prefix-sum"),
        f"the playground computes transformers with softmax or prefix-sum attention, and this is {model.name}; "
        "train one with icecore train TASK --width 64 --init matched",
    )
    size = 2 * sum(spec.size for spec in model.specs(config.dims).values())
    require(
        size <= MOST_BYTES,
        f"the weights take {size / 2**20:.0f} MiB, and a page holds {MOST_BYTES / 2**20:.0f}; train a smaller run "
        "(--width 64 or 128)",
    )


def playground_json(run: TrainedRun, sets: Mapping[int, Sequence[Snapshot]], items: int) -> dict[str, Any]:
    """Return the data: parameters by name and how to get them, bodies, and snapshots by seed."""
    config, task = run.config, run.config.task
    trained, specs = config.trained_names, config.model.specs(config.dims)
    kept = {"position": task.max_length}  # rows of it that prompts can reach
    bodies = {seed: {name: each for name, each in config.initial(seed).items() if name not in trained} for seed in sets}
    again = {
        name: shared([drawn_again(specs[name], name, seed, body[name]) for seed, body in bodies.items()])
        for name in specs
        if name not in trained
    }
    stored = [name for name, how in again.items() if how is None]
    parameters = [
        {
            "name": name,
            "shape": spec.shape,
            "rows": min(kept.get(name, spec.shape[0]), spec.shape[0]),
            "from": "snapshot" if name in trained else again[name] or "body",
        }
        for name, spec in specs.items()
    ]
    model: Any = config.model
    return {
        "kind": "playground",
        "version": PLAYGROUND_VERSION,
        "task": task_json(task, items),
        "model": {name: getattr(model, name) for name in ("width", "layers", "heads", "attention", "init")},
        "trainable": config.trainable,
        "made": made_of(run),
        "parameters": parameters,
        "bodies": {str(seed): in_16_bits([body[name] for name in stored]) for seed, body in bodies.items()}
        if stored
        else {},
        "sets": [set_json(seed, snapshots, trained, kept) for seed, snapshots in sets.items()],
        "picture": picture_json(config, next(iter(sets.values()))[-1]),
    }


def made_of(run: TrainedRun) -> dict[str, Any]:
    """Return how the run was made: command, commit, device, seconds and version of torch."""
    known = {**run.result, **run.result.get("versions", {})}
    return {name: known[name] for name in CIRCUMSTANCES if name in known}


def shared(each: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    """Return how a page regenerates a parameter, or None if it cannot for some seed."""
    return each[0] if all(one is not None for one in each) else None


def set_json(
    seed: int, snapshots: Sequence[Snapshot], trained: Sequence[str], kept: Mapping[str, int]
) -> dict[str, Any]:
    weights = [one.parameters[name][: kept.get(name)] for one in snapshots for name in trained]
    return {
        "seed": seed,
        "snapshots": [{"step": one.step, "accuracy": one.accuracy, "loss": one.loss} for one in snapshots],
        "trained": list(trained),
        "weights": in_16_bits(weights),
    }


def in_16_bits(tensors: Sequence[Tensor]) -> str:
    """Return tensors as float16, one after the other, in base64."""
    half = [tensor.detach().cpu().half().contiguous() for tensor in tensors]
    require(
        all(bool(tensor.isfinite().all()) for tensor in half), "a weight is beyond what 16 bits hold: no playground"
    )
    return base64.b64encode(b"".join(tensor.numpy().tobytes() for tensor in half)).decode()


def task_json(task: Task, count: int) -> dict[str, Any]:
    """Return words of all tokens, test items, and which tokens end a prompt or only fill short items."""
    items, rule = task.test_items(), strongest_lazy_rule(task)
    settings = ", ".join(in_words(name, value) for name, value in vars(task).items())
    return {
        "name": task.name,
        "settings": settings,
        "words": [task.words([token])[0] for token in range(task.vocab_size)],
        "answers": [task.answer_words([token])[0] for token in range(task.vocab_size)],
        "length": task.max_length,
        "ends": sorted({item.prompt[-1] for item in items}),
        "padding": padding_of(task),
        "items": [{"tokens": item.prompt, "answer": item.answer[0]} for item in items[:count]],
        "long": has_long_answers(task),
        "baselines": task.baselines() | ({} if rule is None else {rule.name: rule.accuracy}),
    }


def in_words(setting: str, value: object) -> str:
    name = setting.replace("_", " ").replace("in stream", "in the training data")
    return f"{name}: {('no', 'yes')[value]}" if isinstance(value, bool) else f"{name} {value}"


def padding_of(task: Task) -> list[int]:
    """Return the tokens that stand behind the last scored position and nowhere else."""
    test = task.test_set()
    is_behind = torch.arange(test.tokens.shape[1]) >= test.lengths[:, None]
    answers = test.targets[test.scored]
    behind, others = test.tokens[is_behind].unique(), torch.cat([test.tokens[~is_behind], answers]).unique()
    return sorted(set(behind.tolist()) - set(others.tolist()))


def picture_json(config: RunConfig, last: Snapshot) -> dict[str, Any]:
    """Return which components of the token embeddings show best, and a colour from 0 to 1 per token."""
    count = config.task.vocab_size
    everything = config.initial(config.seeds[0]) | last.parameters
    places = components(parameter_of_role(config.model, everything, "token"))
    if isinstance(config.task, ModularAddition):
        pair = circle_pair(places)
        turns = strongest_frequency(places[:, pair[0]])
        return {"pair": pair, "colours": [number * turns % count / count for number in range(count)], "cyclic": True}
    return {"pair": (0, 1), "colours": [number / max(1, count - 1) for number in range(count)], "cyclic": False}
